"""`limelight attend`."""

import importlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from limelight.attended import Attended
from limelight.base import streams
from limelight.base.commands import CommandError
from limelight.cli import as_json, options
from limelight.cli.answering import answer_file
from limelight.cli.chat_options import Chat, System, write_as_chat
from limelight.cli.connection import Connection, with_connection_options
from limelight.cli.group_options import read_groups
from limelight.cli.input_texts import input_texts
from limelight.cli.inputs import only_image, read_instance
from limelight.cli.intervention_options import read_interventions
from limelight.cli.render_terminal import print_figures, show_prediction
from limelight.figures import Figure, Shape, figures, main_map, parent_maps
from limelight.predictions import Prediction
from limelight.records import json_types
from limelight.requests import AttendOptions, Generation
from limelight.saving import save_maps
from limelight.speech import TimedWord, word_times
from limelight.streams import StreamEvent, StreamStart
from limelight.v1 import values_pb2

# The server's default number of beams; fewer could change the best sequence.
_BEAMS = 4
# The map of the heads by which words are aligned with a recording.
_ALIGNMENT = "alignment"

Png = Annotated[
    Path | None, typer.Option("--png", metavar="FILE", help="Draw the maps into a PNG file; its folder is created.")
]

Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="PATH",
        help="Save whole maps of any size into a folder, as NumPy files; with --file: answers into a .jsonl or "
        ".parquet file. The same command goes on where one ended.",
    ),
]

WordsAlone = Annotated[
    bool,
    typer.Option("--words", help="Show words in place of their pieces, without special tokens."),
]

HideSpecial = Annotated[
    bool,
    typer.Option("--hide-special", help="Show tokens of the input alone, and the sum of what special tokens get."),
]

Times = Annotated[
    bool,
    typer.Option("--times", help="Show the words of a transcript with their times, in seconds, in place of maps."),
]


@with_connection_options
def attend(
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
    max_classes: options.MaxClasses = 0,
    maps: options.Maps = None,
    layers: options.Layers = None,
    heads: options.Heads = None,
    queries: options.Queries = None,
    quantity: options.Numbers = options.Quantity.weights,
    reduce: options.ReduceHeads = None,
    rollout: options.Rollout = False,
    groups: options.KeyGroups = None,
    query_groups: options.QueryGroups = None,
    label_set: options.GroupedSet = "",
    pool: options.PoolSize = 0,
    top_k: options.TopK = 0,
    sequences: options.SequenceMaps = 1,
    encoding: options.WireEncoding = options.Encoding.float32,
    mask_heads: options.MaskedHeads = None,
    uniform: options.UniformMaps = None,
    look_away: options.LookedAway = None,
    words: WordsAlone = False,
    hide_special: HideSpecial = False,
    times: Times = False,
    png: Png = None,
    out: Out = None,
    file: options.InputFile = None,
    as_document: options.Json = False,
    version: options.Version = 0,
) -> int | None:
    """Show a model's attention: `limelight attend dates "7 March 2021"`

    A terminal shades words or patches by weight; a pipe gets text with numbers. Maps with several heads show the mean,
    unless --head selects heads. Maps with many queries show the mean and the largest weights, unless --query selects
    queries.

    A group is a part of the text by characters (--group subject=0:12, in a pair first:0:12, of what is generated
    output:0:12), entries by number (#0:3 or #0,-1), or an input (--group question=pair.first).

    Maps of long inputs may exceed the size of an answer: --out FOLDER saves them as a stream. --file answers every row
    of a file, with many calls at the same time, into the file --out, as JSON.
    """
    options.check_file(file, None, (values, named, image, example))
    if file is not None and (png is not None or words or hide_special or times or chat or system):
        raise CommandError(
            "--file writes JSON: --png, --words, --hide-special, --times and --chat are for one answer", status=2
        )
    if (words or hide_special) and (out is not None or as_document):
        option = "--words" if words else "--hide-special"
        raise CommandError(f"{option} is for the display: --json and --out have every token", status=2)
    if png is not None and png.suffix.lower() != ".png":
        raise CommandError(f"--png writes PNG files, whose names end in .png, not {str(png)!r}", status=2)
    if out is not None and png is not None:
        raise CommandError("--png draws an answer, and --out writes one to files: choose one of them", status=2)
    # The display shows the mean over heads; the server computes it and sends less. Of values it is of their lengths.
    shown_alone = not as_document and file is None and not heads and not rollout and out is None
    shown_alone = shown_alone and quantity != "values"
    reduction: Literal["mean", "max"] | None = "mean" if shown_alone else None
    if reduce is not None:
        reduction = reduce.value
    several = None
    if sequences > 1:
        several = Generation(strategy="beam", beams=max(_BEAMS, sequences), hypotheses=sequences)
    left_out = ""
    with connection.client() as client:
        description = client.model(model, version)
        is_selected = maps or layers or heads or queries or groups or query_groups or rollout
        if png is not None and description.maps and not (is_selected or as_document or quantity != "weights"):
            # One good picture rather than all maps, of which many models have dozens.
            maps = [main_map(description).name]
            if len(description.maps) > 1:
                left_out = f"--png draws {maps[0]}; --map '*' draws all {len(description.maps)} maps"
        # The display weights the words of a line by the line's weight.
        one_by_one = as_document or out is not None or file is not None or layers or heads or queries or not maps
        levels = () if one_by_one else parent_maps(description, maps or ())
        asked: AttendOptions = {
            "version": version,
            "truncate": truncate,
            "seed": seed,
            "max_classes": max_classes,
            "generation": several,
            "maps": (*(maps or ()), *levels),
            "layers": layers or (),
            "heads": heads or (),
            "queries": queries or (),
            "quantity": quantity.value,
            "reduce": reduction,
            "rollout": rollout,
            "key_groups": read_groups(groups or (), label_set),
            "query_groups": read_groups(query_groups or (), label_set),
            "pool": pool or None,
            "top_k": top_k,
            "sequences": sequences,
            "encoding": encoding.value,
            "interventions": read_interventions(mask_heads, uniform, look_away),
        }
        if file is not None:
            return answer_file(file, out, description, lambda inputs: client.attend_many(model, inputs, **asked))
        instance = read_instance(description, positional=values or (), named=named or (), image=image, example=example)
        if times:
            if _ALIGNMENT not in [each.name for each in description.maps]:
                raise CommandError(f"--times: {model} has no map {_ALIGNMENT!r}", status=2)
            heard = client.attend(model, instance, version=version, truncate=truncate, seed=seed, maps=_ALIGNMENT)
            _show_times(word_times(heard, _ALIGNMENT), as_document=as_document)
            return None
        write_as_chat(description, instance, chat, system)
        texts = input_texts(description, instance)
        if out is not None:
            _save(client.attend_stream(model, instance, **asked), out, texts, as_document=as_document)
            return None
        answer = client.attend(model, instance, **asked)
        if words or hide_special:
            answer = _shown(answer, by_words=words, chosen_queries=bool(queries))
    shape = Shape(each_head=bool(heads), each_query=bool(queries), matrices=png is not None)
    pictures = _pictures(answer, instance, maps if levels and maps else (), shape)
    if png is not None:
        render_png = importlib.import_module("limelight.cli.render_png")  # imports Pillow only when needed
        render_png.save(
            pictures, png, image=only_image(instance), heading={**texts, **_answer_heading(answer.prediction)}
        )
    if as_document:
        as_json.write(answer.to_dict())
    elif png is None:
        _show(answer, texts, pictures)
    else:
        show_prediction(answer.prediction, texts, streams.console())
        print(png)
        if left_out:
            print(f"limelight: {left_out}", file=sys.stderr)
    return None


