"""The models that a GPU is measured with, random weights: `python -m benchmarks.gpu.models [FOLDER]`.

They need PyTorch to be made, and nothing but the runtime to be served, so that a machine with a GPU takes a copy.
"""

import sys
from dataclasses import replace
from pathlib import Path

from benchmarks.records import ROOT

FOLDER = ROOT / "build" / "benchmarks-gpu"
GENERATING = "generating"
FLOAT16 = "_float16"
# As MiniLM, packed: padding is left out of everything but attention; the same padded; and of BERT's size, padded.
PACKED, PADDED, BASE = "minilm_packed", "minilm", "bert_base"


def make(folder: Path) -> Path:
    """Export the missing models: encoders into `folder`, decoders with caches into its folder `generating`."""
    from benchmarks import decoders
    from benchmarks.encoder import export_encoder
    from benchmarks.encoder_sizes import EncoderConfig

    small = EncoderConfig(packs=False)
    models = {
        PACKED: replace(small, packs=True),
        PADDED: small,
        BASE: replace(small, layers=12, width=768, inner=3072),
    }
    for name, config in models.items():
        export_encoder(folder / "encoders", name, config)
        export_encoder(folder / "encoders", name + FLOAT16, config, precision="float16")
    decoders.make_repository(folder / GENERATING)
    return folder


if __name__ == "__main__":
    print(make(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER))
