"""Stage `generation`: tokens a second, sequences together and one by one."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from benchmarks.demo_calls import date_instance
from benchmarks.generation import Generated, measure
from benchmarks.gpu.setup import Setup, start
from benchmarks.peers.echo import Echo
from limelight.v1 import service_pb2, values_pb2

_CALLERS, _ROUNDS = (16, 64), 2


def run(setup: Setup) -> Iterator[Generated]:
    """Measure each decoder, on the GPU and on the CPU of the same machine."""
    with ExitStack() as stack:
        servers = {
            provider: setup.server(f"generation-{provider}", setup.decoders, provider=provider)
            for provider in dict.fromkeys((setup.provider, "cpu"))
        }
        start(stack, list(servers.values()))
        bare = stack.enter_context(Echo())
        for provider, server in servers.items():
            for model in sorted(each.name for each in setup.decoders.iterdir()):
                for callers in _CALLERS if provider == setup.provider else _CALLERS[:1]:
                    found = measure(server.target, bare.target, model, _requests(model, callers), _ROUNDS)
                    yield Generated(**{**vars(found), "model": f"{model}, {provider}"})


def _requests(model: str, callers: int) -> Sequence[bytes]:
    named = values_pb2.Model(name=model)
    return [
        service_pb2.GenerateRequest(model=named, instance=date_instance(number)).SerializeToString()
        for number in range(callers)
    ]
