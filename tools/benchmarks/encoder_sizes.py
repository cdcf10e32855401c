"""The sizes of the models of the serving benchmark; `benchmarks.encoder` makes them."""

from dataclasses import dataclass

NAME = "encoder"
PLAIN = "encoder_without_maps"
TINY = "tiny"
VOCABULARY = 8_000
LONGEST = 512


@dataclass(frozen=True)
class EncoderConfig:
    """Sizes: 6 layers, 384 wide, 12 heads, as most sentence embedders have; with maps or without; packed or padded."""

    layers: int = 6
    width: int = 384
    heads: int = 12
    inner: int = 1536
    longest: int = LONGEST
    maps: bool = True
    packs: bool = True


MODELS = {
    NAME: EncoderConfig(),
    PLAIN: EncoderConfig(maps=False),
    TINY: EncoderConfig(layers=1, width=32, heads=2, inner=64, packs=False),
}
