"""What is known of a row: by the code, by records of measurements, and by `rows/*.toml`, as plain data."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from statistics import fmean
from typing import Any

from benchmarks.records import ROOT, read
from limelight_models.cards.taxonomy import Taxonomy
from limelight_models.catalogue.mechanism import Mechanism
from limelight_models.catalogue.registry import MECHANISMS
from limelight_models.index import ZOO
from pages.atlas import samples
from pages.atlas.rows import Row, papers, rows
from pages.atlas.tex import equations
from pages.table_3 import COLUMNS
from research.attention_cost import RESULTS as COST
from research.attention_cost import cell
from research.mechanisms.line import UNIFORM
from research.mechanisms.looks import ACTED
from research.mechanisms.results import Results
from research.mechanisms.tasks import TASKS
from research.replication.differences import differences
from research.replication.papers import Compared, compared
from research.replication.runs import RECORD
from tests.kit import small
from tests.kit.small_texts import texts
from tests.oracles import (
    align_cases,
    feature_cases,
    general_cases,
    level_cases,
    query_cases,
    score_cases,
    signal_cases,
)

SIZES = (512, 2048)
SECTIONS = {
    "A": "The frame",
    "B": "Scores",
    "C": "Alignments",
    "D": "Dimensionality",
    "E": "Levels",
    "F": "Representations",
    "G": "Co-attention",
    "H": "Queries, heads, hops",
    "I": "Training signals",
    "J": "The survey's seventeen models",
    "K": "Architectures",
    "L": "Transformers",
    "M": "Efficient attention",
    "N": "Evaluation",
    "O": "Serving",
    "P": "What the text of the surveys names",
    "R": "More of the surveys",
    "T": "After the surveys",
}
NO_ATTENTION = "NO"  # sections of which no row is a mechanism or a model
_ORACLES = {
    name: module.__name__.replace(".", "/") + ".py"
    for module in (align_cases, feature_cases, general_cases, level_cases, query_cases, score_cases, signal_cases)
    for table in vars(module).values()
    if isinstance(table, dict)
    for name in table
    if isinstance(name, str)
}


@cache
def mechanisms(row: str) -> tuple[Mechanism, ...]:
    """Those of the registry."""
    return tuple(each for each in MECHANISMS if each.row == row)


@cache
def models(row: str) -> tuple[str, ...]:
    """Published models, by the names that train them."""
    return tuple(name for name, entry in ZOO.items() if entry.row == row)


def state(row: Row) -> str:
    """One of `STATES`: what the row says, or what its code proves."""
    return row.state or ("works" if mechanisms(row.id) or models(row.id) else "missing")


def entry(row: Row) -> dict[str, Any]:
    """All of it, as docs/atlas.json has it. What there is none of is empty."""
    sample = samples.sample(row.id)
    return {
        "id": row.id,
        "name": row.name,
        "section": SECTIONS[row.id[0]],
        "state": state(row),
        "lacks": row.lacks,
        "imports": list(row.imports),
        "about": row.about.strip(),
        "surveys": row.surveys,
        "also": list(row.also),
        "formulas": list(formulas(row)),
        "facets": facets(row),
        "files": files(row),
        "train": ["limelight", "train", *sample.train] if sample and sample.train else [],
        "serves": sample.model if sample else "",
        "reference": row.reference,
        "oracles": oracles(row),
        "measured": measured(row),
        "cost": cost(row),
        "claims": claims(row),
        "papers": [paper(key) for key in row.papers],
        "page": f"atlas/{row.id}.md",
        "map": f"atlas/maps/{row.id}.svg" if row.id in record() else "",
    }


def formulas(row: Row) -> Iterator[dict[str, Any]]:
    """Equations, with what each is of: those of docstrings, or the row's own."""
    found: dict[str, list[str]] = defaultdict(list)
    for each in mechanisms(row.id):
        found[each.equation].append(each.name)
    for text, names in (found or ({row.equation: [row.name]} if row.equation else {})).items():
        yield {
            "of": names,
            "plain": text,
            "tex": [each.tex for each in equations(text) if each.tex],
            "checked": bool(found) or not row.unchecked,
        }


def facets(row: Row) -> dict[str, list[str]]:
    """The survey's eight columns: of the forms in which the row is served, or of the row's own; none where it has no
    place there.
    """
    found: dict[str, list[str]] = {column: [] for column in COLUMNS}
    described = [each.serve(texts())[1].description.taxonomy for each in mechanisms(row.id) if each.served]
    described += [small.card(name).description.taxonomy for name in models(row.id)]
    if not described and row.facets:
        described = [Taxonomy.of(row.facets).describe()]
    for each in described:
        for column, values in found.items():
            values += [value for value in getattr(each, column) if value not in values]
    return found


