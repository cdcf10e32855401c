"""Stage `limits`: TF32, the memory of the GPU, and batches that are too much for it."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace

import grpc

from benchmarks.demo_calls import DEMO, KINDS
from benchmarks.gpu.models import PADDED
from benchmarks.gpu.setup import Setup, load, refusal, start, used_bytes
from benchmarks.gpu.throughput import messages
from benchmarks.load import LoadError
from benchmarks.process import Process
from benchmarks.serving.inputs import ALL_MAPS, PREDICT_IT

_MEMORY = 160 * 2**20  # bytes a graph may hold: its weights, and some rows of 256 tokens with their maps
WAYS = {
    "as it is": (),
    "TF32": ("--gpu-tf32",),
    "160 MiB a graph": ("--gpu-memory-bytes", str(_MEMORY)),
}
_CALLERS = (1, 8, 128)


@dataclass(frozen=True)
class Way:
    """A way of starting the server. p50: ms of a call by callers and tokens; rate: answers a second of 128 callers.

    small: ms of a call of a small model of the demo, for one caller.
    long: answers a second of 16 callers with all maps of 256 tokens, of which some batches are too large where memory
    is limited; or how calls failed. memory: MiB of the GPU that the server takes, at the end.
    In place of a number: why a model is refused.
    """

    way: str
    p50: dict[str, float]
    rate: float | str
    small: float | str
    long: float | str
    memory: float


def run(setup: Setup) -> Iterator[Way]:
    """Start the server in each way, one after the other."""
    for name, flags in WAYS.items():
        before = used_bytes()
        with ExitStack() as stack:
            server = setup.server(f"limits-{name.replace(' ', '-')}", setup.encoders, "--frontends", "4", *flags)
            demo = setup.server(f"limits-demo-{name.replace(' ', '-')}", DEMO, "--frontends", "1", *flags)
            start(stack, [server, demo])
            method, request = KINDS["pictures"]
            small: float | str = refusal(demo, "digits")
            small = small or load(demo, method, [request(number) for number in range(16)], 1, setup.seconds).p50
            kind = replace(PREDICT_IT, model=PADDED)
            refused = refusal(server, PADDED)
            found = {
                (callers, lengths): load(server, kind.method, messages(kind, lengths), callers, setup.seconds)
                for lengths in (() if refused else ("32", "128"))
                for callers in _CALLERS
            }
            long = refused or _long(server, setup.seconds)
            yield Way(
                way=name,
                p50={f"{callers} × {lengths}": each.p50 for (callers, lengths), each in found.items()},
                rate=refused or found[_CALLERS[-1], "128"].rate,
                small=small,
                long=long,
                memory=(used_bytes() - before) / 2**20,
            )


def _long(server: Process, seconds: float) -> float | str:
    """Load a server with batches that need much memory; then a call of one must be answered. Raises: grpc.RpcError."""
    kind = replace(ALL_MAPS, model=PADDED)
    requests = messages(kind, "256")
    found: float | str
    try:
        found = load(server, kind.method, requests, 16, seconds).rate
    except LoadError as error:
        found = str(error)
    with grpc.insecure_channel(server.target, [("grpc.max_receive_message_length", -1)]) as channel:
        channel.unary_unary(kind.method)(requests[0], timeout=60)
    return found
