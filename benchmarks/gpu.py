"""The CUDA path of the server, proved and measured: `python -m benchmarks.gpu [--json FILE]`.

It needs a GPU and an environment with `.[serve-gpu]`, and no network, PyTorch or onnx. The demo models are in the
checkout; `--repository` names others.

Loading a model holds its answers to PyTorch's, within the tolerances of its bundle; a model that differs is refused and
named. For every model and every way of starting the server: the provider of its nodes, rows a second by instances a
call, milliseconds of a call with maps, and rows a second for 32 callers. One way gives each graph 64 MiB of the GPU, so
that large batches have to be cut; every call must be answered. The CPU of the same machine stands beside it. Without a
GPU it ends with status 3; `--provider cpu` runs everything on the CPU, which proves the script alone.
"""

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from pathlib import Path

import limelight
from benchmarks import records
from benchmarks.demo_calls import ATTEND, DEMO, PREDICT
from benchmarks.load.generator import run_clean
from benchmarks.load.plan import OK, Plan, percentile
from benchmarks.process import ServerProcess
from benchmarks.tables import of_rows
from limelight.v1 import attention_pb2, service_pb2, values_pb2

BATCHES = (1, 8, 32, 128)
CALLERS, ATTENDED = 32, 8
NO_GPU = 3
CUDA = "CUDAExecutionProvider"
WAYS = {
    "as it is": (),
    "without CUDA graphs": ("--no-gpu-graphs",),
    "TF32": ("--gpu-tf32",),
    "64 MiB a graph": ("--gpu-memory-bytes", str(64 * 2**20)),
}
_LARGEST = str(256 * 2**20)  # bytes of a request, and of an answer
_MAPS: Mapping[str, attention_pb2.AttentionOptions | None] = {
    "none": None,
    "all": attention_pb2.AttentionOptions(),
    "float16": attention_pb2.AttentionOptions(encoding=attention_pb2.ENCODING_FLOAT16),
    "one row": attention_pb2.AttentionOptions(selections=[attention_pb2.MapSelection(heads=[0], queries=[0])]),
}


@dataclass(frozen=True)
class Report:
    """A model on a server. rates: rows a second, by instances a call; attended: ms of a call of 8 instances, by maps.

    nodes: of each graph, their number by provider. served: rows a second for 32 callers of one instance each.
    """

    model: str
    way: str
    nodes: dict[str, dict[str, int]]
    rates: dict[str, float]
    attended: dict[str, float]
    served: float


def card_name() -> str:
    """Name the GPU as its driver does; empty where there is none."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return ""
    command = [program, "--query-gpu=name", "--format=csv,noheader"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.stdout.strip().splitlines()[0] if result.returncode == 0 and result.stdout.strip() else ""


def reports(repository: Path, way: str, flags: Sequence[str], seconds: float) -> list[Report]:
    """Start a server and report on each of its models."""
    found = []
    limits = ("--max-request-bytes", _LARGEST, "--max-response-bytes", _LARGEST)
    with ServerProcess(repository, *limits, *flags) as server, limelight.Client(server.target) as client:
        for status in client.models():
            if status.state == "ready":
                found.append(report(client.model(status.name), way, server, seconds))
            else:
                print(f"{status.name} version {status.version} is {status.state}, {way}: {status.reason}")
    return found


def report(model: limelight.Model, way: str, server: ServerProcess, seconds: float) -> Report:
    """Measure one model with its examples."""

    def plan(instances: int, options: attention_pb2.AttentionOptions | None = None, callers: int = 1) -> Plan:
        method, message = request(model, instances, options)
        return Plan(server.target, method, [message], seconds, concurrency=callers, pids=server.pids)

    attended = {name: run_clean(plan(ATTENDED, options)).latencies[OK] for name, options in _MAPS.items()}
    return Report(
        model=model.name,
        way=way,
        nodes={each.name: dict(each.nodes) for each in model.graphs},
        rates={str(batch): batch * run_clean(plan(batch)).rate for batch in BATCHES},
        attended={name: percentile(times, 0.5) * 1e3 for name, times in attended.items()},
        served=run_clean(plan(1, callers=CALLERS)).rate,
    )


def request(
    model: limelight.Model, instances: int, options: attention_pb2.AttentionOptions | None
) -> tuple[str, bytes]:
    """Give the method and the message of a call with so many of the model's examples."""
    asked = values_pb2.Model(name=model.name)
    rows = list(islice(cycle(model.examples), instances))
    if options is None:
        return PREDICT, service_pb2.PredictRequest(model=asked, instances=rows).SerializeToString()
    attend = service_pb2.AttendRequest(model=asked, instances=rows, attention=options)
    return ATTEND, attend.SerializeToString()


def main() -> None:
    """Run the proof."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repository", type=Path, default=DEMO)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each measurement")
    parser.add_argument("--provider", choices=("cuda", "cpu"), default="cuda", help="cpu: proves the script alone")
    parser.add_argument("--json", type=Path, help="write the reports to this file")
    parser.add_argument("--keep", action="store_true", help="write the record of the repository")
    options = parser.parse_args()
    card = card_name()
    if options.provider == "cuda" and not card:
        print("There is no GPU here: nvidia-smi names none.", file=sys.stderr)
        raise SystemExit(NO_GPU)
    started = {way: ("--provider", options.provider, *flags) for way, flags in WAYS.items()}
    started["CPU"] = ("--provider", "cpu")
    found = [
        each for way, flags in started.items() for each in reports(options.repository, way, flags, options.seconds)
    ]
    print("\n".join([f"Card: {card or 'none'}", "", *of_rows(found)]))
    if options.json:
        options.json.write_text(
            json.dumps({"card": card, "reports": [asdict(each) for each in found]}, indent=1) + "\n"
        )
    records.save("gpu", found, keep=options.keep)
    for each in found:
        if options.provider == "cuda" and each.way != "CPU" and not any(CUDA in by for by in each.nodes.values()):
            raise SystemExit(f"{each.model} has no node on {CUDA}, {each.way}")


if __name__ == "__main__":
    main()
