"""Options shared by several commands."""

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from limelight.base.commands import CommandError
from limelight.cli import server_names


class Reduce(StrEnum):
    """Head reduction."""

    mean = "mean"
    max = "max"


class Quantity(StrEnum):
    """Quantity of a map."""

    weights = "weights"
    scores = "scores"
    norms = "norms"
    values = "values"


class Encoding(StrEnum):
    """Encoding of weights."""

    float32 = "float32"
    float16 = "float16"
    uint8 = "uint8"


class Strategy(StrEnum):
    """Decoding strategy."""

    greedy = "greedy"
    sample = "sample"
    beam = "beam"


ModelName = Annotated[
    str, typer.Argument(metavar="MODEL", help="Name of the model.", autocompletion=server_names.models)
]
Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="INPUT", help="Value of each required input: a text, or the path of an image; - for stdin."),
]
NamedInputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        "-i",
        metavar="NAME=VALUE",
        help="Value of one input; NAME=@FILE reads a file.",
        autocompletion=server_names.inputs,
    ),
]
ImageFile = Annotated[Path | None, typer.Option("--image", metavar="FILE", help="Image for the model's image input.")]
Example = Annotated[
    int | None, typer.Option("--example", min=0, help="Send an example of the model, by number from 0.")
]
Truncate = Annotated[
    bool, typer.Option("--truncate", help="Truncate inputs over the model's limits instead of failing.")
]
Seed = Annotated[int | None, typer.Option("--seed", min=0, help="Seed of sampling, and of models that sample.")]
MaxClasses = Annotated[
    int,
    typer.Option(
        "--max-classes", min=0, help="Maximum number of classes, or of boxes, most probable first; 0 for all."
    ),
]
Version = Annotated[int, typer.Option("--version", min=0, help="Version of the model; 0 for the default.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Maps = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        metavar="GLOB",
        help="Maps by name; * matches dots too. Repeatable.",
        autocompletion=server_names.maps,
    ),
]
Layers = Annotated[list[int] | None, typer.Option("--layer", help="Layers, from 0; -1 is the last. Repeatable.")]
Heads = Annotated[list[int] | None, typer.Option("--head", help="Heads, from 0; -1 is the last. Repeatable.")]
Queries = Annotated[list[int] | None, typer.Option("--query", help="Queries, from 0; -1 is the last. Repeatable.")]
TopK = Annotated[
    int, typer.Option("--top-k", min=0, help="Keep the k largest weights of each head and query; 0 for all.")
]
Numbers = Annotated[
    Quantity,
    typer.Option("--quantity", help="Quantity to show, if a map has more than weights; of values, their lengths."),
]
KeyGroups = Annotated[
    list[str] | None,
    typer.Option("--group", metavar="NAME=PLACE", help="Sum the weights of a group of keys. Repeatable."),
]
QueryGroups = Annotated[
    list[str] | None,
    typer.Option(
        "--query-group", metavar="NAME=PLACE", help="Average a group of queries, written as for --group. Repeatable."
    ),
]
GroupedSet = Annotated[
    str, typer.Option("--label-set", metavar="NAME", help="Label set to group, if axes have several.")
]
PoolSize = Annotated[
    int, typer.Option("--pool", min=0, help="Pool maps to at most this many queries and keys; 0 for none.")
]
SequenceMaps = Annotated[
    int, typer.Option("--sequences", min=1, max=16, help="Number of sequences of beam search whose maps are shown.")
]
ReduceHeads = Annotated[Reduce | None, typer.Option("--reduce", help="Reduce the heads to one.")]
Rollout = Annotated[bool, typer.Option("--rollout", help="One map for all self-attention layers of a stack.")]
InputFile = Annotated[
    Path | None,
    typer.Option(
        "--file",
        metavar="FILE",
        help="Answer every row of a file: .jsonl, .csv, .tsv or .parquet, with inputs by name.",
    ),
]
AnswerFile = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FILE",
        help="With --file: write answers into a .jsonl or .parquet file. The same command goes on where one ended.",
    ),
]
WireEncoding = Annotated[Encoding, typer.Option("--encoding", help="Encoding of weights.")]
MaskedHeads = Annotated[
    list[str] | None,
    typer.Option("--mask-head", metavar="MAP:HEAD", help="Answer without this head. Repeatable."),
]
UniformMaps = Annotated[
    list[str] | None,
    typer.Option("--uniform", metavar="MAP[:HEAD]", help="Answer with equal weights in this map or head. Repeatable."),
]
LookedAway = Annotated[
    list[str] | None,
    typer.Option(
        "--look-away",
        metavar="MAP=PLACE",
        help="Answer without looking at a part: START:END in the text, #INDEX or #START:END for entries, or an input's "
        "name. Repeatable.",
    ),
]


def check_file(file: Path | None, out: Path | None, others: Iterable[object]) -> None:
    """Refuse --out without --file, and other inputs beside a file. Raises CommandError."""
    if file is None and out is not None:
        raise CommandError("--out is for the answers of --file", status=2)
    if file is not None and any(each not in (None, []) for each in others):
        raise CommandError("--file has the inputs; give no others", status=2)
