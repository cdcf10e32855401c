"""The figures of serving as tables, and the bars that they are held to."""

from collections.abc import Iterator
from dataclasses import replace

from benchmarks.serving.contest import (
    AT_TRITONS,
    ATTEND_CALLERS,
    BARE_ECHO,
    CALLERS,
    LIMELIGHT,
    MLSERVER,
    RAW,
    SHARES,
    TRITON,
)
from benchmarks.serving.figures import Figure, Medians, Results
from benchmarks.serving.inputs import (
    ALL_MAPS,
    ATTENDED,
    FLOAT16,
    HEAD_MEAN,
    LENGTHS,
    ONE_ROW,
    PREDICT_IT,
    PREDICT_PLAIN,
    PREDICT_TINY,
    TINY_LENGTH,
    TOP_K,
    Question,
)
from benchmarks.tables import Bar, bar_table, number, ratio, table

_SERVERS = (LIMELIGHT, TRITON, MLSERVER)


def tables(results: Results) -> list[str]:
    """All tables of a run."""
    medians, lines = Medians(results.figures), []
    for lengths in LENGTHS:
        lines += _predict(medians, lengths)
    lines += _attend(medians) + _open(medians) + _tiny(medians) + _connections(medians)
    for name, why in results.absent.items():
        lines += [f"{name} was left out: {why}.", ""]
    return lines


def bars(results: Results) -> list[str]:
    """All bars of a run, of what it measured."""
    medians = Medians(results.figures)
    every = [*_predict_bars(medians), *_attend_bars(medians), *_open_bars(medians), *_other_bars(medians)]
    return bar_table(each for each in every if each.met is not None)


def best_raw(medians: Medians, section: str, lengths: str, what: str, callers: int) -> Figure | None:
    """The fastest way to run the runtime alone that takes no more callers."""
    found = [
        each
        for each in medians.of(section, lengths=lengths, what=what)
        if each.who.startswith(RAW) and int(each.load) <= callers
    ]
    return max(found, key=lambda each: each.rate, default=None)


def _title(lengths: str) -> str:
    return "mixed lengths (log-normal, median 28 tokens)" if lengths == "mixed" else f"{lengths} tokens"


def _spared(figure: Figure | None) -> float | None:
    return figure.spared if figure else None


def _predict(medians: Medians, lengths: str) -> list[str]:
    what = PREDICT_IT.name
    found = medians.of("predict", lengths=lengths)
    if not found:
        return []

    def get(who: str, callers: int) -> Figure | None:
        return medians.get("predict", lengths, what, who, str(callers))

    raw = [best_raw(medians, "predict", lengths, what, callers) for callers in CALLERS]
    rows = [["runtime, the best way", *(number(_spared(each), ".1f") for each in raw)]]
    for who in _SERVERS:
        if any(get(who, callers) for callers in CALLERS):
            rows.append([who, *(number(_spared(get(who, callers)), ".1f") for callers in CALLERS)])
    ours = [get(LIMELIGHT, callers) for callers in CALLERS]
    for name, others in (("runtime", raw), ("Triton", [get(TRITON, callers) for callers in CALLERS])):
        ratios = [ratio(_spared(mine), _spared(other)) for mine, other in zip(ours, others, strict=True)]
        rows.append([f"Limelight ÷ {name}", *(number(each, ".2f") for each in ratios)])
    for who in _SERVERS[:2]:
        times = [get(who, callers) for callers in CALLERS]
        rows.append([f"{who}, p50 / p99 ms", *(f"{each.p50:.1f} / {each.p99:.1f}" if each else "–" for each in times)])
    for who in _SERVERS[:2]:
        times = [get(who, callers) for callers in CALLERS]
        rows.append([f"{who}, CPU ms a request", *(number(each.cpu if each else None, ".2f") for each in times)])
    for name, share in (("generator", "generator"), ("other programs", "others")):
        cells = [number(getattr(each, share) * 100 if each else None, ".1f") + " %" for each in ours]
        rows.append([f"{name}, share of the machine", *cells])
    head = [f"Predict, {_title(lengths)}", *(f"{callers} at a time" for callers in CALLERS)]
    ways = ", ".join(
        f"{each.who.removeprefix(RAW + ', ')}: {each.rate:.0f} at {each.cpu:.1f} ms"
        for each in found
        if each.who.startswith(RAW)
    )
    tuned = ", ".join(f"{each.load}: {each.note}" for each in found if each.who == TRITON)
    notes = [f"Ways of the runtime (lanes × threads: rows a second at CPU a row): {ways}."]
    notes += [f"Triton's best tunings (callers: instances × threads, delay): {tuned}."] if tuned else []
    return [*table(head, rows), "", *notes, ""]


