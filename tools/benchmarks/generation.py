"""Tokens a second of generations one after another and all at once, and the time to the first token beside others.

    python -m benchmarks.generation                  # a model of the demo and those of decoders.py, a minute
    python -m benchmarks.generation --repository DIR --model NAME --text TEXT TEXT

By turns: `--callers` sequences one after another, the same all at once, one alone and one beside the others; and as
many messages of one token from a server that computes nothing.
"""

import argparse
import asyncio
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc

from benchmarks.demo_calls import DEMO, GENERATE, date_instance
from benchmarks.peers.echo import AGAIN, Echo
from benchmarks.process import ServerProcess
from benchmarks.records import ROOT, save
from benchmarks.tables import of_rows
from limelight.v1 import service_pb2, values_pb2

_TOKEN = service_pb2.GenerateResponse(
    token=service_pb2.GeneratedToken(index=5, id=17, text="7", delta="7", log_probability=-0.01)
).SerializeToString()


@dataclass(frozen=True)
class Generated:
    """Medians. Rates in tokens a second; times in ms to the first token, alone and while the others write.

    bare: together, from a server that only sends them.
    """

    model: str
    callers: int
    one_by_one: float
    together: float
    first_alone: float
    first_among: float
    bare: float


@dataclass(frozen=True)
class _Written:
    first: float
    tokens: int


async def _write(channel: grpc.aio.Channel, request: bytes, method: str = GENERATE) -> _Written:
    """Take one sequence from the server: seconds to the first token, and how many came."""
    begin, first, tokens = time.perf_counter(), 0.0, 0
    call = channel.unary_stream(method, response_deserializer=service_pb2.GenerateResponse.FromString)
    async for event in call(request):
        if event.WhichOneof("event") == "token":
            first = first or time.perf_counter() - begin
            tokens += 1
    return _Written(first, tokens)


async def _rounds(target: str, bare: str, requests: Sequence[bytes], rounds: int) -> tuple[list[float], ...]:
    one_by_one, together, alone, among, empty = (list[float]() for _ in range(5))
    async with grpc.aio.insecure_channel(target) as channel, grpc.aio.insecure_channel(bare) as other:
        await asyncio.gather(*(_write(channel, each) for each in requests))
        for _ in range(rounds):
            begin = time.perf_counter()
            written = [await _write(channel, each) for each in requests]
            one_by_one.append(sum(each.tokens for each in written) / (time.perf_counter() - begin))
            alone += [each.first for each in written]
            together.append(await _at_once(channel, requests))
            among += await _among(channel, requests)
            empty.append(await _at_once(other, [bytes([each.tokens]) + _TOKEN for each in written], AGAIN))
    return one_by_one, together, alone, among, empty


async def _at_once(channel: grpc.aio.Channel, requests: Sequence[bytes], method: str = GENERATE) -> float:
    """Tokens a second of all sequences together."""
    begin = time.perf_counter()
    written = await asyncio.gather(*(_write(channel, each, method) for each in requests))
    return sum(each.tokens for each in written) / (time.perf_counter() - begin)


async def _among(channel: grpc.aio.Channel, requests: Sequence[bytes]) -> list[float]:
    """First tokens of newcomers, in seconds, while all the other callers write without a pause."""
    over = asyncio.Event()

    async def busy(request: bytes) -> None:
        while not over.is_set():
            await _write(channel, request)

    others = [asyncio.create_task(busy(each)) for each in requests[1:]]
    found = []
    for place in range(8):
        await asyncio.sleep(0.01 + 0.003 * place)  # anywhere in what the others do
        found.append((await _write(channel, requests[0])).first)
    over.set()
    await asyncio.gather(*others)
    return found


def measure(target: str, bare: str, model: str, requests: Sequence[bytes], rounds: int) -> Generated:
    """Measure a model by turns; bare: the server that computes nothing."""
    found = asyncio.run(_rounds(target, bare, requests, rounds))
    one_by_one, together, alone, among, empty = map(statistics.median, found)
    return Generated(model, len(requests), one_by_one, together, alone * 1e3, among * 1e3, empty)


def requests_for(model: str, instances: Sequence[values_pb2.Instance]) -> list[bytes]:
    """Serialise a request for each instance."""
    named = values_pb2.Model(name=model)
    return [service_pb2.GenerateRequest(model=named, instance=each).SerializeToString() for each in instances]


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--callers", type=int, default=16)
    parser.add_argument("--repository", type=Path, default=DEMO, help="where --model is")
    parser.add_argument("--model", help="this one alone")
    parser.add_argument("--text", nargs="+", help="what is sent, in turn, as the input `text`; dates if not said")
    parser.add_argument("--keep", action="store_true", help="write the record of the repository")
    options = parser.parse_args()
    from benchmarks import decoders  # brings PyTorch, which nothing else here needs

    instances = [date_instance(number) for number in range(options.callers)]
    if options.text:
        texts = [options.text[number % len(options.text)] for number in range(options.callers)]
        instances = [values_pb2.Instance(inputs={"text": values_pb2.Value(text=each)}) for each in texts]
    models = {options.model: options.repository}
    if not options.model:
        ours = decoders.make_repository(ROOT / "build" / "benchmarks-decoders")
        models = {"dates": DEMO, **dict.fromkeys(decoders.MODELS, ours)}
    rows = []
    for name, repository in models.items():
        with ServerProcess(repository) as server, Echo() as bare:
            rows.append(measure(server.target, bare.target, name, requests_for(name, instances), options.rounds))
    print("\n".join(of_rows(rows)))
    save("generation", rows, keep=options.keep)


if __name__ == "__main__":
    main()
