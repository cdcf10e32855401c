"""Writes docs/performance.md and docs/records/performance.md, its tables, from tools/benchmarks/results.

`python -m benchmarks.performance_page` reads records alone and imports no benchmark.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

from benchmarks.records import RESULTS, ROOT, read
from benchmarks.serving.figures import ECHO_SERVER, LIMELIGHT, MLSERVER, TRITON, Figure, Medians, Results
from benchmarks.tables import cell, number, ratio, table

PAGE = ROOT / "docs" / "performance.md"
TABLES = ROOT / "docs" / "records" / "performance.md"
PREDICT, ALL_MAPS, ONE_ROW = "Predict", "Attend, all maps", "Attend, one row"
CALLERS = (1, 8, 32, 64)
_LENGTHS = {"32": "32 tokens", "128": "128 tokens", "mixed": "mixed lengths"}
_EQUAL = 0.05  # rates that differ by less are called equal
# Rows of the page: the name, the section of the record, the lengths, the question, the callers.
_COMPARED = (
    *(
        (f"Predict, {_LENGTHS[lengths]}", "predict", lengths, PREDICT, callers)
        for lengths, callers in (("32", 1), ("32", 32), ("128", 1), ("128", 32), ("mixed", 32))
    ),
    *((f"all maps, {_LENGTHS[lengths]}", "attend", lengths, ALL_MAPS, 16) for lengths in ("32", "128")),
    *((f"one row of the maps, {_LENGTHS[lengths]}", "attend", lengths, ONE_ROW, 16) for lengths in ("32", "128")),
)
Record = Mapping[str, Any]


def page(folder: Path = RESULTS) -> str:
    """Write the page: one screen for somebody who chooses a server."""
    results = Results.load(folder / "serving.json.xz")
    generation, overload, frontends = (
        read(folder / f"{name}.json.xz") for name in ("generation", "overload", "frontends")
    )
    medians = Medians(results.rows)
    rows = [*_rows(medians), *_generation(generation), *_overload(overload)]
    commits = {"serving": results.commit, "generation": generation["commit"], "overload": overload["commit"]}
    parts = [
        *_wrapped(HEADER.format(machine=results.machine, **commits)),
        "",
        *table(["answers a second", "callers", "Limelight", "Triton", "ONNX Runtime alone"], rows),
        "",
        *_wrapped(_verdicts(medians, overload, frontends, has_gpu=(folder / "gpu.json.xz").exists())),
        "",
        *_wrapped(LIMITS),
    ]
    return "\n".join([*parts, ""])


def _rows(medians: Medians) -> Iterator[list[str]]:
    """Answers a second of each server; for one row of the maps the others have to send all of them."""
    for name, section, lengths, what, callers in _COMPARED:
        ours = medians.get(section, lengths, what, LIMELIGHT, str(callers))
        others = _others(medians, section, lengths, what, callers)
        star = "\\*" if what == ONE_ROW else ""
        cells = [number(_rate(each)) + (star if each else "") for each in others]
        yield [name, str(callers), number(_rate(ours)), *cells]


def _others(medians: Medians, section: str, lengths: str, what: str, callers: int) -> list[Figure | None]:
    asked = ALL_MAPS if what == ONE_ROW else what
    triton = medians.get(section, lengths, asked, TRITON, str(callers))
    return [triton, medians.best_runtime(section, lengths, asked, callers)]


def _rate(figure: Figure | None) -> float | None:
    """Give answers a second with the processor time of the load generator given back."""
    return figure.adjusted if figure else None


def _cpu(figure: Figure | None) -> str:
    """Write the processor time of a call, in ms."""
    return number(figure.cpu if figure else None, ".1f")


def _generation(record: Record) -> Iterator[list[str]]:
    for each in record["rows"]:
        yield [
            f"generation, {each['model']}: tokens a second",
            str(each["callers"]),
            number(each["together"]),
            "–",
            "–",
        ]


def _overload(record: Record) -> Iterator[list[str]]:
    """Goodput as a share of the capacity, of which the other servers were not asked."""
    for factor in (2, 10):
        found = [each["goodput"] / each["capacity"] for each in record["rows"] if each["factor"] == factor]
        cell = f"{min(found):.0%} to {max(found):.0%}"
        yield [f"overload, {factor} × capacity: share of the capacity answered in time", "", cell, "–", "–"]


def _gains(record: Record) -> dict[str, object]:
    """Compare the largest number of frontends with one process, at the largest number of callers."""
    rates = {(each["calls"], each["callers"], each["processes"]): each["rate"] for each in record["rows"]}
    callers, count = max(each[1] for each in rates), max(each[2] for each in rates)
    gains = {
        name: rates[name, callers, count] / rates[name, callers, 0] for name in dict.fromkeys(one[0] for one in rates)
    }
    written = "; ".join(f"{name} {gain:.2f}" for name, gain in gains.items())
    return {"callers": callers, "count": count, "gains": written}


_UNMEASURED = """an H200 was at hand for some minutes. A decoder with caches and two models of the demo passed their
self-test there; the faults that kept others from it are mended, and not tried there again. No speed is measured.
`python -m benchmarks.gpu` does both"""


def _verdicts(medians: Medians, overload: Record, frontends: Record, *, has_gpu: bool) -> str:
    """Sort the rows of the page by who is faster, Limelight or Triton, and say what follows."""
    faster, equal, slower = [list[str]() for _ in range(3)]
    for name, section, lengths, what, callers in _COMPARED:
        ours = medians.get(section, lengths, what, LIMELIGHT, str(callers))
        value = ratio(_rate(ours), _rate(_others(medians, section, lengths, what, callers)[0]))
        if value is not None:
            group = faster if value > 1 + _EQUAL else slower if value < 1 - _EQUAL else equal
            group.append(f"{name}, {_callers(callers)} ({value:.2f}×)")
    tiny, echo = (medians.get("tiny", "40", "Predict, tiny", who, "32") for who in (LIMELIGHT, ECHO_SERVER))
    beyond = [each for each in overload["rows"] if each["factor"] == 10]
    return VERDICTS.format(
        faster="; ".join(faster) or "nowhere",
        equal="; ".join(equal) or "nowhere",
        slower="; ".join(slower) or "nowhere",
        tiny=number(_rate(tiny)),
        echo=number(_rate(echo)),
        least=min(each["goodput"] / each["capacity"] for each in beyond),
        gpu="figures are among the tables" if has_gpu else _UNMEASURED,
        most=max(each["goodput"] / each["capacity"] for each in beyond),
        **_gains(frontends),
    )


def tables(folder: Path = RESULTS) -> str:
    """Write the record of tables: method, every table, and how to measure again."""
    results = Results.load(folder / "serving.json.xz")
    medians = Medians(results.rows)
    head = TABLES_HEADER.format(machine=results.machine, commit=results.commit, **results.settings)
    lines = _wrapped(head)
    for lengths in _LENGTHS:
        lines += ["", *_predict(medians, lengths)]
    lines += ["", *_attend(medians), "", *_open(medians), "", *_tiny(medians)]
    for name, (text, columns) in SECTIONS.items():
        if (file := folder / f"{name}.json.xz").exists():
            record = read(file)
            lines += ["", *_wrapped(text.format(**record)), "", *_columns(record["rows"], columns)]
    if (file := folder / "gpu.json.xz").exists():
        lines += ["", *_gpu(read(file))]
    return "\n".join([*lines, ""])


def _gpu(record: Mapping[str, Any]) -> list[str]:
    """Write a table for each stage of `benchmarks.gpu`."""
    lines = ["## On a GPU", "", *_wrapped(GPU.format(**record))]
    for stage, rows in record["stages"].items():
        if rows:
            lines += [
                "",
                f"### {stage.capitalize()}",
                "",
                *table(list(rows[0]), [list(map(cell, each.values())) for each in rows]),
            ]
    return lines


def _predict(medians: Medians, lengths: str) -> list[str]:
    ours, triton, mlserver = (
        [medians.get("predict", lengths, PREDICT, who, str(callers)) for callers in CALLERS]
        for who in (LIMELIGHT, TRITON, MLSERVER)
    )
    alone = [medians.best_runtime("predict", lengths, PREDICT, callers) for callers in CALLERS]
    rows = [
        [name, *(number(_rate(each)) for each in figures)]
        for name, figures in (
            ("ONNX Runtime, the best way", alone),
            (LIMELIGHT, ours),
            (TRITON, triton),
            (MLSERVER, mlserver),
        )
    ]
    for name, figures in ((LIMELIGHT, ours), (TRITON, triton)):
        rows.append(
            [f"{name}, p50 / p99 ms", *(f"{each.p50:.0f} / {each.p99:.0f}" if each else "–" for each in figures)]
        )
        rows.append([f"{name}, CPU ms a call", *map(_cpu, figures)])
    return table([f"Predict, {_LENGTHS[lengths]}: answers a second", *(_callers(each) for each in CALLERS)], rows)


def _callers(count: int) -> str:
    return f"{count} caller{'s' if count > 1 else ''}"


def _attend(medians: Medians) -> list[str]:
    columns = ("32", "128")
    names = dict.fromkeys(each.call for each in medians.of("attend", server=LIMELIGHT))
    rows = []
    for who, what in [*((LIMELIGHT, name) for name in names), (TRITON, ALL_MAPS)]:
        found = [medians.get("attend", lengths, what, who, "16") for lengths in columns]
        rows.append(
            [
                f"{who}: {what}",
                *map(number, map(_rate, found)),
                *map(_cpu, found),
            ]
        )
    alone = [medians.best_runtime("attend", lengths, ALL_MAPS, 16) for lengths in columns]
    rows.append(
        [
            "ONNX Runtime, all maps",
            *map(number, map(_rate, alone)),
            *map(_cpu, alone),
        ]
    )
    head = ["16 callers: answers a second", "32 tokens", "128 tokens", "CPU ms, 32", "CPU ms, 128"]
    return table(head, rows)


def _open(medians: Medians) -> list[str]:
    shares = ("50 %", "70 %", "90 %")
    rows = []
    for lengths, title in _LENGTHS.items():
        for who in dict.fromkeys(each.server for each in medians.of("open", lengths=lengths)):
            found = [medians.get("open", lengths, PREDICT, who, share) for share in shares]
            cells = [f"{e.rate:.0f}/s: {e.p50:.0f} / {e.p99:.0f}" if e else "–" for e in found]
            rows.append([f"{title}, {who}", *cells])
    return table(["open loop, p50 / p99 ms", *(f"{share} of its capacity" for share in shares)], rows)


def _tiny(medians: Medians) -> list[str]:
    rows = []
    for who in (LIMELIGHT, ECHO_SERVER):
        found = [medians.get("tiny", "40", "Predict, tiny", who, load) for load in ("1", "32")]
        rows.append([who, *(f"{e.adjusted:.0f}/s, CPU {e.cpu:.2f} ms" if e else "–" for e in found)])
    return table(["a model of about 50 µs", "1 caller", "32 callers"], rows)


def _wrapped(text: str) -> list[str]:
    """Wrap the paragraphs of a text; lists stay as they are."""
    parts = (part if part.startswith("- ") else fill(part, width=118) for part in text.strip().split("\n\n"))
    return "\n\n".join(parts).split("\n")


def _columns(rows: Sequence[Record], columns: Mapping[str, str]) -> list[str]:
    """Write some columns of a record. columns: for each head the format of its cells, `{field:form}`."""
    return table(list(columns), ([_format(form, row) for form in columns.values()] for row in rows))


def _format(form: str, row: Record) -> str:
    """Fill a cell; a dash where a field of it is None."""
    flat: dict[str, Any] = {"statuses_1": 0.0, "statuses_8": 0.0, **row}
    for name, value in row.items():
        if isinstance(value, dict):
            flat |= {f"{name}_{key}": each for key, each in value.items()}
    try:
        return form.format(**flat)
    except TypeError:
        return "–"


HEADER = """# Performance: when to choose Limelight

