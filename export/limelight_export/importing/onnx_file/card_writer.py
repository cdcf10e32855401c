"""Writing of a first card, in TOML, with a comment where a person knows better."""

import json
from collections.abc import Iterator, Mapping, Sequence

from limelight_export.importing import cards
from limelight_export.importing.onnx_file.file import OnnxFile


def write_card(card: cards.Card, file: OnnxFile) -> str:
    """Return a card as text."""
    return "\n".join(_lines(card, file)) + "\n"


def _lines(card: cards.Card, file: OnnxFile) -> Iterator[str]:
    yield f"# The card of {_value(file.path.name)}. Comments say what the file does not."
    yield f"name = {_value(card.name)}"
    yield 'title = ""'
    yield 'summary = ""'
    if card.outputs:
        yield f"outputs = {_value(list(card.outputs))}  # or results: see the documentation"
    if card.batch is not None:
        yield f"batch = {_value(card.batch)}  # rows run one at a time"
    for name, each in card.inputs.items():
        yield ""
        yield f"[inputs.{_key(name)}]"
        yield from _image(each) if isinstance(each, cards.Image) else _tensor(each, guessed=card.batch is False)
    if card.labels:
        yield ""
        yield "[labels]  # the number of entries of an axis of attention, or a list of their names"
        yield from (f"{_key(name)} = {_value(entries)}" for name, entries in card.labels.items())
    if card.maps:
        yield ""
        yield "# Guesses: these weigh values in the graph, and their rows summed to 1 and had these axes in a few runs."
    for name, stated in card.maps.items():
        yield ""
        yield f"[maps.{_key(name)}]"
        yield f"output = {_value(stated.output)}"
        yield f"query = {_value(stated.query)}"
        yield f"key = {_value(stated.key)}"
        if stated.heads:
            yield f"axes = {_value(list(stated.axes))}"
            yield f"heads = {stated.heads}"


def _image(stated: cards.Input) -> Iterator[str]:
    assert isinstance(stated, cards.Image)
    yield 'kind = "image"'
    yield f"rows = {stated.rows}"
    yield f"columns = {stated.columns}"
    yield f"mean = {_value(list(stated.mean))}  # of pixels from 0 to 1, as in training"
    yield f"deviation = {_value(list(stated.deviation))}"
    if stated.channels_last:
        yield "channels_last = true"
    if stated.patches is not None:
        yield f"patches = {_value(list(stated.patches))}  # a guess, by the size of an axis of attention"
        yield f"leading = {_value(list(stated.leading))}"


def _tensor(stated: cards.Input, *, guessed: bool) -> Iterator[str]:
    assert isinstance(stated, cards.Tensor)
    whole = stated.dtype.startswith("int")
    yield 'kind = "tensor"' + (
        '  # of ids; or kind = "text" with tokenizer = "tokenizer.json" and max_tokens = 512' if whole else ""
    )
    yield f"axes = {_value(list(stated.axes))}"
    varying = [axis for axis, size in stated.axes.items() if not size]
    if varying:
        largest = ", ".join(f"{_key(axis)} = 512" for axis in varying)
        yield f"largest = {{ {largest} }}  # the longest that callers may send"
    if stated.minimum is not None:
        yield f"minimum = {stated.minimum}"
    if stated.maximum is not None:
        yield f"maximum = {stated.maximum}"
    if isinstance(stated.mask, cards.Mask):
        padding = _value(stated.mask.padding)
        seen = (
            "padded rows are answered differently either way"
            if guessed
            else "padded rows were answered as without padding"
        )
        comment = f"  # a guess: {seen}"
        yield f"mask = {{ name = {_value(stated.mask.name)}, padding = {padding} }}{comment}"
    elif stated.mask:
        yield f"mask = {_value(stated.mask)}"


def _key(name: str) -> str:
    bare = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if bare else _value(name)


def _value(value: str | int | float | bool | Sequence[object] | Mapping[str, object]) -> str:
    """Write a value of TOML: strings, numbers and lists as JSON has them, with one more escape."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
