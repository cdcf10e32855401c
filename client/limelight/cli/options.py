"""Options that several commands have."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Reduce(StrEnum):
    """Reductions over heads."""

    mean = "mean"
    max = "max"


class Quantity(StrEnum):
    """What the numbers of a map are."""

    weights = "weights"
    scores = "scores"
    norms = "norms"


class Encoding(StrEnum):
    """How weights travel."""

    float32 = "float32"
    float16 = "float16"
    uint8 = "uint8"


class Strategy(StrEnum):
    """How tokens are chosen."""

    greedy = "greedy"
    sample = "sample"
    beam = "beam"


ModelName = Annotated[str, typer.Argument(metavar="MODEL", help="Name of the model.")]
Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="INPUT", help="Value of each input that the model requires: a text, the path of an image; - for stdin."
    ),
]
NamedInputs = Annotated[
    list[str] | None,
    typer.Option("--input", "-i", metavar="NAME=VALUE", help="Value of one input; NAME=@FILE reads a file."),
]
ImageFile = Annotated[Path | None, typer.Option("--image", metavar="FILE", help="Image for the model's image input.")]
Example = Annotated[
    int | None, typer.Option("--example", min=0, help="Send the model's own example of this number, from 0.")
]
Truncate = Annotated[
    bool, typer.Option("--truncate", help="Cut what is over the model's limits instead of refusing it.")
]
Seed = Annotated[int | None, typer.Option("--seed", min=0, help="For sampling, and models that draw.")]
MaxClasses = Annotated[int, typer.Option("--max-classes", min=0, help="Most classes, the best first; 0 for all.")]
Version = Annotated[int, typer.Option("--version", min=0, help="Version of the model; 0 for the default one.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Maps = Annotated[
    list[str] | None, typer.Option("--map", metavar="GLOB", help="Maps by name; * crosses dots. Repeatable.")
]
Layers = Annotated[list[int] | None, typer.Option("--layer", help="Layers, from 0; -1 is the last. Repeatable.")]
Heads = Annotated[list[int] | None, typer.Option("--head", help="Heads, from 0; -1 is the last. Repeatable.")]
Queries = Annotated[list[int] | None, typer.Option("--query", help="Queries, from 0; -1 is the last. Repeatable.")]
TopK = Annotated[
    int, typer.Option("--top-k", min=0, help="Keep the k largest weights of each head and query; 0 for all.")
]
Numbers = Annotated[Quantity, typer.Option("--quantity", help="What to show, of maps that offer more than weights.")]
KeyGroups = Annotated[
    list[str] | None,
    typer.Option("--group", metavar="NAME=PLACE", help="Sum the weights of keys: a part of the text. Repeatable."),
]
QueryGroups = Annotated[
    list[str] | None,
    typer.Option("--query-group", metavar="NAME=PLACE", help="The mean over queries, as --group. Repeatable."),
]
GroupedSet = Annotated[
    str, typer.Option("--label-set", metavar="NAME", help="What to group, where axes have several label sets.")
]
PoolSize = Annotated[int, typer.Option("--pool", min=0, help="Shrink maps to so many queries and keys; 0 for all.")]
SequenceMaps = Annotated[
    int, typer.Option("--sequences", min=1, max=16, help="Show the maps of so many sequences, by beam search.")
]
ReduceHeads = Annotated[Reduce | None, typer.Option("--reduce", help="Reduce the heads to one.")]
Rollout = Annotated[bool, typer.Option("--rollout", help="One map for all self-attention layers of a stack.")]
WireEncoding = Annotated[Encoding, typer.Option("--encoding", help="How weights travel.")]
