"""The page docs/coverage.md: every name of the surveys, and what stands here."""

from collections import Counter, defaultdict
from collections.abc import Iterable

from benchmarks.records import ROOT
from limelight_models.index import module
from pages.models import file_of
from pages.survey_tables import ABSENT, CHECKPOINTS, HALF, IMPORT, MISSING, ONLY, WORKS, Mark, Name, tables
from research.replication.tables import written

PAGE = ROOT / "docs" / "coverage.md"
HEAD = """# What the surveys name, and what is here

Written by `make docs` from the registry, the list of models, and `tools/pages/surveys.txt`. Do not edit.

Every mechanism, paper and task that the four surveys name, those of the text too. An id leads to its page of
[the atlas](atlas/index.md), which has its file, its independent reference, and the command that runs it.

- **works**: a mechanism or a model that is held against a reference, exported and served.
- **import**: no model here, but [checkpoints of it](import.md) are served with their maps.
- **half**: a part. Its mechanism works, but in other systems than the one named (*as in*), or a part of it is missing.
- **missing**: nothing of it, whether a row waits for it or not.

"""
STATES = (WORKS, IMPORT, HALF, MISSING)


def page() -> str:
    """The whole page."""
    found = tables()
    surveys: defaultdict[str, list[Name]] = defaultdict(list)
    for title, names in found.items():
        for survey in (title[: title.index(")") + 1], "**together**"):
            surveys[survey] += names
    surveys["**together**"] = surveys.pop("**together**")  # the last line
    counts = [(survey, *counted(names)) for survey, names in surveys.items()]
    parts = [HEAD, *written(("survey", *STATES, "names"), counts, words=1)]
    for title, names in found.items():
        parts += [f"\n## {title}\n", *written(("in the survey", "", "rows", "here"), map(shown, names))]
    return "".join(parts)


def counted(names: Iterable[Name]) -> tuple[str, ...]:
    """How many names are in each state, and in all."""
    found = Counter(each.state for each in names)
    return (*(str(found[each]) for each in STATES), str(found.total()))


def shown(name: Name) -> tuple[str, ...]:
    """A line: the name, its state, its rows, and what works of them, with their files."""
    ids = dict.fromkeys(each.row for each in name.marks if each.kind != CHECKPOINTS)
    here = "; ".join(filter(None, map(described, name.marks)))
    return name.name, f"**{name.state}**", ", ".join(f"[{each}](atlas/{each}.md)" for each in ids), here


def described(mark: Mark) -> str:
    """What is here of a row, with links to its files; empty for what is missing."""
    if mark.kind == CHECKPOINTS:
        return f"[checkpoints of {mark.row}](import.md)"
    if mark.kind == ABSENT:
        return ""
    found = [(each.name, each.module.__module__) for each in mark.mechanisms]
    found = found or [(f"`{name}`", module(name)) for name in mark.models[:1]]
    links = ", ".join(f"[{text}](../{file_of(where)})" for text, where in found)
    return f"as in {links or mark.row}" if mark.kind == ONLY else links
