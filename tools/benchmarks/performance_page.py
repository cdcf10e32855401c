"""Writes the tables of docs/performance.md and docs/records/performance.md from tools/benchmarks/results, each
between its marks: `python -m benchmarks.performance_page`.

It reads records alone and imports no benchmark.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.records import RESULTS, ROOT, read
from benchmarks.serving.figures import ECHO_SERVER, LIMELIGHT, MLSERVER, TRITON, Figure, Medians, Results
from benchmarks.tables import cell, fill, number, ratio, table

PAGE = ROOT / "docs" / "performance.md"
ANNEX = ROOT / "docs" / "records" / "performance.md"
PREDICT, ALL_MAPS, ONE_ROW = "Predict", "Attend, all maps", "Attend, one row"
CALLERS = (1, 8, 32, 64)
_LENGTHS = {"32": "32 tokens", "128": "128 tokens", "mixed": "mixed lengths"}
# Rows of the page: the name, the section of the record, the lengths, the question, the callers.
_COMPARED = (
    *(
        (f"Predict, {_LENGTHS[lengths]}", "predict", lengths, PREDICT, callers)
        for lengths, callers in (("32", 1), ("32", 32), ("128", 1), ("128", 32), ("mixed", 32))
    ),
    *((f"all maps, {_LENGTHS[lengths]}", "attend", lengths, ALL_MAPS, 16) for lengths in ("32", "128")),
    *((f"one row of the maps, {_LENGTHS[lengths]}", "attend", lengths, ONE_ROW, 16) for lengths in ("32", "128")),
)
_NONE = ("–", "–", "–")
Record = Mapping[str, Any]


def page(folder: Path = RESULTS) -> str:
    """Give the page with its table: one screen for somebody who chooses a server."""
    results = Results.load(folder / "serving.json.xz")
    generation, overload = (read(folder / f"{name}.json.xz") for name in ("generation", "overload"))
    rows = [*_rows(Medians(results.rows)), *_generation(generation), *_overload(overload)]
    head = ["answers a second", "callers", "Limelight", "Triton", "ONNX Runtime alone", "Limelight / Triton"]
    return fill(PAGE.read_text(encoding="utf-8"), {"compared": [_origin(vars(results)), "", *table(head, rows)]})


def _origin(record: Record) -> str:
    return f"On {record['machine']}, commit {record['commit']}."


def _rows(medians: Medians) -> Iterator[list[str]]:
    """Answers a second of each server; for one row of the maps the others have to send all of them."""
    for name, section, lengths, what, callers in _COMPARED:
        ours = medians.get(section, lengths, what, LIMELIGHT, str(callers))
        others = _others(medians, section, lengths, what, callers)
        star = "\\*" if what == ONE_ROW else ""
        cells = [number(_rate(each)) + (star if each else "") for each in others]
        yield [name, str(callers), number(_rate(ours)), *cells, number(ratio(_rate(ours), _rate(others[0])), ".2f")]


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
            *_NONE,
        ]


def _overload(record: Record) -> Iterator[list[str]]:
    """Goodput as a share of the capacity, of which the other servers were not asked."""
    for factor in (2, 10):
        found = [each["goodput"] / each["capacity"] for each in record["rows"] if each["factor"] == factor]
        cell = f"{min(found):.0%} to {max(found):.0%}"
        yield [f"overload, {factor} × capacity: share of the capacity answered in time", "", cell, *_NONE]


def annex(folder: Path = RESULTS) -> str:
    """Give the annex with all its tables."""
    results = Results.load(folder / "serving.json.xz")
    medians, serving = Medians(results.rows), [_origin(vars(results))]
    for lengths in _LENGTHS:
        serving += ["", *_predict(medians, lengths)]
    blocks = {"serving": [*serving, "", *_attend(medians), "", *_open(medians), "", *_tiny(medians)]}
    for name, columns in SECTIONS.items():
        file = folder / f"{name}.json.xz"
        record = read(file) if file.exists() else None
        there = record and [_origin(record), "", *_columns(record["rows"], columns)]
        blocks[name] = there or [f"Not recorded yet: `python -m benchmarks.{name} --keep`."]
    file = folder / "gpu.json.xz"
    blocks["gpu"] = _gpu(read(file)) if file.exists() else ["No speed is measured on a GPU yet."]
    return fill(ANNEX.read_text(encoding="utf-8"), blocks)


def _gpu(record: Mapping[str, Any]) -> list[str]:
    """Write a table for each stage of `benchmarks.gpu`."""
    lines = [f"On {record['card']}, {record['machine']}, commit {record['commit']}."]
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


SECTIONS: Mapping[str, Mapping[str, str]] = {
    "attend_stream": {
        "tokens": "{tokens}",
        "maps, bytes": "{maps:,}",
        "prediction, s": "{predicted:.2f}",
        "all maps streamed, s": "{streamed:.2f}",
        "runtime alone, s": "{runtime:.2f}",
        "memory after predictions, MiB": "{predicted_memory:.0f}",
        "after streams": "{streamed_memory:.0f}",
        "health beside, p99 ms": "{health_p99:.1f}",
    },
    "explaining": {
        "ways": "{ways}",
        "rows": "{rows}",
        "Explain, ms": "{milliseconds:.0f}",
        "as many predictions in one call, ms": "{predicted:.0f}",
        "ratio": "{ratio:.2f}",
    },
    "doors": {
        "server": "{server}",
        "texts a second": "{rate:.0f}",
        "Limelight / it": "{ratio:.2f}",
        "CPU ms a text": "{cpu:.1f}",
        "MiB": "{memory:.0f}",
    },
    "generation": {
        "model": "{model}",
        "callers": "{callers}",
        "tokens/s one by one": "{one_by_one:.0f}",
        "together": "{together:.0f}",
        "bare server": "{bare:.0f}",
        "first token alone, ms": "{first_alone:.1f}",
        "beside the others": "{first_among:.1f}",
    },
    "precision": {
        "": "{name}",
        "MB": "{megabytes:.0f}",
        "rows/s, 32 tokens": "{rates_32:.0f}",
        "rows/s, 128 tokens": "{rates_128:.0f}",
        "batch": "{alone:.1e}",
        "from float32": "{from_float32:.1e}",
    },
    "overload": {
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
    "frontends": {
        "calls": "{calls}",
        "callers": "{callers}",
        "frontends": "{processes}",
        "answers a second": "{rate:.0f}",
        "p50 / p99 ms": "{p50:.1f} / {p99:.1f}",
        "CPU ms a call": "{cpu:.2f}",
        "MiB": "{memory:.0f}",
    },
}


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    ANNEX.write_text(annex(), encoding="utf-8")