Written by `python -m benchmarks.performance_page` from `tools/benchmarks/results`; do not edit. Measured on {machine},
at commits {serving} (serving), {generation} (generation) and {overload} (overload).
[A record](records/performance.md) has the method and all tables.

The model is a Transformer encoder of 6 layers, 384 wide, with 12 heads, in float32 on ONNX Runtime. Triton runs the
same graph in its Python backend, tuned for each row. Mixed lengths are log-normal with a median of 28 tokens."""

VERDICTS = """\\* Neither cuts maps: the caller gets all of them.

**Choose it** for attention maps beside predictions, and for many callers whose inputs are long or differ in length.
Faster than Triton: {faster}. Equal within 5 %: {equal}.

**Choose another server** for short inputs without maps, for few callers, and for tiny models. Slower than Triton:
{slower}. A model of about 50 µs answers {tiny} calls a second for 32 callers, where a gRPC server in Python that
computes nothing answers {echo}.

**Frontends** are worth trying for many callers: with `--frontends {count}`, {callers} callers get this many times the
answers of one process: {gains}.

**Under overload** it refuses what would be late, with a time to retry, up to about three times its capacity. At ten
times, {least:.0%} to {most:.0%} of the capacity is answered in time and gRPC cancels many calls: put a proxy that
limits calls in front.

