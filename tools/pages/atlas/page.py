"""The page of a row: docs/atlas/ID.md."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pages.atlas import maps
from pages.atlas.facts import NO_ATTENTION, SIZES, record
from pages.atlas.rows import papers
from pages.atlas.tex import equations
from pages.table_3 import COLUMNS
from research.replication.figures import POINTS
from research.replication.tables import written

SURVEYS = {
    "BF": "brauwers2023general",
    "G": "galassi2021attention",
    "C": "chaudhari2021attentive",
    "S": "soydaner2022attention",
}
_NAMED = 4  # authors; of more the first ones
NOT_IN_SURVEYS = "None of the four surveys names it"


def page(found: Mapping[str, Any], before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> str:
    """Write it. before, after: its neighbours in the catalogue."""
    plain = found["id"][0] in NO_ATTENTION
    parts = [
        f"# {found['id']}: {found['name']}\n",
        f"{stated(found)}\n",
        found["about"],
        "\n## Formula\n",
        *formula(found),
        "\n## In the surveys\n",
        *surveys(found),
    ]
    if not plain:
        parts += ["\n## Facets\n", *facets(found), "\n## A map\n", *attention(found)]
    parts += ["\n## Here\n", *here(found)]
    if not plain:
        parts += ["\n## Measured\n", *measured(found)]
    parts += ["\n## Papers\n", *cited(found), "\n## Beside it\n", beside(before, after)]
    return "\n".join(parts).replace("\n\n\n", "\n\n") + "\n"


def stated(found: Mapping[str, Any]) -> str:
    """The state, in a line."""
    imports = ", ".join(f"`{each}`" for each in found["imports"])
    match found["state"]:
        case "works":
            line = "**Works** here."
        case "half":
            line = f"**Half**: lacks {found['lacks']}."
        case "import":
            line = "**Import only**."
        case _:
            line = f"**Missing**{': ' + found['lacks'] if found['lacks'] else ': nothing of it is here yet'}."
    if imports:
        line += f" [Imported checkpoints](../import.md) of {imports} come with their maps."
    return f"{line} *{found['section']}*, [the atlas](index.md)."


def formula(found: Mapping[str, Any]) -> Iterator[str]:
    """Displayed equations."""
    if not found["formulas"]:
        yield "None is written down here."
    for each in found["formulas"]:
        if len(found["formulas"]) > 1:
            yield f"*{', '.join(each['of'])}*\n"
        yield "\n".join(line.markdown for line in equations(each["plain"]))
        if not each["checked"]:
            yield "\nFrom memory of the paper, all or in part: nobody held it against the paper's text or its code."


def surveys(found: Mapping[str, Any]) -> Iterator[str]:
    """Places and other names."""
    yield f"{found['surveys'] or NOT_IN_SURVEYS}."
    if found["also"]:
        yield f"Also called: {'; '.join(found['also'])}."
    if found["surveys"]:
        yield f"\n{LEGEND}"


def facets(found: Mapping[str, Any]) -> Iterator[str]:
    """The eight columns."""
    if not any(found["facets"].values()):
        yield "It has no place in the survey's eight columns: " + (
            "it acts in training alone." if found["files"] else "nothing of it is here to be placed."
        )
        return
    yield "The columns of Table 3 of BF" + (", as the code says it of itself." if found["files"] else ".")
    rows = [(each, ", ".join(found["facets"][each]) or "–") for each in COLUMNS]
    yield "".join(written(("facet", "here"), rows))


def attention(found: Mapping[str, Any]) -> Iterator[str]:
    """The heat map, and what it is of."""
    if found["id"] not in record():
        why = "it acts in training alone, and leaves no map" if found["files"] else "nothing here serves it"
        yield f"None: {'no sample was recorded yet' if found['serves'] else why}."
        return
    sample = record()[found["id"]]
    yield f"![{maps.alt(sample)}](maps/{found['id']}.svg)\n"
    yield caption(sample)


def caption(sample: Mapping[str, Any]) -> str:
    """What was trained, how long, on what, and what is drawn."""
    trained = "the demo's model" if sample["command"] == ["limelight", "demo"] else f"`{shlex.join(sample['command'])}`"
    height, width = sample["size"]
    cut = "" if sample["whole"] else f", the first {len(sample['weights'])} × {len(sample['weights'][0])} of them"
    said = "".join(f", {each}" for each in sample["said"])
    axes = f"{sample['rows_are'].replace('_', ' ')} × {sample['columns_are'].replace('_', ' ')}"
    colour = "orange adds, blue takes away" if sample["signed"] else "the more colour, the more weight"
    figure = ""
    if sample["metric"]:
        name, value, other, least = sample["metric"]
        figure = f", {name} {value:.3f} on {sample['held_out']:,} held out" + (
            f" ({other} {least:.3f})" if other else ""
        )
    return (
        f"Map `{sample['map']}` of a served sample: {axes}, {height} × {width}{cut}{said}; {colour}, up to the largest "
        f"weight. Trained: {trained} on {sample['data']} ({sample['learned_from']:,} examples{figure}). "
        f"The model's answer: {shown(sample['answer'])}."
    )


def shown(text: str) -> str:
    """Somebody's text as code, in one line."""
    return f"`{' '.join(text.replace('`', chr(39)).split())}`"


