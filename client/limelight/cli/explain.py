"""`limelight explain` and `limelight replay`."""

import json
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from limelight import calls
from limelight import replay as records
from limelight.base import streams
from limelight.base.commands import CommandError
from limelight.base.printing import printable
from limelight.cli import as_json, options
from limelight.cli.chat_options import Chat, System, write_as_chat
from limelight.cli.connection import Connection, with_connection_options
from limelight.cli.group_options import read_groups, read_members
from limelight.cli.input_texts import input_texts
from limelight.cli.inputs import only_image, read_instance
from limelight.cli.render_terminal import print_figures, show_prediction
from limelight.descriptions import Model
from limelight.explanations import Explanation
from limelight.figures import one_line
from limelight.files import write_file
from limelight.groups import TextSpan
from limelight.requests import ExplainOptions, Target, explain_request
from limelight.unit_figures import figures, largest, notes, values_of

_LABEL, _NUMBER = 40, 9  # letters of a unit and of a number in the table
_DIGEST = 12  # digits of a digest that are shown


class Unit(StrEnum):
    """Kind of units."""

    word = "word"
    sentence = "sentence"
    line = "line"
    token = "token"
    patch = "patch"
    node = "node"
    frame = "frame"


class Way(StrEnum):
    """Way to tell what an answer depends on."""

    attention = "attention"
    rollout = "rollout"
    look_away = "look-away"
    look_only = "look-only"
    erase = "erase"
    erase_others = "erase-others"


UnitOption = Annotated[Unit | None, typer.Option("--unit", help="Parts of the input. [default: those that fit it]")]
UnitSize = Annotated[
    int,
    typer.Option("--unit-size", min=0, help="Cells along a side of a patch, or frames of a part."),
]
GivenUnits = Annotated[
    list[str] | None,
    typer.Option("--group", metavar="NAME=PLACE", help="A unit, in place of --unit; as of attend. Repeatable."),
]
UnitInputs = Annotated[
    list[str] | None, typer.Option("--unit-input", metavar="NAME", help="Only units of this input. Repeatable.")
]
TargetOption = Annotated[
    str | None,
    typer.Option(
        "--for",
        metavar="TARGET",
        help="What is explained: a class or number by name; START:END for a span; for a model that writes, a text; for "
        "vectors, an input to be similar to. [default: the model's own answer]",
    ),
]
Entry = Annotated[
    int | None, typer.Option("--entry", help="Explain this entry of a tagging, box or output step; -1 is the last.")
]
Result = Annotated[str, typer.Option("--result", metavar="NAME", help="Result, of a model with several.")]
Ways = Annotated[
    list[Way] | None,
    typer.Option("--way", help="Way to tell. Repeatable. [default: attention and look-away, or what the model has]"),
]
Save = Annotated[
    Path | None,
    typer.Option(
        "--save", metavar="FILE", help="Draw into a .png file, or write a .html page or .npz; its folder is created."
    ),
]
Record = Annotated[Path | None, typer.Option("--record", metavar="FILE", help="Record what made it, for replay.")]
HashOnly = Annotated[bool, typer.Option("--hash-only", help="With --record: the hash of the input in place of it.")]
RecordFile = Annotated[Path, typer.Argument(metavar="FILE", help="A record of `limelight explain --record`.")]
Tolerance = Annotated[
    float, typer.Option("--tolerance", min=0.0, help="Largest difference of a number that counts as the same.")
]


@with_connection_options
def explain(
    connection: Connection,
    model: options.ModelName,
    values: options.Words = None,
    named: options.NamedInputs = None,
    image: options.ImageFile = None,
    example: options.Example = None,
    truncate: options.Truncate = False,
    chat: Chat = "",
    system: System = "",
    seed: options.Seed = None,
    explained: TargetOption = None,
    entry: Entry = None,
    result: Result = "",
    unit: UnitOption = None,
    unit_size: UnitSize = 0,
    groups: GivenUnits = None,
    label_set: options.GroupedSet = "",
    unit_inputs: UnitInputs = None,
    ways: Ways = None,
    maps: options.Maps = None,
    layers: options.Layers = None,
    heads: options.Heads = None,
    queries: options.Queries = None,
    save: Save = None,
    record: Record = None,
    hash_only: HashOnly = False,
    as_document: options.Json = False,
    version: options.Version = 0,
) -> None:
    """Tell what of its input an answer depends on: `limelight explain dates "7 March 2021"`

    Shows the text twice, shaded by attention and by how the answer changes where the model looks away: blue is what the
    answer needs, orange what speaks against it. The numbers of the second are changes of the score that the last lines
    name; one sentence says whether both agree.
    """
    if groups and unit is not None:
        raise CommandError("--group gives the units: leave --unit away", status=2)
    if hash_only and record is None:
        raise CommandError("--hash-only is for --record", status=2)
    if save is not None and save.suffix.lower() not in (".png", ".html", ".npz"):
        raise CommandError(f"--save writes .png, .html and .npz files, not {str(save)!r}", status=2)
    with connection.client() as client:
        description = client.model(model, version)
        instance = read_instance(description, positional=values or (), named=named or (), image=image, example=example)
        write_as_chat(description, instance, chat, system)
        given = read_groups(groups or (), label_set)
        asked: ExplainOptions = {
            "version": version,
            "truncate": truncate,
            "seed": seed,
            "target": _target(description, explained, entry, result),
            "units": given[0] if given else _plural(unit),
            "unit_size": unit_size,
            "unit_inputs": unit_inputs or (),
            "ways": [each.value.replace("-", "_") for each in ways or ()],
            "maps": maps or (),
            "layers": layers or (),
            "heads": heads or (),
            "queries": queries or (),
        }
        why = client.explain(model, instance, **asked)
    if record is not None:
        document = records.recorded(explain_request(model, instance, **asked), why, with_input=not hash_only)
        write_file(record, json.dumps(document, ensure_ascii=False, indent=1) + "\n")
    if save is not None:
        save.parent.mkdir(parents=True, exist_ok=True)
        why.save(save, image=only_image(instance))
    if as_document:
        as_json.write(why.to_dict())
        return
    console = streams.console()
    show_prediction(why.prediction, input_texts(description, instance), console)
    print_figures(figures(why), console)
    console.print()
    for line in (*_table(why), *notes(why)):
        console.print(printable(line), markup=False, highlight=False, emoji=False, soft_wrap=True)
    for file in (save, record):
        if file is not None:
            print(file)