**On GPUs**: {gpu}."""

TABLES_HEADER = """# Tables of performance

The figures behind [the page](../performance.md), written with it by `python -m benchmarks.performance_page`.
`make performance` measures everything again in an hour (`make peers` installs the other servers first); each script
has `--help` and shorter runs.

## Serving beside the runtime and other servers

`python -m benchmarks.serving`, on {machine}, commit {commit}; medians of {rounds:g} rounds of {seconds:g} s, by turns.

- *ONNX Runtime, the best way*: without a server, sessions × threads, in batches of the nearest lengths, with no more
  rows under way than callers.
- Triton: its core with the Python backend, instances {{1, cores}} × delay {{0, 2 ms}}, the best for each load.
- The load generator has a process of its own on the same cores ({load_cores:g} were set aside). Its processor time is
  given back: a rate is what the server would answer with the whole machine.
- A measurement beside which other programs took more than 15 % of the machine is repeated up to {again:g} times.
- *Kept awake*: a process of the lowest priority on each core keeps a virtual machine from giving idle cores back to its
  host (`tools/benchmarks/awake.py`); waking one takes tens of microseconds."""

SECTIONS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "attend_stream": (
        """## Every map of long inputs

`python -m benchmarks.attend_stream`, on {machine}, commit {commit}: 12 layers of 12 heads, all maps through
`AttendStream`; the runtime alone computes the same maps and sends them nowhere.""",
        {
            "tokens": "{tokens}",
            "maps, bytes": "{maps:,}",
            "prediction, s": "{predicted:.2f}",
            "all maps streamed, s": "{streamed:.2f}",
            "runtime alone, s": "{runtime:.2f}",
            "memory after predictions, MiB": "{predicted_memory:.0f}",
            "after streams": "{streamed_memory:.0f}",
            "health beside, p99 ms": "{health_p99:.1f}",
        },
    ),
    "generation": (
        """## Generation