def here(found: Mapping[str, Any]) -> Iterator[str]:
    """Files, commands, and what it is held against."""
    if not found["files"]:
        yield "No code of its own." if found["state"] != "works" else "See the documentation that the text above names."
        return
    code = [f"[`{each['holds']}`](../../{each['path']})" for each in found["files"]]
    yield f"- code: {', '.join(code)}"
    held = [found["reference"]] if found["reference"] else []
    held += [
        f"an oracle written from the paper ([{each.rpartition('/')[2]}](../../{each}))" for each in found["oracles"]
    ]
    yield f"- held against: {'; '.join(held) or 'nothing independent'}"
    if found["serves"]:
        yield "\n```sh"
        yield from commands(found)
        yield "```"
    else:
        yield "- nothing of it is in a served graph: it acts in training alone"


def commands(found: Mapping[str, Any]) -> Iterator[str]:
    """Commands that train, serve and show it."""
    if found["train"]:
        yield shlex.join([*found["train"], "--name", found["serves"], "--repository", "bundles"])
        yield "limelight serve --repository bundles"
    else:
        yield "limelight demo"
    yield f"limelight attend {found['serves']} --example 0"


def measured(found: Mapping[str, Any]) -> Iterator[str]:
    """Best and worst task, the claims of its paper, and its cost."""
    for said, each in zip(("best", "worst") if found["measured"][1:] else ("only",), found["measured"], strict=False):
        unit = "" if each["name"] in POINTS else " %"
        seeds = f"{each['seeds']} seed{'s' if each['seeds'] > 1 else ''}"
        yield (
            f"- {said} task: {each['task']} (`{each['of']}`): {each['name']} {each['figure']:g}{unit}, "
            f"an average with equal weights {each['average']:g}{unit} ([{seeds}](../{each['where']}))"
        )
    if not found["measured"]:
        yield "- no task compares it with an average of equal weights"
    for each in found["claims"]:
        data = f" on {each['data']}, by {each['difference']}" if each["data"] else ""
        yield f"- {each['paper']} claims: {each['says']}{data}: {each['verdict']} ([how it is judged](../results.md))"
    for each in found["cost"]:
        yield (
            f"- cost of {each['of']}, forward, one thread: "
            + "; ".join(f"{each[str(size)]} at {size:,}²" for size in SIZES)
            + " ([all](../attention-cost.md))"
        )
    if not found["cost"]:
        yield "- its cost by itself was not measured"


def cited(found: Mapping[str, Any]) -> Iterator[str]:
    """Papers with their addresses, and their entries for a bibliography."""
    if not found["papers"]:
        yield "None is named here."
        return
    for each in found["papers"]:
        where = f"[{each['doi'] or each['address']}]({each['address']})" if each["address"] else "no identifier known"
        yield f"- {authors(each['authors'])} ({each['year']}), *{each['title']}*, {where}"
    yield "\n```bibtex"
    yield "\n\n".join(papers()[each["key"]].bibtex for each in found["papers"])
    yield "```"


def authors(names: str) -> str:
    """Last names, of many the first."""
    last = [each.partition(",")[0] for each in names.split("; ")]
    return ", ".join(last[:_NAMED]) + (" et al." if len(last) > _NAMED else "")


def beside(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> str:
    """Links to the neighbours."""
    ways = [("before", before), ("after", after)]
    links = [f"{way}: [{each['id']} {each['name']}]({each['id']}.md)" for way, each in ways if each]
    return " · ".join([*links, "[all](index.md)"])


def _survey(mark: str, key: str) -> str:
    paper = papers()[key]
    return f"{mark}: [{authors(paper.fields['author'].replace(' and ', '; '))} {paper.fields['year']}]({paper.address})"


LEGEND = f"({', '.join(_survey(*each) for each in SURVEYS.items())}.)"


def pages(entries: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Every page, by its id."""
    around = zip(entries, [None, *entries[:-1]], [*entries[1:], None], strict=True)
    return {found["id"]: page(found, before, after) for found, before, after in around}
