"""Versions that take each other's place under load: `python -m hostile.swaps --swaps 50`, ten minutes.

Callers of both protocols ask for the default version of one model all the while. Version after version is written into
the repository's folder, loaded, and the one before it is taken out: by calls (`explicit`), or by the folder alone
(`poll`). No call may fail, and once the load is over the memory is what it was after the swaps that warm the server up:
the allocator of the C library takes about a hundred of them until it keeps no more.
"""

import argparse
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import numpy as np

import limelight
from benchmarks.processor import family, own_bytes
from limelight.v1 import service_pb2_grpc
from limelight_service.open_inference import open_inference_pb2 as pb
from tests.kit import bundles
from tests.kit.processes import process, started
from tests.kit.serving import attend, eventually, generate, predict, text
from tests.service.open_inference.calls import infer_request, texts, unary

MODEL = "swapped"
MEBIBYTE = 2**20
_REST = 12.0  # seconds in which a quiet server gives back what the C library keeps
_ROWS = 48  # enough to be preprocessed on threads: a version may go meanwhile
_PAUSE = 0.05  # seconds of load with each version


@dataclass
class Outcome:
    """Observations of callers.

    failed: by what was asked, and what was told. versions: that answered. memory: MiB at rest, once warm and at the
    end; empty where nobody waited for it.
    """

    answered: Counter[str] = field(default_factory=Counter)
    failed: Counter[tuple[str, str]] = field(default_factory=Counter)
    versions: set[int] = field(default_factory=set)
    memory: list[float] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def growth(self) -> float:
        """Memory at the end beside that once warm, as a share of it."""
        warm, last = self.memory
        return last / warm - 1


class Callers:
    """Threads that ask, each on a connection of its own, from entering to leaving."""

    def __init__(self, target: str, outcome: Outcome, count: int) -> None:
        self._target, self._outcome, self._count = target, outcome, count
        self._over = threading.Event()
        self._lock = threading.Lock()

    def __enter__(self) -> "Callers":
        kinds = (self._predict, self._attend, self._infer, self._generate)
        self._threads = [threading.Thread(target=self._ask, args=(kinds[n % len(kinds)],)) for n in range(self._count)]
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for each in self._threads:
            each.join()

    def _ask(self, once: Callable[[grpc.Channel], int]) -> None:
        name = once.__name__.removeprefix("_")
        with grpc.insecure_channel(self._target, [("grpc.use_local_subchannel_pool", 1)]) as channel:
            while not self._over.is_set():
                try:
                    version = once(channel)
                except grpc.RpcError as error:
                    told = f"{error.code().name}: {error.details()}"  # type: ignore[attr-defined]
                    with self._lock:
                        self._outcome.failed[name, told] += 1
                else:
                    with self._lock:
                        self._outcome.answered[name] += 1
                        self._outcome.versions.add(version)

    def _predict(self, channel: grpc.Channel) -> int:
        request = predict(MODEL, *[text("the cat sat on a mat . " * 3)] * _ROWS)
        answer = service_pb2_grpc.AttentionServiceStub(channel).Predict(request, timeout=60)
        return int(answer.predictions[0].provenance.model.version)

    def _attend(self, channel: grpc.Channel) -> int:
        request = attend(MODEL, text("a dog ran far"))
        answer = service_pb2_grpc.AttentionServiceStub(channel).Attend(request, timeout=60)
        return int(answer.results[0].prediction.provenance.model.version)

    def _infer(self, channel: grpc.Channel) -> int:
        request = infer_request(MODEL, {"text": texts("the cat", "on a mat")}, "words")
        return int(unary(channel, "ModelInfer", request, pb.ModelInferResponse).model_version)

    def _generate(self, channel: grpc.Channel) -> int:
        stub = service_pb2_grpc.AttentionServiceStub(channel)
        *_, last = stub.Generate(generate(MODEL, text("the cat sat")), timeout=60)
        return int(last.end.provenance.model.version)


