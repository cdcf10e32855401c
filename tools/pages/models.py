"""The page docs/models.md: where to find each published model.

Names and ids are those of the index, papers and maps those of the cards, data those of the recipes and of the runs of
docs/results.md.
"""

import re
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.records import ROOT
from limelight.v1 import model_pb2
from limelight_models.data.generated import SETS
from limelight_models.index import CONTROLS, ZOO, published, recipe, variants
from pages.atlas import facts
from pages.atlas.rows import letters, papers
from pages.table_3 import AUTHORS, COLUMNS, DEPARTS, LACKS, ROWS
from research.replication.papers import CLAIMS
from research.replication.runs import TABLE
from research.replication.tables import written
from tests.kit import small

PAGE = ROOT / "docs" / "models.md"
HEAD = f"""# Published models

Where each model is and how to train it. Written by `make docs` from the models themselves. Do not edit.

- *id*: the model's page in [the atlas](atlas/index.md) of what attention surveys name, of which [the
  taxonomy](taxonomy.md) has the mechanisms; J1 to J17 are the models that [Brauwers and
  Frasincar compare](#the-surveys-table).
- *train*: the command for the model. Variants have its name with another ending (`limelight train luong-dot`), and
  every one has two controls: {" and ".join(f"`-{each}`" for each in CONTROLS)}.
- *made here*: data that need no download, the first without an option, others with `--data builtin:NAME`; each links
  to the file that makes them. *real data*: what the model was also trained on in [the results](results.md).
- *maps*: the attention that a served model shows, by name; N is the number of a layer.
"""
SURVEY = """
## The survey's table

Table 3 of Brauwers and Frasincar, *A General Survey on Attention Mechanisms in Deep Learning* (2021), as they have it:
"+" joins parts of one model, "," what one paper tries one by one, each of which is a variant here. Models here say the
same of themselves (`limelight models NAME`), but where a cell says otherwise; a test holds them together.
"""
_AUTHORS = 3  # more are "et al."
BUILTIN = "builtin:"


def page() -> str:
    """The whole page."""
    heads = ("id", "model", "paper", "train", "file", "made here", "real data", "maps", "")
    measured = trained_on()
    return "".join([HEAD, *written(heads, (row(name, measured.get(name)) for name in ZOO)), SURVEY, *survey()])


def trained_on() -> dict[str, list[str]]:
    """Training data of the measured runs of each published model and its variants, in the order of the runs."""
    found: dict[str, dict[str, None]] = {}
    for each in TABLE:
        found.setdefault(published(each.model), {})[each.data] = None
    return {name: [*filter(None, data)] for name, data in found.items()}


def survey() -> list[str]:
    """Table 3 of the survey, row by row, with the models that stand for each paper."""
    rows = []
    for key, cells in ROWS.items():
        name = facts.models(key)[0]
        found = f"`{name}` ({LACKS[name]})" if name in LACKS else f"`{name}`"
        rows.append(
            (in_atlas(key), AUTHORS[key], found, *(placed(name, column, cell) for column, cell in cells.items()))
        )
    return written(("id", "paper", "here", *(column.replace("_", " ") for column in COLUMNS)), rows)


def placed(name: str, column: str, cell: str) -> str:
    """A cell of the survey, and what the model says there where that is another thing, with the reason."""
    if (name, column) not in DEPARTS:
        return cell
    own, why = DEPARTS[name, column]
    return f"{cell}; here {', '.join(own)} ({why})"


def row(name: str, measured: list[str] | None) -> tuple[str, ...]:
    """A model's row. measured: the training data of its runs; None where there are none."""
    described = small.card(name).description
    file = f"{ZOO[name].module.replace('.', '/')}.py"
    return (
        in_atlas(ZOO[name].row) if ZOO[name].row else "–",
        described.title,
        paper(described.citation),
        train(name),
        f"[{file}](../models/limelight_models/zoo/{file})",
        ", ".join(f"[{each}](../{file})" for each, file in made_here(name, measured or ()).items()),
        ", ".join(Path(each).stem for each in measured or () if not each.startswith(BUILTIN)),
        ", ".join(dict.fromkeys(re.sub(r"\b\d+\b", "N", f"`{each.name}`") for each in described.maps)),
        results(name, has_runs=measured is not None),
    )


def in_atlas(row: str) -> str:
    """A row's id, with a link to its page."""
    return f"[{row}](atlas/{row}.md)"


def paper(citation: model_pb2.Citation) -> str:
    """Authors, year, title and where it appeared, with a link where the atlas knows one."""
    known = (each.address for each in papers().values() if letters(each.fields["title"]) == letters(citation.title))
    address = next(filter(None, known), "")
    title = f"[{citation.title}]({address})" if address else citation.title
    authors = ", ".join(citation.authors) if len(citation.authors) <= _AUTHORS else f"{citation.authors[0]} et al."
    return f"{authors} ({citation.year}), *{title}*, {citation.venue}"


def train(name: str) -> str:
    """The command, and what its variants end in."""
    endings = [f"`{each.removeprefix(name)}`" for each in variants(name)]
    return f"`limelight train {name}`" + (f"; also {', '.join(endings)}" if endings else "")


def made_here(name: str, measured: Iterable[str]) -> dict[str, str]:
    """Data that are made here, by name, with the files that make them: the recipe's own, then others of the results."""
    builtin = recipe(name).builtin
    assert builtin is not None
    module = unwrapped(builtin)[0].__module__
    own = next(
        (each for each, made in SETS.items() if unwrapped(made.make) == unwrapped(builtin)), module.split(".")[-1]
    )
    known = [each.removeprefix(BUILTIN) for each in measured if each.startswith(BUILTIN)]
    others = {each: unwrapped(SETS[each].make)[0].__module__ for each in known}
    return {each: file_of(where) for each, where in {own: module, **others}.items()}


def file_of(module: str) -> str:
    """The file of a module of the models, from the repository's root."""
    return f"models/{module.replace('.', '/')}.py"


def unwrapped(make: Callable[..., Any]) -> tuple[Callable[..., Any], dict[str, Any]]:
    """A function, and what is already given to it."""
    return (make.func, make.keywords) if isinstance(make, partial) else (make, {})


def results(name: str, *, has_runs: bool) -> str:
    """Link to its figures; empty where none were measured."""
    if any(published(each.better) == name for each in CLAIMS):
        return "[results](records/results.md#what-the-papers-claim)"
    return "[results](results.md)" if has_runs else ""