def files(row: Row) -> list[dict[str, str]]:
    """Files that hold its code, each with what is there."""
    found = {}
    for each in mechanisms(row.id):
        found[f"models/{each.module.__module__.replace('.', '/')}.py"] = each.module.__name__
    for name in models(row.id):
        found[f"models/limelight_models/zoo/{ZOO[name].module.replace('.', '/')}.py"] = name
    return [{"path": path, "holds": holds} for path, holds in found.items()]


def oracles(row: Row) -> list[str]:
    """Files of oracles, written from the papers, that tests hold it against."""
    found = [f"{_ORACLES[each.name]}" for each in mechanisms(row.id) if each.name in _ORACLES]
    for name in models(row.id):
        path = f"tests/oracles/zoo/{ZOO[name].module.rpartition('.')[2]}.py"
        found += [path] if (ROOT / path).exists() else []
    return list(dict.fromkeys(found))


def paper(key: str) -> dict[str, str]:
    """A paper: its key, authors, year, title and address."""
    found = papers()[key]
    fields = found.fields
    return {
        "key": key,
        "authors": fields.get("author", "").replace(" and ", "; "),
        "year": fields.get("year", ""),
        "title": fields.get("title", "").replace("{", "").replace("}", ""),
        "doi": fields.get("doi", ""),
        "address": found.address,
    }


def measured(row: Row) -> list[dict[str, Any]]:
    """The task on which it is most ahead of a plain average of the same model, and the one on which it is least."""
    found = [*_study(row), *_trained(row)]
    found.sort(key=lambda each: each["average"] - each["figure"] if each["more"] else each["figure"] - each["average"])
    return found if len(found) < 2 else [found[0], found[-1]]


def _study(row: Row) -> Iterator[dict[str, Any]]:
    """Mechanisms beside each other: the share of right answers by task."""
    for name in (each.name for each in mechanisms(row.id)):
        for task, lines in _lines().items():
            for line, (right, acted, seeds) in lines.items():
                if name in (line, line.partition(" × ")[0]) and acted >= ACTED and UNIFORM in lines:
                    yield {
                        "of": line,
                        "task": TASKS[task].title,
                        "name": "right answers",
                        "figure": round(100 * right, 1),
                        "average": round(100 * lines[UNIFORM][0], 1),
                        "more": True,
                        "seeds": seeds,
                        "where": "mechanisms.md",
                    }


def _trained(row: Row) -> Iterator[dict[str, Any]]:
    """Published models beside themselves with equal weights."""
    for name in models(row.id):
        for each in differences(_training(), name, f"{name}-uniform"):
            yield {
                "of": name,
                "task": each.data,
                "name": each.figure,
                "figure": round(fmean(each.ours), 1),
                "average": round(fmean(each.theirs), 1),
                "more": each.gain * each.mean >= 0,
                "seeds": each.seeds,
                "where": "results.md",
            }


def claims(row: Row) -> list[dict[str, str]]:
    """What its paper claims, on each set of data, with the verdict of docs/results.md."""
    return [
        {
            "paper": each.claim.paper,
            "says": each.claim.says,
            "data": each.least.data if each.least else "",
            "difference": each.least.written(each.prior) if each.least else "",
            "verdict": each.verdict.replace("*", ""),
        }
        for each in _judged()
        if each.claim.model == row.id and not each.claim.own and not each.aside
    ]


def cost(row: Row) -> list[dict[str, Any]]:
    """Time and memory of as many queries as keys."""
    found = []
    for each in mechanisms(row.id):
        for label in (f"score: {each.name}", f"alignment: {each.name}"):
            if label in (table := _costs()):
                found.append({"of": each.name, **{f"{size}": table[label][size] for size in SIZES}})
    return found


@cache
def record() -> Mapping[str, Any]:
    """Samples that were served (`samples`)."""
    found: Mapping[str, Any] = read(samples.RECORD) if samples.RECORD.exists() else {}
    return found


@cache
def _training() -> Any:
    return read(RECORD)


@cache
def _judged() -> Sequence[Compared]:
    return compared(_training())


@cache
def _costs() -> Mapping[str, Mapping[int, str]]:
    found: dict[str, dict[int, str]] = defaultdict(dict)
    for each in read(COST)["rows"]:
        if each["queries"] == each["keys"]:
            found[each["name"]][each["keys"]] = cell(each)
    return found


@cache
def _lines() -> Mapping[str, Mapping[str, tuple[float, float, int]]]:
    """By task and line: the mean share of right answers, the share where its idea acted, and the number of seeds."""
    runs: dict[str, dict[str, list[Mapping[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for (kind, configuration, _), row in Results().rows.items():
        task, _, line = configuration.partition(" / ")
        if kind == "run" and task in TASKS:
            runs[task][line].append(row)
    return {
        task: {
            line: (
                fmean(each["accuracy"] for each in found),
                fmean(each.get("acted", 1.0) for each in found),
                len(found),
            )
            for line, found in lines.items()
        }
        for task, lines in runs.items()
    }


@cache
def entries() -> tuple[dict[str, Any], ...]:
    """Every row, in the catalogue's order."""
    return tuple(entry(each) for each in rows().values())
