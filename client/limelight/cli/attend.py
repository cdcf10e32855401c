"""`limelight attend`."""

import importlib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from limelight.attended import Attended
from limelight.cli import as_json, options
from limelight.cli.inputs import read_instance
from limelight.cli.predict import headline
from limelight.cli.render_terminal import print_blocks
from limelight.cli.views import Block, blocks
from limelight.v1 import values_pb2

Png = Annotated[Path | None, typer.Option("--png", metavar="FILE", help="Draw the maps into a PNG file.")]


def attend(
    model: options.ModelName,
    values: options.Words = None,
    named: options.NamedInputs = None,
    image: options.ImageFile = None,
    example: options.Example = None,
    truncate: options.Truncate = False,
    seed: options.Seed = None,
    maps: options.Maps = None,
    layers: options.Layers = None,
    heads: options.Heads = None,
    queries: options.Queries = None,
    top_k: options.TopK = 0,
    reduce: options.ReduceHeads = None,
    rollout: options.Rollout = False,
    encoding: options.WireEncoding = options.Encoding.float32,
    png: Png = None,
    as_document: options.Json = False,
    target: options.Target = options.TARGET,
    version: options.Version = 0,
    timeout: options.Timeout = options.TIMEOUT,
) -> None:
    """Show what a model looks at: `limelight attend han "Opens a socket. Sends bytes."`

    A terminal shades the words or patches by their weight; a pipe gets text with numbers. Of a map with several heads
    it shows the mean unless --head chooses some, and of one with many queries the mean and the strongest pairs unless
    --query does.
    """
    # People get the mean over heads: the server computes it, and sends that much less.
    shown_alone = not as_document and not heads and not rollout
    reduction: Literal["mean", "max"] | None = "mean" if shown_alone else None
    if reduce is not None:
        reduction = reduce.value
    with options.connect(target, timeout) as client:
        description = client.model(model, version)
        instance = read_instance(description, positional=values or (), named=named or (), image=image, example=example)
        answer = client.attend(
            model,
            instance,
            version=version,
            truncate=truncate,
            seed=seed,
            maps=maps or (),
            layers=layers or (),
            heads=heads or (),
            queries=queries or (),
            top_k=top_k,
            reduce=reduction,
            rollout=rollout,
            encoding=encoding.value,
        )
    several = {each.name: each.heads for each in description.maps if each.heads > 1}
    of = {name: f"{reduction} of {number} heads" for name, number in several.items()}
    if png is not None:
        render_png = importlib.import_module("limelight.cli.render_png")  # Pillow is imported for this alone
        pictures = blocks(answer, each_head=bool(heads), each_query=bool(queries), matrices=True, reduced=of)
        render_png.save(pictures, png, image=_image(instance))
    if as_document:
        as_json.write(as_json.attended(answer))
    elif png is None:
        _show(answer, blocks(answer, each_head=bool(heads), each_query=bool(queries), reduced=of))
    else:
        print(png)


def _show(answer: Attended, pictures: Iterable[Block]) -> None:
    made_by = answer.prediction.provenance
    console = Console()
    line = f"{made_by.model} version {made_by.version}: {headline(answer.prediction)}".removesuffix(": ")
    console.print(line, markup=False, highlight=False, emoji=False, soft_wrap=True)
    if answer.prediction.truncated:
        console.print("(the input was cut to the model's limits)", highlight=False)
    print_blocks(pictures, console)


def _image(instance: values_pb2.Instance) -> bytes | None:
    """The one image of an instance."""
    images = [value.image for value in instance.inputs.values() if value.HasField("image")]
    return images[0] if len(images) == 1 else None