def _connections(medians: Medians) -> list[str]:
    found = medians.of("connections")
    if not found:
        return []
    rows = [
        [each.lengths, each.load, each.who, f"{each.rate:.0f}", f"{each.p50:.1f} / {each.p99:.1f}"] for each in found
    ]
    return [*table(["Predict, tokens", "callers", "", "answers a second", "p50 / p99 ms"], rows), ""]


def _attend(medians: Medians) -> list[str]:
    if not medians.of("attend"):
        return []
    load, rows = str(ATTEND_CALLERS), []
    columns = ("32", "128")
    for question in (PREDICT_IT, PREDICT_PLAIN, *ATTENDED):
        found = [medians.get("attend", lengths, question.name, LIMELIGHT, load) for lengths in columns]
        predict = [medians.get("attend", lengths, PREDICT_IT.name, LIMELIGHT, load) for lengths in columns]
        shares = [ratio(_spared(mine), _spared(base)) for mine, base in zip(found, predict, strict=True)]
        cells = [
            f"{number(_spared(each), '.1f')} ({number(share, '.2f')})"
            for each, share in zip(found, shares, strict=True)
        ]
        rows.append(
            [f"Limelight: {question.name}", *cells, *(number(each.cpu if each else None, ".1f") for each in found)]
        )
    peers = [medians.get("attend", lengths, ALL_MAPS.name, TRITON, load) for lengths in columns]
    raw = [best_raw(medians, "attend", lengths, ALL_MAPS.name, ATTEND_CALLERS) for lengths in columns]
    for name, found in ((f"{TRITON}: all maps", peers), ("runtime, the best way: all maps", raw)):
        cells = [number(_spared(each), ".1f") for each in found]
        rows.append([name, *cells, *(number(each.cpu if each else None, ".1f") for each in found)])
    head = [f"{load} at a time", "32 tokens (of Predict)", "128 tokens (of Predict)", "CPU ms, 32", "CPU ms, 128"]
    return [*table(head, rows), ""]


def _open(medians: Medians) -> list[str]:
    rows = []
    for lengths in LENGTHS:
        for who in (LIMELIGHT, TRITON, AT_TRITONS):
            found = [medians.get("open", lengths, PREDICT_IT.name, who, f"{share} %") for share in SHARES]
            if any(found):
                cells = [
                    f"{each.rate:.0f}/s: {each.p50:.1f} / {each.p99:.1f} (lag {each.lag:.1f})" if each else "–"
                    for each in found
                ]
                rows.append([f"{_title(lengths)}, {who}", *cells])
    head = ["open loop, p50 / p99 ms from the intended time", *(f"{share} % of its capacity" for share in SHARES)]
    return [*table(head, rows), ""] if rows else []


def _tiny(medians: Medians) -> list[str]:
    rows = []
    for who in (LIMELIGHT, BARE_ECHO):
        found = [medians.get("tiny", TINY_LENGTH, PREDICT_TINY.name, who, load) for load in ("1", "32")]
        if any(found):
            cells = [
                f"{each.spared:.0f}/s, {each.p50:.2f} ms, CPU {each.cpu:.2f} ms" if each else "–" for each in found
            ]
            rows.append([who, *cells])
    return [*table(["a model of about 50 µs", "1 at a time", "32 at a time"], rows), ""] if rows else []