def _show_times(words: Sequence[TimedWord], *, as_document: bool) -> None:
    if as_document:
        as_json.write(json_types(words))
        return
    for each in words:
        print(f"{each.start:7.2f} {each.end:7.2f}  {each.text}")


def _shown(answer: Attended, *, by_words: bool, chosen_queries: bool) -> Attended:
    """Hide special tokens in the maps of an answer, but for chosen queries, and join the pieces of words if asked.

    Raises:
        CommandError: the model does not state words, or a map cannot be shown like this.
    """
    option = "--words" if by_words else "--hide-special"
    if by_words and not any(len(labels.words) for each in answer.maps for labels in (each.query, each.key)):
        raise CommandError("--words: the answer does not state the words of its tokens")
    try:
        if by_words:
            maps = [each.by_words(special_queries=chosen_queries, special_keys=False) for each in answer.maps]
        else:
            maps = [each.hide_special(queries=not chosen_queries) for each in answer.maps]
    except ValueError as error:
        raise CommandError(f"{option}: {error}") from error
    return replace(answer, maps=tuple(maps))


def _pictures(answer: Attended, sent: values_pb2.Instance, names: Sequence[str], shape: Shape) -> Iterator[Figure]:
    """Return the figures of the best sequence or only answer, then those of other sequences."""
    yield from figures(answer.maps, sent=sent, names=names, **shape)
    for other in answer.other_sequences:
        of = f"sequence {other.sequence}: {answer.prediction.sequences[other.sequence].text}"
        yield from figures(other.maps, sent=sent, of=of, **shape)


def _save(events: Iterator[StreamEvent], folder: Path, texts: Mapping[str, str], *, as_document: bool) -> None:
    """Save a stream's maps, and report each complete file."""
    try:
        for each in save_maps(events, folder):
            if as_document:
                as_json.write(as_json.saved(each))
            elif isinstance(each, StreamStart):
                show_prediction(each.prediction, texts, streams.console())
            else:
                print(each.file, *each.map.shape)
    except OSError as error:
        raise CommandError(f"cannot write into {error.filename or folder}: {error.strerror}") from error


def _show(answer: Attended, texts: Mapping[str, str], pictures: Iterable[Figure]) -> None:
    console = streams.console()
    show_prediction(answer.prediction, texts, console)
    print_figures(pictures, console)


def _answer_heading(prediction: Prediction) -> dict[str, str]:
    """Return the answer as a heading: classes whose probability does not round to 0.00."""
    shown = [f"{each.label} ({each.probability:.2f})" for each in prediction.classes[:3] if each.probability >= 0.005]
    said = ", ".join(shown)
    if not said and prediction.sequences:
        said = f"{prediction.text} ({prediction.sequences[0].probability:.2f})"
    said = said or prediction.headline
    return {"answer": said} if said else {}