`python -m benchmarks.generation`, on {machine}, commit {commit}. *Bare server*: as many messages of one token from a
gRPC server in Python that computes nothing.""",
        {
            "model": "{model}",
            "callers": "{callers}",
            "tokens/s one by one": "{one_by_one:.0f}",
            "together": "{together:.0f}",
            "bare server": "{bare:.0f}",
            "first token alone, ms": "{first_alone:.1f}",
            "beside the others": "{first_among:.1f}",
        },
    ),
    "precision": (
        """## int8

`python -m benchmarks.precision`, on {machine}, commit {commit}: the encoder in the runtime alone, one thread. *int8* is
`limelight export --precision int8`. *Batch*: the largest difference of a logit between a row in a padded batch and
alone.""",
        {
            "": "{name}",
            "MB": "{megabytes:.0f}",
            "rows/s, 32 tokens": "{rates_32:.0f}",
            "rows/s, 128 tokens": "{rates_128:.0f}",
            "batch": "{alone:.1e}",
            "from float32": "{from_float32:.1e}",
        },
    ),
    "overload": (
        """## Overload

`python -m benchmarks.overload`, on {machine}, commit {commit}: an open loop of {settings[seconds]:g} s with a deadline
of 1 s a call. *Goodput*: answers before their deadline; *capacity*: closed loops before and after. *Refused*:
RESOURCE_EXHAUSTED with RetryInfo; *cancelled*: by gRPC itself, without.""",
        {
            "calls": "{kind}",
            "load": "{factor:g} ×",
            "capacity/s": "{capacity:.0f}",
            "goodput/s": "{goodput:.0f}",
            "answered, refused, cancelled": "{statuses_0:.0%}, {statuses_8:.0%}, {statuses_1:.0%}",
            "answered p50 / p99 ms": "{answered_p50:.0f} / {answered_p99:.0f}",
            "refused p50 / p99 ms": "{refused_p50:.0f} / {refused_p99:.0f}",
            "health p50 / p99 ms": "{health_p50:.0f} / {health_p99:.0f}",
            "memory before / most, MiB": "{memory_before:.0f} / {memory_most:.0f}",
        },
    ),
    "frontends": (
        """## Frontends

`python -m benchmarks.frontends`, on {machine}, commit {commit}: `--frontends` before one engine, 0 for one process that
does everything. The load generator shares the cores.""",
        {
            "calls": "{calls}",
            "callers": "{callers}",
            "frontends": "{processes}",
            "answers a second": "{rate:.0f}",
            "p50 / p99 ms": "{p50:.1f} / {p99:.1f}",
            "CPU ms a call": "{cpu:.2f}",
            "MiB": "{memory:.0f}",
        },
    ),
}

GPU = """`python -m benchmarks.gpu`, on {card}, {machine}, commit {commit}; `--help` says what each stage measures."""

LIMITS = """## What limits it

- **Python's part of a call.** gRPC for Python and the event loops take a fixed processor time a call, which short
  inputs and tiny models feel first. Triton takes calls and forms batches in C++.
- **Batches from calls that arrive one by one.** The runtime alone has its next batch at hand; a server forms it from
  the callers that wait, which are few at 8 callers.
- **Maps are bytes.** 72 maps of 128 tokens are 4.7 MB: a copy into the message, gRPC's copy, and the socket. Rows,
  means of heads and float16 send less; top-k has to read every weight first.
- **Refusals cost processor time.** From about three times the capacity on, calls arrive faster than Python can refuse
  them, and gRPC cancels some without RetryInfo.
- **A decode step is short.** For small models, sending each token takes longer than computing it."""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    TABLES.write_text(tables(), encoding="utf-8")
