"""Conversion of command-line arguments to an instance."""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from limelight.base.commands import CommandError
from limelight.base.counts import counted
from limelight.base.strings import decode_utf8, quote
from limelight.base.suggestions import similar
from limelight.base.values import Audio, Graph, Image, Input, Pair, to_instance
from limelight.descriptions import InputInfo, Model
from limelight.v1 import values_pb2

_FILES = ("image", "audio")


def read_instance(
    model: Model,
    *,
    positional: Sequence[str] = (),
    named: Sequence[str] = (),
    image: Path | None = None,
    example: int | None = None,
) -> values_pb2.Instance:
    """Build the instance that the arguments describe.

    Positional values go to the model's required inputs in order. A pair takes two; for an image they are paths.

    Raises:
        CommandError: the model failed to load, so its inputs are unknown, or arguments do not fit its inputs.
        OSError: a file cannot be read.
    """
    if model.status.state == "loading":
        raise CommandError(f"model {model.name!r} is still loading; try again soon")
    if model.status.state == "failed":
        raise CommandError(f"model {model.name!r} failed to load: {model.status.reason}")
    instance = values_pb2.Instance()
    if example is not None:
        if example >= len(model.examples):
            raise CommandError(f"model {model.name!r} has {counted(len(model.examples), 'example')}, from 0", status=2)
        instance.CopyFrom(model.examples[example])
    given = {name: named_value(model, name, value) for name, value in map(_split, named)}
    if image is not None:
        images = [each.name for each in model.inputs if each.kind == "image"]
        if not images:
            raise CommandError(f"model {model.name!r} has no image input; {_inputs(model)}", status=2)
        given[images[0]] = Image(image)
    given |= _positional(model, positional, taken={*given, *instance.inputs})
    instance.MergeFrom(to_instance(given))
    if not instance.inputs:
        raise CommandError(f"nothing to send: {_inputs(model)}", status=2)
    return instance


def _positional(model: Model, values: Sequence[str], taken: set[str]) -> dict[str, Input]:
    given: dict[str, Input] = {}
    left = list(values)
    for each in model.required_inputs:
        if each.name in taken or not left:
            continue
        if each.kind == "pair" and left[0] != "-" and not left[0].startswith("@"):
            if len(left) < 2:
                raise CommandError(f"input {each.name!r} is a pair: give two texts", status=2)
            for text in left[:2]:
                if os.path.isfile(text):
                    sends = '@FILE sends ["first text", "second text"] from a file'
                    raise CommandError(f"{text!r} is a file; input {each.name!r} takes two texts: {sends}", status=2)
            given[each.name] = Pair(left.pop(0), left.pop(0))
        else:
            given[each.name] = _value(each.kind, each, left.pop(0))
    if left:
        raise CommandError(
            f"{left[0]!r} is one value too many (quote texts of several words); {_inputs(model)}", status=2
        )
    return given


def _split(argument: str) -> tuple[str, str]:
    name, equals, value = argument.partition("=")
    if not equals or not name:
        raise CommandError(f"--input takes NAME=VALUE, not {argument!r}", status=2)
    return name, value


def named_value(model: Model, name: str, value: str) -> Input:
    """Return the value of an argument for an input, or for a tensor of one. Raises CommandError."""
    for each in model.inputs:
        if each.name == name:
            return _value(each.kind, each, value)
        if any(tensor.name == name for tensor in each.tensors):
            return _value("tensor", each, value, tensor=name)
    close = similar(name, [each.name for each in model.inputs])
    raise CommandError(f"model {model.name!r} has no input {name!r}; {_inputs(model)}{close}", status=2)


def _value(kind: str, info: InputInfo, argument: str, *, tensor: str = "") -> Input:
    """Return the value of an argument: the argument, the content of `@FILE`, or standard input for `-`."""
    path = f"instances[0].inputs[{quote(info.name)}]"
    if kind in _FILES:
        data = standard_input() if argument == "-" else Path(argument.removeprefix("@")).read_bytes()
        return Image(data) if kind == "image" else Audio(data)
    if kind == "tensor" and argument.startswith("@") and argument.endswith(".npy"):
        return as_array(np.load(argument[1:], allow_pickle=False), info, tensor)
    if argument == "-":
        # Remove the line break that a terminal or `echo` adds.
        text = decode_utf8(standard_input(), path, "standard input").removesuffix("\n")
    elif argument.startswith("@"):
        text = decode_utf8(Path(argument[1:]).read_bytes(), path, argument[1:]).removesuffix("\n")
    elif kind in ("text", "document") and os.path.isfile(argument):
        raise CommandError(
            f"{argument!r} is a file: @{argument} sends its content (to send the name itself, pipe it to -)",
            status=2,
        )
    else:
        text = argument
    match kind:
        case "pair":
            match _json(text, info.name):
                case [str() as first, str() as second]:
                    return Pair(first, second)
            raise CommandError(f'input {info.name!r} is a pair: ["first text", "second text"]', status=2)
        case "tensor":
            return as_array(_json(text, info.name), info, tensor)
        case "graph":
            return as_graph(_json(text, info.name), info.name)
    return text


def as_graph(graph: Any, name: str) -> Graph:
    """Convert an object of JSON to a graph. Raises CommandError."""
    if not isinstance(graph, dict) or not {"nodes", "edges"} <= set(graph):
        raise CommandError(f'input {name!r} is a graph: {{"nodes": [...], "edges": [[...], [...]]}}', status=2)
    features = np.asarray(graph["edge_features"], np.float32) if "edge_features" in graph else None
    nodes = np.asarray(graph["nodes"], np.float32)
    return Graph(nodes, graph["edges"], features, graph.get("node_names", ()))


def standard_input() -> bytes:
    """Read piped standard input; nothing if it is not piped."""
    return sys.stdin.buffer.read() if sys.stdin is not None else b""


def as_array(value: Any, info: InputInfo, tensor: str = "") -> Input:
    """Convert a list of JSON to an array of the type of an input, or of one of its tensors. Raises CommandError."""
    types = {each.name: each.data_type for each in info.tensors}
    data_type = types.get(tensor) or next(iter(types.values()), "float32")
    try:
        return np.asarray(value, dtype=data_type)
    except (TypeError, ValueError) as error:
        raise CommandError(f"input {info.name!r} is not an array of {data_type}: {error}", status=2) from error


def _json(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CommandError(f"input {name!r} is not JSON: {error}", status=2) from error


def _inputs(model: Model) -> str:
    kinds = (f"{each.name} ({each.kind}{', optional' if each.optional else ''})" for each in model.inputs)
    return f"model {model.name!r} takes {', '.join(kinds)}"


def only_image(instance: values_pb2.Instance) -> bytes | None:
    """Return the only image of an instance; None for none or several."""
    images = [value.image for value in instance.inputs.values() if value.HasField("image")]
    return images[0] if len(images) == 1 else None
