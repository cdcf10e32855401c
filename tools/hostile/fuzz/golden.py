"""Valid calls with inputs that no other call has, and whether an answer is what it was when nothing ran beside it."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from google.protobuf.message import Message

from benchmarks.demo_calls import date_instance, document_instance, number_instance, picture_instance
from limelight.v1 import attention_pb2, model_pb2, service_pb2, values_pb2

_SERVICE = "/limelight.v1.AttentionService/"
_SEEDED = 1_000_000
# Rows of a batch are summed in another order than a row alone.
_RELATIVE, _ABSOLUTE = 2e-2, 2e-3
_DTYPES = {
    values_pb2.DATA_TYPE_FLOAT32: "<f4",
    values_pb2.DATA_TYPE_FLOAT16: "<f2",
    values_pb2.DATA_TYPE_FLOAT64: "<f8",
    values_pb2.DATA_TYPE_INT32: "<i4",
    values_pb2.DATA_TYPE_INT64: "<i8",
    values_pb2.DATA_TYPE_UINT8: "u1",
    values_pb2.DATA_TYPE_BOOL: "?",
}


@dataclass(frozen=True)
class Golden:
    """A valid call. response: type of its answers."""

    method: str
    request: Message
    response: type[Message]

    def answers(self, data: bytes) -> list[Message]:
        """Read the messages of an answer, gRPC's framing included."""
        found = []
        while data:
            size = int.from_bytes(data[1:5])
            found.append(self.response.FromString(data[5 : 5 + size]))
            data = data[5 + size :]
        return found


def golden(models: Sequence[service_pb2.GetModelResponse], number: int, chance: random.Random) -> Golden:
    """Make a valid call of its own for a number."""
    able = [each for each in models if each.description.name in _INPUTS]
    light = [each for each in able if each.description.name in _LIGHT] or able
    model = chance.choice(light if chance.random() < 0.9 else able)
    description = model.description
    made = [_INPUTS[description.name](number * 8 + place) for place in range(chance.choice((1, 1, 2, 4)))]
    for each in made:
        each.seed = chance.randrange(_SEEDED)
    wanted = values_pb2.Model(name=description.name)
    generation = None
    if description.task == model_pb2.TASK_GENERATION:
        strategy = chance.choice((service_pb2.STRATEGY_GREEDY, service_pb2.STRATEGY_SAMPLE, service_pb2.STRATEGY_BEAM))
        generation = service_pb2.GenerationOptions(strategy=strategy, hypotheses=1)
        if chance.random() < 0.5:
            asked = service_pb2.GenerateRequest(
                model=wanted, instance=made[0], generation=generation, attention=attention_pb2.AttentionOptions()
            )
            return Golden(_SERVICE + "Generate", asked, service_pb2.GenerateResponse)
    if chance.random() < 0.5:
        predicted = service_pb2.PredictRequest(model=wanted, instances=made, generation=generation)
        return Golden(_SERVICE + "Predict", predicted, service_pb2.PredictResponse)
    attended = service_pb2.AttendRequest(model=wanted, instances=made, generation=generation)
    return Golden(_SERVICE + "Attend", attended, service_pb2.AttendResponse)


def difference(together: Sequence[Message], alone: Sequence[Message]) -> str:
    """Say where two answers differ but for how they came to be; nothing where they do not."""
    if len(together) != len(alone):
        return f"{len(together)} messages, not {len(alone)}"
    for place, (one, other) in enumerate(zip(together, alone, strict=True)):
        if found := _difference(one, other):
            return f"[{place}]{found}"
    return ""


def _difference(one: Message, other: Message) -> str:
    if isinstance(one, values_pb2.Tensor):
        assert isinstance(other, values_pb2.Tensor)
        return _of_tensors(one, other)
    names = {field.name for message in (one, other) for field, _ in message.ListFields()} - {"provenance"}
    for name in sorted(names):
        if found := _of_values(getattr(one, name), getattr(other, name)):
            return f".{name}{found}"
    return ""


def _of_values(one: object, other: object) -> str:
    if isinstance(one, Message) and isinstance(other, Message):
        return _difference(one, other)
    if isinstance(one, float) and isinstance(other, float):
        return "" if np.isclose(one, other, _RELATIVE, _ABSOLUTE, equal_nan=True) else f": {one} is not {other}"
    if isinstance(one, str | bytes | int | bool):
        return "" if one == other else f": {one!r:.200} is not {other!r:.200}"
    if hasattr(one, "items"):
        if sorted(one) != sorted(other):  # type: ignore[call-overload]
            return f": {sorted(one)} are not {sorted(other)}"  # type: ignore[call-overload]
        return next((f"[{key}]{found}" for key in one if (found := _of_values(one[key], other[key]))), "")  # type: ignore
    if len(one) != len(other):  # type: ignore[arg-type]
        return f": {len(one)} are not {len(other)}"  # type: ignore[arg-type]
    pairs = enumerate(zip(one, other, strict=True))  # type: ignore[call-overload]
    return next((f"[{place}]{found}" for place, pair in pairs if (found := _of_values(*pair))), "")


def _of_tensors(one: values_pb2.Tensor, other: values_pb2.Tensor) -> str:
    if one.data_type != other.data_type or list(one.shape) != list(other.shape):
        return f": {list(one.shape)} is not {list(other.shape)}"
    if one.data == other.data:
        return ""
    dtype = _DTYPES[one.data_type]
    first, second = (np.frombuffer(each.data, dtype).astype(np.float64) for each in (one, other))
    if np.allclose(first, second, _RELATIVE, _ABSOLUTE, equal_nan=True):
        return ""
    return f": differs by {np.abs(first - second).max():.3g}"


def _words(number: int, most: int) -> str:
    """A text of the small models' words that no other number has."""
    words = "the cat sat on a mat . dog ran far".split()
    digits = [int(digit) for digit in str(number)][:most]
    return " ".join(words[digit] for digit in digits)


def _text(number: int) -> values_pb2.Instance:
    return values_pb2.Instance(inputs={"text": values_pb2.Value(text=_words(number, 30))})


def _paper(number: int) -> values_pb2.Instance:
    document = values_pb2.Document(text=f"{_words(number, 30)} . {_words(number // 7, 30)} .")
    return values_pb2.Instance(inputs={"text": values_pb2.Value(document=document)})


_INPUTS: dict[str, Callable[[int], values_pb2.Instance]] = {
    "tiny": _text,
    "echo": _text,
    "paper": _paper,
    "long_reader": _text,
    "dates": date_instance,
    "numbers": number_instance,
    "digits": lambda number: picture_instance(32, number),
    "slips": lambda number: document_instance(10 + number % 20, number),
}
_LIGHT = frozenset({"tiny", "echo", "paper", "long_reader"})
