"""How long a call of another kind waits behind the worst that a request may ask: `python -m benchmarks.loop`.

A caller asks for health every 5 ms while four others send the largest requests that the server takes: large documents
and pictures, hundreds of instances, groups by the thousand, pools, top-k of large maps, selections of many indices,
generations with groups. The longest wait of a case is what the event loop, or whoever else was in the way, held a call
up for; the first case is the server with nothing else to do. About a minute. --keep writes docs/performance.md.
"""

import argparse
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import grpc
import numpy as np

from benchmarks.demo_calls import ATTEND, DEMO, GENERATE, PREDICT, date_instance, document_instance, picture_instance
from benchmarks.encoder import LONGEST, NAME, VOCABULARY, make_repository
from benchmarks.kept import save
from benchmarks.load.generator import run_load
from benchmarks.load.plan import Outcome, Plan, percentile
from benchmarks.process import HEALTH, ROOT, ServerProcess
from benchmarks.tables import Bar, bar_table, table
from limelight.v1 import attention_pb2, service_pb2, values_pb2

_CALLERS = 4
_SETTLE = 0.5  # seconds between cases
_PAUSE = 0.05  # seconds after a refused call
_OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


@dataclass(frozen=True)
class Case:
    """The worst of one kind: a method and its request."""

    name: str
    method: str
    request: Callable[[], bytes]


@dataclass(frozen=True)
class Waited:
    """How long health took beside a case, in ms, and how its calls ended."""

    case: str
    p50: float
    p99: float
    worst: float
    ends: dict[str, int]


def _tokens(count: int, seed: int = 0) -> values_pb2.Instance:
    ids = np.random.default_rng(seed).integers(1, VOCABULARY, count, dtype=np.int64)
    tensor = values_pb2.Tensor(data_type=values_pb2.DATA_TYPE_INT64, shape=ids.shape, data=ids.tobytes())
    return values_pb2.Instance(inputs={"token_ids": values_pb2.Value(tensor=tensor)})


def _predict(model: str, instances: Sequence[values_pb2.Instance], **fields: Any) -> bytes:
    request = service_pb2.PredictRequest(
        model=values_pb2.Model(name=model), instances=instances, truncate=True, **fields
    )
    return request.SerializeToString()


def _attend(model: str, instances: Sequence[values_pb2.Instance], **options: Any) -> bytes:
    request = service_pb2.AttendRequest(
        model=values_pb2.Model(name=model),
        instances=instances,
        truncate=True,
        attention=attention_pb2.AttentionOptions(**options),
    )
    return request.SerializeToString()


def _generate(instance: values_pb2.Instance, **options: Any) -> bytes:
    return service_pb2.GenerateRequest(
        model=values_pb2.Model(name="dates"),
        instance=instance,
        truncate=True,
        attention=attention_pb2.AttentionOptions(**options),
    ).SerializeToString()


