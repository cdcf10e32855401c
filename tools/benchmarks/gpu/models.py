"""The models that a GPU is measured with, random weights: `python -m benchmarks.gpu.models [FOLDER]`.

They need PyTorch to be made, and nothing but the runtime to be served, so that a machine with a GPU takes a copy.
"""

import sys
from dataclasses import replace
from pathlib import Path

from benchmarks.records import ROOT

FOLDER = ROOT / "build" / "benchmarks-gpu"
# Repositories: encoders in float32 and float16; decoders with caches; small models, of which only answers count.
ENCODERS, HALVES, GENERATING, SMALL = "encoders", "float16", "generating", "small"
FLOAT16 = "_float16"
# As MiniLM, packed: padding is left out of everything but attention; the same padded; and of BERT's size, padded.
PACKED, PADDED, BASE = "minilm_packed", "minilm", "bert_base"


def make(folder: Path) -> Path:
    """Export the missing models into repositories below `folder`."""
    from benchmarks import decoders
    from benchmarks.encoder import export_encoder
    from benchmarks.encoder_sizes import MODELS, TINY, EncoderConfig

    small = EncoderConfig(packs=False)
    base = replace(small, layers=12, width=768, inner=3072)
    export_encoder(folder / ENCODERS, PACKED, replace(small, packs=True))
    for name, config in ((PADDED, small), (BASE, base)):
        export_encoder(folder / ENCODERS, name, config)
        export_encoder(folder / HALVES, name + FLOAT16, config, precision="float16")
    decoders.make_repository(folder / GENERATING)
    export_encoder(folder / SMALL, "intervened", MODELS[TINY], interventions=True)
    export_encoder(folder / SMALL, "int8", replace(small, layers=1), precision="int8")
    sizes = {"d_model": 32, "layers": 2, "heads": 2, "d_hidden": 64, "max_new_tokens": 8}
    decoders.make_repository(folder / SMALL, sizes, interventions=True)
    return folder


if __name__ == "__main__":
    print(make(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER))