def _against(name: str, mine: Figure | None, other: Figure | None, goal: float) -> Bar:
    """A ratio of rates."""
    if mine is None or other is None:
        return Bar(name, None, goal)
    disturbed = max(mine.others, other.others)
    return Bar(name, ratio(mine.spared, other.spared), goal, by_cpu=ratio(other.cpu, mine.cpu), disturbed=disturbed)


def _predict_bars(medians: Medians) -> Iterator[Bar]:
    what = PREDICT_IT.name
    for lengths in LENGTHS:
        for callers in CALLERS[1:]:
            mine = medians.get("predict", lengths, what, LIMELIGHT, str(callers))
            peer = medians.get("predict", lengths, what, TRITON, str(callers))
            raw = best_raw(medians, "predict", lengths, what, callers)
            name = f"Predict, {_title(lengths)}, {callers} at a time"
            yield _against(f"{name} ÷ best raw way", mine, raw, 0.95)
            yield _against(f"{name} ÷ Triton", mine, peer, 1.2 if lengths == "mixed" else 1.05)


def _attend_bars(medians: Medians) -> Iterator[Bar]:
    load = str(ATTEND_CALLERS)
    for lengths in ("32", "128"):

        def ours(question: Question, lengths: str = lengths) -> Figure | None:
            return medians.get("attend", lengths, question.name, LIMELIGHT, load)

        whole, predict = ours(ALL_MAPS), ours(PREDICT_IT)
        peer = medians.get("attend", lengths, ALL_MAPS.name, TRITON, load)
        raw = best_raw(medians, "attend", lengths, ALL_MAPS.name, ATTEND_CALLERS)
        yield _against(f"Attend, all maps, {lengths} tokens ÷ Triton", whole, peer, 1.1 if lengths == "128" else 1.0)
        yield _against(f"Attend, all maps, {lengths} tokens ÷ runtime fetching them", whole, raw, 0.85)
        if lengths == "128":
            yield _against("Attend, float16, 128 tokens ÷ Predict", ours(FLOAT16), predict, 0.9)
        for question in (ONE_ROW, TOP_K, HEAD_MEAN):
            yield _against(f"{question.name}, {lengths} tokens ÷ Predict", ours(question), predict, 0.97)
        name = f"Predict, {lengths} tokens ÷ the same without maps in the graph"
        yield _against(name, predict, ours(PREDICT_PLAIN), 0.98)


def _open_bars(medians: Medians) -> Iterator[Bar]:
    for lengths in LENGTHS:
        mine, peer = (medians.get("open", lengths, PREDICT_IT.name, who, "70 %") for who in (LIMELIGHT, TRITON))
        name = f"p99 at 70 % load, {_title(lengths)} ÷ Triton's"
        if mine and peer:
            disturbed = max(mine.others, peer.others)
            yield Bar(name, ratio(mine.p99, peer.p99), 1.0, at_most=True, disturbed=disturbed)


def _other_bars(medians: Medians) -> Iterator[Bar]:
    for lengths, goal in (("32", 1.06), ("128", 1.03)):
        mine = medians.get("predict", lengths, PREDICT_IT.name, LIMELIGHT, "32")
        # The runtime's own cost of a row, the way that costs least of those that such callers allow.
        raw = [
            each.cpu
            for each in medians.of("predict", lengths=lengths)
            if each.who.startswith(RAW) and "spinning" not in each.who and int(each.load) <= 32
        ]
        value = ratio(mine.cpu, min(raw)) if mine and raw else None
        yield Bar(f"server CPU a Predict ÷ raw CPU a row, {lengths} tokens", value, goal, at_most=True)
    tiny, echo = (medians.get("tiny", TINY_LENGTH, PREDICT_TINY.name, who, "32") for who in (LIMELIGHT, BARE_ECHO))
    bar = _against("tiny model ÷ bare echo, 32 at a time", tiny, echo, 0.55)
    yield replace(bar, by_cpu=None)  # an event loop holds the echo up, not the cores
