"""The texts that a model was asked about, for people who see its answer."""

from collections.abc import Iterator, Mapping

from limelight.cli.views import shown
from limelight.descriptions import Model
from limelight.v1 import values_pb2

_MOST = 300  # characters of a text


def asked_texts(model: Model, instance: values_pb2.Instance) -> Mapping[str, str]:
    """Texts by the names of their inputs, each on one line, a long one cut.

    Empty where one text is all that was sent: what it was is seen in the answer. A pair has two, `pair.first` and
    `pair.second`.
    """
    sent = [each.name for each in model.inputs if each.name in instance.inputs]
    texts = {place: text for name in sent for place, text in _texts(name, instance.inputs[name])}
    return {} if len(sent) == len(texts) == 1 else {place: _line(text) for place, text in texts.items()}


def asked_lines(texts: Mapping[str, str]) -> list[str]:
    """Texts with their names, a line each."""
    return [f"{name}: {text}" for name, text in texts.items()]


def _texts(name: str, value: values_pb2.Value) -> Iterator[tuple[str, str]]:
    match value.WhichOneof("kind"):
        case "text":
            yield name, value.text
        case "document":
            yield name, value.document.text or " ".join(value.document.sentences.texts)
        case "pair":
            yield f"{name}.first", value.pair.first
            yield f"{name}.second", value.pair.second


def _line(text: str) -> str:
    line = shown(" ".join(text.split()))
    return line if len(line) <= _MOST else f"{line[: _MOST - 1]}…"