def _target(model: Model, value: str | None, entry: int | None, result: str) -> Target | None:
    """Read a target, as the kind of the result that it is of has it. Raises CommandError."""
    chosen = next((each for each in model.results if each.name == result or not result), None)
    if value is None or chosen is None:
        return None if value is None and entry is None and not result else Target(entry=entry, result=result)
    given: dict[str, Any] = {"label": value}
    match chosen.kind:
        case "sequence":
            given = {"text": value}
        case "embedding":
            given = {"similar_to": read_instance(model, positional=[value])}
        case "spans":
            (span, *rest) = read_members(value)
            if rest or not isinstance(span, TextSpan):
                raise CommandError(f"--for is START:END in the text for {model.name!r}, not {value!r}", status=2)
            given = {"span": span}
    return Target(entry=entry, result=result, **given)


def _plural(unit: Unit | None) -> str:
    return "" if unit is None else "patches" if unit is Unit.patch else f"{unit.value}s"


def _table(why: Explanation) -> Iterator[str]:
    """Yield lines of the units with the largest values."""
    places = largest(why)
    labels = [one_line(" ".join(why.units.labels[at].split()) or why.units.labels[at]) for at in places]
    labels = [each if len(each) <= _LABEL else f"{each[: _LABEL - 1]}…" for each in labels]
    width, titles = max(map(len, labels), default=0), [way.replace("_", " ") for way in why]
    yield "  ".join([" " * width, *(f"{title:>{_NUMBER}}" for title in titles)])
    for at, label in zip(places, labels, strict=True):
        cells = zip(values_of(why, at), titles, strict=True)
        yield "  ".join([f"{label:<{width}}", *(f"{cell:>{max(_NUMBER, len(title))}}" for cell, title in cells)])


@with_connection_options
def replay(
    connection: Connection,
    file: RecordFile,
    values: options.Words = None,
    named: options.NamedInputs = None,
    image: options.ImageFile = None,
    chat: Chat = "",
    system: System = "",
    tolerance: Tolerance = 1e-3,
    as_document: options.Json = False,
) -> int | None:
    """Ask again for an explanation that was recorded: `limelight replay why.json`

    Says within what it holds. The exit status is 1 if the target, the units or a number is another. A record with the
    hash of its input alone needs the input again, given as to explain.
    """
    try:
        document = json.loads(file.read_bytes())
        request = records.read_request(document)
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{file} cannot be replayed: {error}") from error
    with connection.client() as client:
        (instance,) = request.instances
        if values or named or image is not None:
            if instance.inputs:
                raise CommandError(f"{file} has its input; give no other", status=2)
            description = client.model(request.model.name, request.model.version)
            again = read_instance(description, positional=values or (), named=named or (), image=image)
            write_as_chat(description, again, chat, system)
            instance.MergeFrom(again)
        elif not instance.inputs:
            raise CommandError(f"{file} has the hash of its input alone: give the input", status=2)
        if records.input_digest(instance) != document["input"]["sha256"]:
            raise CommandError("the input is not the recorded one: its hash is another")
        call = calls.explained(request)
        (why,) = calls.read(call, client.call(call.method, request))
    found, made_by = records.compared(document, why), why.prediction.provenance
    holds = found.holds(tolerance)
    if as_document:
        shown = {"holds": holds, "tolerance": tolerance, "difference": found.difference, "where": found.where}
        digests = {"bundle_digest": made_by.bundle_digest, "recorded_digest": document["model"]["bundle_digest"]}
        as_json.write({**shown, "other": found.other, **digests})
        return None if holds else 1
    digest = f"digest {made_by.bundle_digest[:_DIGEST]}"
    if found.digest:
        digest = f"digest changed: was {found.digest[:_DIGEST]}, is {made_by.bundle_digest[:_DIGEST]}"
    lines = [f"{made_by.model} version {made_by.version}, {digest}"]
    if found.other:
        lines.append(f"does not hold: {found.other}")
    elif holds:
        lines.append(f"holds: no number differs by more than {found.difference:.2g} (tolerance {tolerance:g})")
    else:
        lines.append(f"does not hold: {found.where} (tolerance {tolerance:g})")
    print(printable("\n".join(lines)))
    return None if holds else 1