@contextmanager
def swapping(control: str, frontends: int) -> Iterator[tuple[str, Path, int]]:
    """A server of one model, in processes of its own: its address, its repository and the first process."""
    with ExitStack() as stack:
        repository = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        write(repository, 1)
        flags = ("--repository", str(repository), "--port", "0", "--metrics-port", "0", "--provider", "cpu")
        flags += ("--model-control", control, "--frontends", str(frontends), "--log-level", "warning")
        running, _ = stack.enter_context(process(*flags, limits={"poll_seconds": 0.2}))
        yield started(running), repository, running.pid


def write(repository: Path, version: int) -> None:
    """Write a version of the model."""
    bundles.echo(repository, MODEL, version=version)


def by_calls(target: str, repository: Path, version: int) -> None:
    """Load a version, and unload the one before it, as an operator does."""
    with limelight.Client(target) as client:
        status = client.load_model(MODEL, version)
        assert status.state == "ready" and status.default, status
        client.unload_model(MODEL, version - 1)
    shutil.rmtree(repository / MODEL / str(version - 1))


def by_folder(target: str, repository: Path, version: int) -> None:
    """Take the version before away, once the new one answers, and wait until it is gone."""
    with limelight.Client(target) as client:
        assert eventually(lambda: default(client) == version, 60), "the new version does not answer"
        shutil.rmtree(repository / MODEL / str(version - 1))
        assert eventually(lambda: len(client.models()) == 1, 60), "the old version is still there"


def default(client: limelight.Client) -> int:
    """The version that answers."""
    return next(each.version for each in client.models() if each.default)


def swap(control: str, frontends: int, swaps: int, callers: int = 4, *, warm_up: int = 0) -> Outcome:
    """Swap versions under load. warm_up: so many swaps go before, and memory is noted after both; 0 for neither."""
    outcome = Outcome()
    change = by_calls if control == "explicit" else by_folder
    with swapping(control, frontends) as (target, repository, pid):

        def some(versions: Sequence[int]) -> None:
            with Callers(target, outcome, callers):
                for version in versions:
                    write(repository, version)
                    change(target, repository, version)
                    time.sleep(_PAUSE)
            if warm_up:
                outcome.memory.append(least(family(pid)))

        began = time.monotonic()
        if warm_up:
            some(range(2, 2 + warm_up))
        some(range(2 + warm_up, 2 + warm_up + swaps))
        outcome.seconds = time.monotonic() - began
    return outcome


def least(pids: Sequence[int]) -> float:
    """The least memory of processes while a quiet server gives back what it can, in MiB."""
    end, found = time.monotonic() + _REST, np.inf
    while time.monotonic() < end:
        found = min(found, own_bytes(pids) / MEBIBYTE)
        time.sleep(0.5)
    return float(found)


def main() -> None:
    """Swap, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--swaps", type=int, default=50)
    parser.add_argument("--warm-up", type=int, default=100, help="so many swaps before")
    parser.add_argument("--callers", type=int, default=4)
    options = parser.parse_args()
    bad = False
    for control in ("explicit", "poll"):
        for frontends in (0, 2):
            found = swap(control, frontends, options.swaps, options.callers, warm_up=options.warm_up)
            warm, last = found.memory
            print(
                f"{control}, {frontends} frontends: {options.warm_up} + {options.swaps} swaps, {found.seconds:.0f} s, "
                f"{found.answered.total()} calls answered by {len(found.versions)} versions, "
                f"{found.failed.total()} failed; {warm:.1f} MiB once warm, {last:.1f} MiB at the end "
                f"({found.growth:+.1%})",
                flush=True,
            )
            for (name, told), count in found.failed.most_common(5):
                print(f"  {count} × {name}: {told}")
            bad = bad or bool(found.failed) or found.growth > 0.05
    sys.exit(int(bad))


if __name__ == "__main__":
    main()
