"""Proves and measures the server on a GPU, in stages, each of which writes its own JSON when it ends.

    python -m benchmarks.gpu.models           # once, where PyTorch is: the models, into build/benchmarks-gpu
    python -m benchmarks.gpu                  # every stage: about eight minutes
    python -m benchmarks.gpu parity predict   # some of them
    python -m benchmarks.gpu --keep           # and writes the record of the repository

On the machine with the GPU it needs `./client` and `.[serve-gpu]`, and neither a network nor PyTorch; where only
what they need is installed, PYTHONPATH=client:bundle:models:export:service:tools beside it. Stages:

    parity      the GPU's answers beside the CPU's, maps and generated tokens too; nodes that stay on the CPU
    predict     answers a second at 128 tokens by frontends and callers, beside the runtime alone
    kinds       other lengths, one row, all maps, calls of many rows
    precision   float16
    generation  tokens a second, together and one by one
    limits      TF32, memory, batches that are too much for it
    triton      Triton's core on the same card (needs `make peers`)

Without a GPU it ends with status 3; `--provider cpu` runs everything on the CPU, which proves the script alone.
"""

import argparse
import json
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import records
from benchmarks.gpu import beside_triton, generating, limits, models, parity, throughput
from benchmarks.gpu.setup import Setup, card
from benchmarks.tables import of_rows

NO_GPU = 3
STAGES: dict[str, Callable[[Setup], Iterator[Any]]] = {
    "parity": parity.run,
    "predict": throughput.predict,
    "kinds": throughput.kinds,
    "precision": throughput.precision,
    "generation": generating.run,
    "limits": limits.run,
    "triton": beside_triton.run,
}
_TRIED = records.ROOT / "build" / "benchmarks-gpu-results"


def run_stage(name: str, setup: Setup) -> bool:
    """Run a stage; write its rows as they come, and print them. Returns False where the stage failed."""
    rows: list[Any] = []
    begin, failed = time.monotonic(), ""
    try:
        for row in STAGES[name](setup):
            rows.append(row)
            _write(name, setup, rows, failed)
    except Exception:
        failed = traceback.format_exc()
        print(failed, flush=True)
    _write(name, setup, rows, failed)
    print("\n".join([f"{name}: {time.monotonic() - begin:.0f} s", *of_rows(rows), ""]), flush=True)
    return not failed and all(getattr(row, "holds", True) for row in rows)


def _write(name: str, setup: Setup, rows: list[Any], failed: str) -> None:
    content = {"card": card(), **records.origin(), "failed": failed, "rows": [asdict(each) for each in rows]}
    (setup.out / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")


def main() -> None:
    """Run stages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stages", nargs="*", metavar="STAGE", help="all of them if none is given")
    parser.add_argument("--models", type=Path, default=models.FOLDER, help="the folder of benchmarks.gpu.models")
    parser.add_argument("--seconds", type=float, default=0.8, help="of each measurement")
    parser.add_argument("--provider", choices=("cuda", "cpu"), default="cuda", help="cpu: proves the script alone")
    parser.add_argument("--out", type=Path, default=_TRIED, help="the folder for results and logs")
    parser.add_argument("--keep", action="store_true", help="write the record of the repository")
    options = parser.parse_args()
    if unknown := set(options.stages) - set(STAGES):
        parser.error(f"no stage {sorted(unknown)}; there are {', '.join(STAGES)}")
    if options.provider == "cuda" and not card():
        print("There is no GPU here: nvidia-smi names none.", file=sys.stderr)
        raise SystemExit(NO_GPU)
    options.out.mkdir(parents=True, exist_ok=True)
    setup = Setup(options.provider, options.models, options.seconds, options.out)
    passed = [run_stage(name, setup) for name in options.stages or STAGES]
    if options.keep:
        keep(options.out)
    raise SystemExit(not all(passed))


def keep(folder: Path) -> None:
    """Write the record of the repository from the results of stages. Raises: ValueError where they differ in origin."""
    found = {
        name: json.loads((folder / f"{name}.json").read_text()) for name in STAGES if (folder / f"{name}.json").exists()
    }
    record, *others = [{key: each[key] for key in ("card", "machine", "commit")} for each in found.values()]
    if any(each != record for each in others):
        raise ValueError(f"the stages are of several origins: {[record, *others]}")
    stages = {name + (", ended early" if each["failed"] else ""): each["rows"] for name, each in found.items()}
    records.write(records.place("gpu", keep=True), record | {"stages": stages})


if __name__ == "__main__":
    main()