def _range_groups(groups: int, entries: int) -> attention_pb2.Grouping:
    """So many groups, together of nearly as many entries as groups may have."""
    size = min(entries // 2, 99_000 // groups)
    ranges = [
        attention_pb2.IndexRange(start=n % (entries - size), end=n % (entries - size) + size) for n in range(groups)
    ]
    named = [attention_pb2.Group(name=f"group {n}", ranges=[each]) for n, each in enumerate(ranges)]
    return attention_pb2.Grouping(groups=named)


def _span_groups(groups: int) -> attention_pb2.Grouping:
    spans = [attention_pb2.TextSpan(start=n, end=n + 150) for n in range(groups)]
    named = [attention_pb2.Group(name=f"group {n}", spans=[each]) for n, each in enumerate(spans)]
    return attention_pb2.Grouping(label_set="words", groups=named)


def _selections(count: int, indices: int) -> list[attention_pb2.MapSelection]:
    every = list(range(indices))
    return [attention_pb2.MapSelection(layers=[n % 6], queries=every, keys=every) for n in range(count)]


def encoder_cases() -> list[Case]:
    """The worst that can be asked of the encoder: at most 64 MiB come back."""
    long, short = [_tokens(LONGEST)], [_tokens(448)]
    float16, uint8 = attention_pb2.ENCODING_FLOAT16, attention_pb2.ENCODING_UINT8
    one_row = [attention_pb2.MapSelection(queries=[0])]
    return [
        Case("nothing else", "", bytes),
        Case("all maps, 448 tokens (58 MB)", ATTEND, partial(_attend, NAME, short)),
        Case("all maps, 512 tokens, float16", ATTEND, partial(_attend, NAME, long, encoding=float16)),
        Case("all maps, 512 tokens, uint8", ATTEND, partial(_attend, NAME, long, encoding=uint8)),
        Case("top-k 8 of all maps, 512 tokens", ATTEND, partial(_attend, NAME, long, top_k=8)),
        Case("top-k 100 of all maps, 256 tokens", ATTEND, partial(_attend, NAME, [_tokens(256)], top_k=100)),
        Case("rollout, 512 tokens", ATTEND, partial(_attend, NAME, long, rollout=True)),
        Case("pool to 256, 512 tokens", ATTEND, lambda: _attend(NAME, long, pool=attention_pb2.Pool(size=256))),
        Case(
            "1,024 groups of queries, 512 tokens",
            ATTEND,
            lambda: _attend(NAME, long, query_groups=[_range_groups(64, 512)], key_groups=[_range_groups(960, 512)]),
        ),
        Case(
            "64 selections of 512 × 512",
            ATTEND,
            lambda: _attend(NAME, long, selections=_selections(64, 512), encoding=float16),
        ),
        Case("256 instances of 512 tokens", PREDICT, lambda: _predict(NAME, [_tokens(512, n) for n in range(256)])),
        Case(
            "one row each of 256 instances of 64 tokens",
            ATTEND,
            lambda: _attend(NAME, [_tokens(64, n) for n in range(256)], selections=one_row),
        ),
        Case("a request that is nothing, 60 MB", PREDICT, lambda: b"\x0a\x7f" * 30_000_000),
    ]


def demo_cases() -> list[Case]:
    """The worst that can be asked of the demo models."""
    documents = [document_instance(2000, n) for n in range(256)]
    beams = service_pb2.GenerationOptions(strategy=service_pb2.STRATEGY_BEAM, beams=16, hypotheses=16)
    dates = [date_instance(n) for n in range(256)]
    return [
        Case("256 documents of 18,000 characters", PREDICT, lambda: _predict("slips", documents)),
        Case("all maps of 256 documents", ATTEND, lambda: _attend("slips", documents)),
        Case(
            "1,024 spans of a document",
            ATTEND,
            lambda: _attend("slips", documents[:1], key_groups=[_span_groups(1024)]),
        ),
        Case("8 pictures of 16 megapixels", PREDICT, lambda: _predict("digits", [picture_instance(4096, 1)] * 8)),
        Case("256 pictures of 65,000 pixels", ATTEND, lambda: _attend("digits", [picture_instance(256, 1)] * 256)),
        Case("beams of 16 for 256 texts", PREDICT, lambda: _predict("dates", dates, generation=beams)),
        Case("all maps of 256 generations", ATTEND, lambda: _attend("dates", dates)),
        Case(
            "generation with 1,024 groups a token",
            GENERATE,
            lambda: _generate(date_instance(1), key_groups=[_range_groups(1024, 8)]),
        ),
    ]


def waited(target: str, case: Case, seconds: float) -> Waited:
    """Probe beside a case. Calls that are under way when the probe has seen enough are given up."""
    found: list[Outcome] = []
    probe = Plan(target, HEALTH, [b""], seconds, rate=200, even=True, warm=0.3, connections=1)
    prober = threading.Thread(target=lambda: found.append(run_load(probe)))
    request, ends, over = case.request(), Counter[str](), threading.Event()
    prober.start()
    channels = [grpc.insecure_channel(target, options=_OPTIONS) for _ in range(_CALLERS if case.method else 0)]
    callers = [threading.Thread(target=_call, args=(each, case, request, ends, over)) for each in channels]
    for caller in callers:
        caller.start()
    prober.join()
    over.set()
    for channel in channels:
        channel.close()
    for caller in callers:
        caller.join()
    time.sleep(_SETTLE)
    times = [time for values in found[0].latencies.values() for time in values]
    p50, p99, worst = (percentile(times, share) * 1e3 for share in (0.5, 0.99, 1.0))
    return Waited(case.name, p50, p99, worst, dict(ends))


def _call(channel: grpc.Channel, case: Case, request: bytes, ends: Counter[str], over: threading.Event) -> None:
    """Send a case again and again, and count how its calls end."""
    while not over.is_set():
        try:
            if case.method == GENERATE:
                for _ in channel.unary_stream(case.method)(request):
                    pass
            else:
                channel.unary_unary(case.method)(request)
            ends["OK"] += 1
        except grpc.RpcError as error:
            if over.is_set():
                ends["under way"] += 1
                return
            said = f" ({error.details()[:80]})" if error.code() is grpc.StatusCode.INVALID_ARGUMENT else ""
            ends[error.code().name + said] += 1
            time.sleep(_PAUSE)
        except ValueError:  # the channel was closed just now
            return


def tables(rows: Sequence[Waited]) -> list[str]:
    """The table of a run."""
    head = ["beside", "health p50 ms", "p99 ms", "longest ms", "calls beside it"]
    ends = [", ".join(f"{count} {name}" for name, count in each.ends.items()) or "none" for each in rows]
    return table(
        head,
        (
            [each.case, f"{each.p50:.1f}", f"{each.p99:.1f}", f"{each.worst:.1f}", said]
            for each, said in zip(rows, ends, strict=True)
        ),
    )


def bars(rows: Sequence[Waited]) -> list[str]:
    """What the run is held to: the worst of all cases."""

    def found() -> Iterator[Bar]:
        worst = max(rows, key=lambda each: each.worst, default=None)
        if worst:
            yield Bar(f"longest wait for health ({worst.case})", worst.worst, 50, at_most=True, unit="ms")

    return bar_table(found())


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.5, help="of each case")
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    parser.add_argument("--keep", action="store_true", help="keep the figures, and write the page of docs/")
    options = parser.parse_args()
    repository = ROOT / "build" / "benchmarks"
    make_repository(repository)
    rows = []
    for folder, cases in ((repository, encoder_cases()), (DEMO, demo_cases())):
        with ServerProcess(folder) as server:
            for case in cases:
                if options.only in case.name:
                    rows.append(waited(server.target, case, options.seconds))
                    print(tables(rows[-1:])[-1], flush=True)
    print("\n".join(["", *tables(rows), "", *bars(rows)]))
    save("loop", rows, keep=options.keep)


if __name__ == "__main__":
    main()
