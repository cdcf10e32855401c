"""Stage `generation`: tokens a second, sequences together and one by one."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

from benchmarks.demo_calls import date_instance
from benchmarks.generation import Generated, measure, requests_for
from benchmarks.gpu.models import GENERATING
from benchmarks.gpu.setup import Setup, start
from benchmarks.peers.echo import Echo

_CALLERS, _ROUNDS = (16, 64), 2


def run(setup: Setup) -> Iterator[Generated]:
    """Measure each decoder, on the GPU and on the CPU of the same machine."""
    decoders = setup.models / GENERATING
    with ExitStack() as stack:
        servers = {
            provider: setup.server(f"generation-{provider}", decoders, provider=provider)
            for provider in dict.fromkeys((setup.provider, "cpu"))
        }
        start(stack, list(servers.values()))
        bare = stack.enter_context(Echo())
        for provider, server in servers.items():
            for model in sorted(each.name for each in decoders.iterdir()):
                for callers in _CALLERS if provider == setup.provider else _CALLERS[:1]:
                    instances = [date_instance(number) for number in range(callers)]
                    found = measure(server.target, bare.target, model, requests_for(model, instances), _ROUNDS)
                    yield replace(found, model=f"{model}, {provider}")
