"""Calls of limelight.v1: Predict, or Attend where attention is asked for."""

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import cycle, islice
from typing import Any

from limelight import calls, requests
from limelight.base.commands import CommandError
from limelight.base.values import Input, to_instance
from limelight.cli.bench import channels, lengths
from limelight.cli.bench.lines import file_of, read_lines
from limelight.cli.bench.protocols import Calls, Question, Wires
from limelight.cli.connection import Connection
from limelight.cli.inputs import named_value, read_instance
from limelight.descriptions import Model
from limelight.v1 import service_pb2, values_pb2

_SERVICE = "limelight.v1.AttentionService"


@asynccontextmanager
async def opened(connection: Connection, question: Question, wires: Wires) -> AsyncIterator[Calls]:
    """Connect, and make the calls from the model's description. As `protocols.Open`."""
    async with channels.opened(
        connection, count=wires.connections, attempts=wires.attempts, timeout=wires.timeout
    ) as opened:
        asking = calls.model(question.model, question.version)
        answer = await opened.call(f"/{_SERVICE}/{asking.method}", asking.request.SerializeToString())
        model = calls.read(asking, service_pb2.GetModelResponse.FromString(answer))
        instances = read_instances(model, question)
        method, messages = make_requests(question, instances)
        serialised = [each.SerializeToString() for each in messages]
        yield Calls(opened.sender(f"/{_SERVICE}/{method}", serialised), method, len(serialised))


def make_requests(question: Question, instances: Sequence[values_pb2.Instance]) -> tuple[str, Sequence[Any]]:
    source = cycle(instances)
    count = -(-len(instances) // question.rows)
    batches = [list(islice(source, question.rows)) for _ in range(count)]
    model, version = question.model, question.version
    if not question.maps:
        return "Predict", [requests.predict_request(model, each, version=version) for each in batches]
    return "Attend", [
        requests.attend_request(
            service_pb2.AttendRequest,
            model,
            each,
            version=version,
            maps=question.maps,
            layers=question.layers,
            heads=question.heads,
            top_k=question.top_k,
            reduce=question.reduce,
            encoding=question.encoding,
        )
        for each in batches
    ]


def read_instances(model: Model, question: Question) -> list[values_pb2.Instance]:
    if question.file is not None:
        instances = [_instance(model, place, line) for place, line in read_lines(question.file)]
    else:
        given = question.words or question.named or question.image
        example = 0 if not given and question.example is None and model.examples else question.example
        one = read_instance(
            model, positional=question.words, named=question.named, image=question.image, example=example
        )
        instances = [one]
    if question.lengths is None:
        return instances
    return list(islice(_resized(cycle(instances), question), max(lengths.COUNT, len(instances))))


def _instance(model: Model, place: str, line: Mapping[str, Any]) -> values_pb2.Instance:
    """Make an instance of a line of the file."""
    first = next((each.name for each in model.required_inputs), "")
    kinds = {each.name: each.kind for each in model.inputs}
    inputs: dict[str, Input] = {}
    for name, value in ((name or first, value) for name, value in line.items()):
        kind = kinds.get(name)
        try:
            if (path := file_of(value)) is not None:
                inputs[name] = path
            elif (isinstance(value, str) and kind in ("text", "document")) or (
                isinstance(value, list) and kind == "document"
            ):
                inputs[name] = value
            else:
                inputs[name] = named_value(model, name, value if isinstance(value, str) else json.dumps(value))
        except CommandError as error:
            raise CommandError(f"{place}: {error}") from error
    try:
        return to_instance(inputs, place)
    except (TypeError, ValueError) as error:
        raise CommandError(f"{place}: {error}") from error


def _resized(instances: Iterator[values_pb2.Instance], question: Question) -> Iterator[values_pb2.Instance]:
    """Yield instances whose texts have drawn lengths."""
    assert question.lengths is not None
    for number, instance in enumerate(instances):
        made = values_pb2.Instance()
        made.CopyFrom(instance)
        changed = False
        for value in made.inputs.values():
            match value.WhichOneof("kind"):
                case "text":
                    value.text = _text(value.text, question, number)
                case "document":
                    whole = value.document.text or " ".join(value.document.sentences.texts)
                    value.document.text = _text(whole, question, number)
                case "pair":
                    value.pair.second = _text(value.pair.second, question, number)
                case _:
                    continue
            changed = True
        if not changed:
            raise CommandError("--lengths needs an input that is a text", status=2)
        yield made


def _text(source: str, question: Question, number: int) -> str:
    assert question.lengths is not None
    return next(lengths.texts(source, question.lengths, question.seed * 1_000_003 + number))
