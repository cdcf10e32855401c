"""The input texts of an answer, for display."""

from collections.abc import Iterator, Mapping

from limelight.descriptions import Model
from limelight.figures import one_line
from limelight.v1 import values_pb2

_MOST = 300  # maximum length of a displayed text


def input_texts(model: Model, instance: values_pb2.Instance) -> Mapping[str, str]:
    """Return the input texts by input name, each on one line and shortened.

    Empty for a single text, which the answer itself shows. A pair has two entries, `pair.first` and `pair.second`.
    """
    sent = [each.name for each in model.inputs if each.name in instance.inputs]
    texts = {place: text for name in sent for place, text in _texts(name, instance.inputs[name])}
    return {} if len(sent) == len(texts) == 1 else {place: _line(text) for place, text in texts.items()}


def input_lines(texts: Mapping[str, str]) -> list[str]:
    """Return one line for each input text, with its name."""
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
    line = one_line(" ".join(text.split()))
    return line if len(line) <= _MOST else f"{line[: _MOST - 1]}…"
