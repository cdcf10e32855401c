"""Calls of the Open Inference Protocol (KServe, Triton, MLServer, OpenVINO Model Server, Limelight): ModelInfer."""

import json
import struct
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from limelight.base.commands import CommandError
from limelight.cli.bench import channels, lengths
from limelight.cli.bench import open_inference_pb2 as pb
from limelight.cli.bench.lines import file_of, read_lines
from limelight.cli.bench.protocols import Calls, Question, Wires
from limelight.cli.connection import Connection

_SERVICE = "inference.GRPCInferenceService"
_DTYPES = {
    "BOOL": "?",
    **{f"{sign}INT{8 * size}": f"<{letter}{size}" for sign, letter in (("", "i"), ("U", "u")) for size in (1, 2, 4, 8)},
    **{f"FP{8 * size}": f"<f{size}" for size in (2, 4, 8)},
}


@asynccontextmanager
async def opened(connection: Connection, question: Question, wires: Wires) -> AsyncIterator[Calls]:
    """Connect, and make the calls from the model's metadata. As `protocols.Open`."""
    async with channels.opened(
        connection, count=wires.connections, attempts=wires.attempts, timeout=wires.timeout, service=_SERVICE
    ) as opened:
        version = str(question.version) if question.version else ""
        asked = pb.ModelMetadataRequest(name=question.model, version=version)
        answer = await opened.call(f"/{_SERVICE}/ModelMetadata", asked.SerializeToString())
        metadata = pb.ModelMetadataResponse.FromString(answer)
        made = [each.SerializeToString() for each in infer_requests(metadata, question)]
        yield Calls(opened.sender(f"/{_SERVICE}/ModelInfer", made), "ModelInfer", len(made))


def infer_requests(metadata: Any, question: Question) -> list[Any]:
    """Make the requests: rows of instances, with every output of the metadata, and the maps that are asked for.

    Raises:
        CommandError: the question does not fit the model's inputs or this protocol.
    """
    if question.example is not None or question.image is not None:
        raise CommandError(
            "the Open Inference Protocol has no examples and no images: give INPUT or --inputs", status=2
        )
    if question.layers or any("*" in each for each in question.maps):
        raise CommandError("the Open Inference Protocol asks for maps by their whole names", status=2)
    instances = _instances({each.name: each for each in metadata.inputs}, question)
    source, count = cycle(instances), -(-len(instances) // question.rows)
    template = pb.ModelInferRequest(model_name=question.model)
    if question.version:
        template.model_version = str(question.version)
    if question.maps:
        for name in (*(each.name for each in metadata.outputs), *question.maps):
            template.outputs.add(name=name)
        _ask(template.parameters, question)
    return [_request(template, metadata, list(islice(source, question.rows))) for _ in range(count)]


def _ask(parameters: Any, question: Question) -> None:
    """Set Limelight's parameters of attention; other servers ignore or refuse them."""
    if question.heads:
        parameters["limelight_heads"].string_param = ",".join(map(str, question.heads))
    if question.top_k:
        parameters["limelight_top_k"].int64_param = question.top_k
    if question.reduce:
        parameters["limelight_reduce_heads"].string_param = question.reduce
    if question.encoding != "float32":
        parameters["limelight_encoding"].string_param = question.encoding


def _request(template: Any, metadata: Any, rows: Sequence[Mapping[str, NDArray[Any]]]) -> Any:
    request = pb.ModelInferRequest()
    request.CopyFrom(template)
    for each in metadata.inputs:
        if each.name not in rows[0]:
            continue
        parts = [row[each.name] for row in rows if each.name in row]
        if len(parts) < len(rows) or any(part.shape != parts[0].shape for part in parts):
            raise CommandError(f"input {each.name!r} has another shape in another row: use --rows 1", status=2)
        # The value of a row, or all of a tensor whose model has no axis of rows.
        array = parts[0] if len(parts) == 1 and parts[0].ndim == len(each.shape) else np.stack(parts)
        request.inputs.add(name=each.name, datatype=each.datatype, shape=array.shape)
        request.raw_input_contents.append(_bytes(array))
    return request


def _bytes(array: NDArray[Any]) -> bytes:
    if array.dtype != object:
        return array.tobytes()
    return b"".join(struct.pack("<I", len(each)) + each for each in array.ravel())


def _instances(inputs: Mapping[str, Any], question: Question) -> list[dict[str, NDArray[Any]]]:
    if question.file is not None:
        values = [
            (place, {name or next(iter(inputs)): value for name, value in line.items()})
            for place, line in read_lines(question.file)
        ]
    else:
        values = [("the command line", _given(inputs, question))]
    if question.lengths is None:
        return [_arrays(inputs, place, each) for place, each in values]
    made = []
    for number, (place, each) in enumerate(islice(cycle(values), max(lengths.COUNT, len(values)))):
        texts = {name: value for name, value in each.items() if isinstance(value, str)}
        if not texts:
            raise CommandError("--lengths needs an input that is a text", status=2)
        seed = question.seed * 1_000_003 + number
        resized = {name: next(lengths.texts(text, question.lengths, seed)) for name, text in texts.items()}
        made.append(_arrays(inputs, place, {**each, **resized}))
    return made


def _given(inputs: Mapping[str, Any], question: Question) -> dict[str, Any]:
    """Return the inputs of the command line: texts in the order of the model's inputs, and named ones."""
    found: dict[str, Any] = dict(zip(inputs, question.words, strict=False))
    for each in question.named:
        name, equals, value = each.partition("=")
        if not equals:
            raise CommandError(f"--input takes NAME=VALUE, not {each!r}", status=2)
        found[name] = {"file": value[1:]} if value.startswith("@") else value
    if not found or len(question.words) > len(inputs):
        names = ", ".join(f"{each.name} ({each.datatype})" for each in inputs.values())
        raise CommandError(f"give an INPUT or --inputs FILE: the model takes {names}", status=2)
    return found


def _arrays(inputs: Mapping[str, Any], place: str, values: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    arrays = {}
    for name, value in values.items():
        if name not in inputs:
            raise CommandError(f"{place}: the model has no input {name!r}; it takes {', '.join(inputs)}", status=2)
        try:
            arrays[name] = _array(inputs[name].datatype, value)
        except (TypeError, ValueError) as error:
            raise CommandError(f"{place}: input {name!r} is not {inputs[name].datatype}: {error}", status=2) from error
    return arrays


def _array(datatype: str, value: Any) -> NDArray[Any]:
    """Make the array of one row."""
    path = file_of(value)
    if datatype == "BYTES":
        elements = [path.read_bytes()] if path else [value] if isinstance(value, str) else value
        if not isinstance(elements, list) or not all(isinstance(each, str | bytes) for each in elements):
            raise TypeError("a text or a list of texts is needed")
        array = np.empty(len(elements), object)
        array[:] = [each.encode() if isinstance(each, str) else each for each in elements]
        return array
    if datatype not in _DTYPES:
        raise TypeError("this type cannot be sent")
    return _numbers(path, value).astype(_DTYPES[datatype])


def _numbers(path: Path | None, value: Any) -> NDArray[Any]:
    if path is not None:
        loaded: NDArray[Any] = np.load(path, allow_pickle=False)
        return loaded
    if isinstance(value, str):
        value = json.loads(value)
    return np.asarray(value)
