"""Speed of int8 on a CPU, and how far the answer of a row depends on its batch: `python -m benchmarks.precision`.

The encoder in float32, in int8 as it is exported (a scale for each row of activations), and as ONNX Runtime's
`quantize_dynamic` would make it (one for the whole batch), in the runtime alone: one thread, by turns, medians. Half a
minute beside the exports.
"""

import argparse
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from benchmarks.encoder import export_encoder
from benchmarks.encoder_sizes import MODELS, NAME, VOCABULARY
from benchmarks.records import ROOT, save
from benchmarks.tables import of_rows

FLOAT32, INT8, DYNAMIC = "float32", "int8", "quantize_dynamic"
_VERSIONS = {FLOAT32: 1, INT8: 2}
_LENGTHS = (32, 128)
# Rows of one batch: tokens of each.
_MIXED = (64, 61, 40, 17, 1, 64, 33, 50)


@dataclass(frozen=True)
class Measured:
    """One kind of graph. megabytes: of its file. rates, cpu: rows a second, and the processor's ms a row, by tokens.

    alone, from_float32: the largest differences of a logit, of a row in a padded batch from itself alone, and of a row
    from float32's.
    """

    name: str
    megabytes: float
    rates: Mapping[str, float]
    cpu: Mapping[str, float]
    alone: float
    from_float32: float


def graphs(folder: Path) -> dict[str, Path]:
    """Make what is not there yet."""
    made = {
        precision: export_encoder(folder, NAME, MODELS[NAME], version=version, precision=precision) / "model.onnx"
        for precision, version in _VERSIONS.items()
    }
    made[DYNAMIC] = folder / "quantize_dynamic.onnx"
    if not made[DYNAMIC].is_file():
        from onnxruntime.quantization import quantize_dynamic

        quantize_dynamic(
            made[FLOAT32], made[DYNAMIC], op_types_to_quantize=["MatMul", "Gemm"], per_channel=True, reduce_range=True
        )
    return made


def measure(files: Mapping[str, Path], turns: int) -> list[Measured]:
    """Take turns between the graphs."""
    sessions = {name: _session(file) for name, file in files.items()}
    chance = np.random.default_rng(0)
    wall: dict[tuple[str, int], list[float]] = {}
    cpu: dict[tuple[str, int], list[float]] = {}
    for length in _LENGTHS:
        fed = _feeds(chance.integers(1, VOCABULARY, (1, length)), [length])
        for turn in range(turns + 1):
            for name, session in sessions.items():
                began, used = time.perf_counter(), time.thread_time()
                session.run(["logits"], fed)
                if turn:  # the first is not counted
                    cpu.setdefault((name, length), []).append(time.thread_time() - used)
                    wall.setdefault((name, length), []).append(time.perf_counter() - began)
    ids = chance.integers(1, VOCABULARY, (len(_MIXED), max(_MIXED)))
    mixed = {name: _logits(session, ids) for name, session in sessions.items()}
    return [
        Measured(
            name=name,
            megabytes=file.stat().st_size / 1e6,
            rates={str(length): 1 / statistics.median(wall[name, length]) for length in _LENGTHS},
            cpu={str(length): statistics.median(cpu[name, length]) * 1e3 for length in _LENGTHS},
            alone=float(np.abs(mixed[name][0] - mixed[name][1]).max()),
            from_float32=float(np.abs(mixed[name][1] - mixed[FLOAT32][1]).max()),
        )
        for name, file in files.items()
    ]


def _session(file: Path) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])


def _feeds(ids: "np.ndarray[Any, Any]", lengths: Sequence[int]) -> dict[str, Any]:
    mask = np.arange(ids.shape[1]) < np.array(lengths)[:, np.newaxis]
    return {"token_ids": np.where(mask, ids, 0), "token_mask": mask}


def _logits(session: Any, ids: "np.ndarray[Any, Any]") -> tuple[Any, Any]:
    """Answer the mixed rows in one batch, then each alone."""
    together = session.run(["logits"], _feeds(ids, _MIXED))[0]
    alone = [session.run(["logits"], _feeds(ids[row : row + 1, :size], [size])) for row, size in enumerate(_MIXED)]
    return together, np.concatenate([logits for (logits,) in alone])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=60)
    parser.add_argument("--keep", action="store_true", help="write the record of the repository")
    arguments = parser.parse_args()
    rows = measure(graphs(ROOT / "build" / "benchmarks-precision"), arguments.turns)
    print("\n".join(of_rows(rows)))
    save("precision", rows, keep=arguments.keep)


if __name__ == "__main__":
    main()
