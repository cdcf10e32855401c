"""`limelight predict`."""

from limelight.cli import as_json, options
from limelight.cli.connection import Connection, with_connection_options
from limelight.cli.input_texts import input_lines, input_texts
from limelight.cli.inputs import read_instance
from limelight.predictions import (
    Box,
    Boxes,
    Classification,
    ClassProbability,
    Embedding,
    Prediction,
    Regression,
    Result,
    Sequences,
    Spans,
    Tagging,
)

# Largest raw output, and most tags, that a headline shows.
_FEW = 8
_NO_OBJECT = "(no object)"


@with_connection_options
def predict(
    connection: Connection,
    model: options.ModelName,
    values: options.Words = None,
    named: options.NamedInputs = None,
    image: options.ImageFile = None,
    example: options.Example = None,
    truncate: options.Truncate = False,
    seed: options.Seed = None,
    max_classes: options.MaxClasses = 0,
    as_document: options.Json = False,
    version: options.Version = 0,
) -> None:
    """Predict: `limelight predict dates "7 March 2021"`"""
    with connection.client() as client:
        description = client.model(model, version)
        instance = read_instance(description, positional=values or (), named=named or (), image=image, example=example)
        answer = client.predict(model, instance, version=version, truncate=truncate, seed=seed, max_classes=max_classes)
    if as_document:
        as_json.write(as_json.prediction(answer))
    else:
        print("\n".join((*input_lines(input_texts(description, instance)), *lines(answer))))


def lines(answer: Prediction) -> list[str]:
    """Format a prediction as lines of text. With several results, each has its name."""
    shown = []
    for name, result in answer.results.items():
        if len(answer.results) > 1:
            shown.append(f"{name}:")
        shown += _result(result, answer)
    if not shown:
        shown += [f"{name} {list(array.shape)}: {array.tolist()}" for name, array in answer.outputs.items()]
    if answer.truncated:
        shown.append("(the input was truncated to the model's limits)")
    if answer.seed is not None:
        shown.append(f"(sampled; --seed {answer.seed} reproduces it)")
    return shown


def _result(result: Result, answer: Prediction) -> list[str]:
    match result:
        case Classification():
            return [f"{each.probability:.4f}  {each.label}" for each in result.classes]
        case Tagging():
            entries = _tagged(result, answer)
            width = max(map(len, entries), default=0)
            return [f"{entry:<{width}}  {_classes(tags, 3)}" for entry, tags in zip(entries, result, strict=True)]
        case Spans():
            shown = [f"{span.probability:.4f}  {span.text}  [{span.start}:{span.end}]" for span in result.spans]
            none = result.none_probability
            return shown if none is None else [*shown, f"{none:.4f}  (no answer in the text)"]
        case Boxes():
            return [_box(each) for each in result.boxes] or [_NO_OBJECT]
        case Sequences():
            return [f"{sequence.probability:.4f}  {sequence.text}" for sequence in result.sequences]
        case Embedding():
            return [" ".join(f"{number:.6g}" for number in result.vector.reshape(-1).tolist())]
        case Regression():
            return [f"{each.name} {each.value:.6g} {each.unit}".rstrip() for each in result.numbers]


def _box(box: Box) -> str:
    edges = " ".join(f"{each:.6g}" for each in (box.left, box.top, box.right, box.bottom))
    return f"{box.probability:.4f}  {box.label}  [{edges}]  query {box.query}"


def _tagged(result: Tagging, answer: Prediction) -> list[str]:
    """Return the text of each row: an entry, or the pieces of a word."""
    labels = answer.label_sets[result.label_set].labels
    if result.entries is None:
        return list(labels)
    return ["".join(labels[begin:end]) for begin, end in result.entries]


def headline(answer: Prediction) -> str:
    """Format a prediction as one line."""
    if answer.classes:
        return _classes(answer.classes, 3)
    if answer.text is not None:
        return f"{answer.text} {answer.sequences[0].probability:.2f}"
    if answer.tags is not None and (rows := list(zip(_tagged(answer.tags, answer), answer.tags, strict=True))):
        more = ", …" if len(rows) > _FEW else ""
        return ", ".join(f"{entry} {_classes(tags, 1)}" for entry, tags in rows[:_FEW]) + more
    if (answer.none_probability or 0.0) > max((span.probability for span in answer.spans), default=0.0):
        return f"(no answer in the text) {answer.none_probability:.2f}"
    if answer.spans:
        return f"{answer.spans[0].text} {answer.spans[0].probability:.2f}"
    if any(isinstance(each, Boxes) for each in answer.results.values()):
        shown = [f"{each.label} {each.probability:.2f} (query {each.query})" for each in answer.boxes[:_FEW]]
        return ", ".join(shown) + (", …" if len(answer.boxes) > _FEW else "") or _NO_OBJECT
    if answer.numbers:
        return ", ".join(f"{each.name} {each.value:.4g} {each.unit}".rstrip() for each in answer.numbers)
    small = {name: array.reshape(-1).tolist() for name, array in answer.outputs.items() if array.size <= _FEW}
    return ", ".join(f"{name} {' '.join(f'{number:.4g}' for number in numbers)}" for name, numbers in small.items())


def _classes(classes: tuple[ClassProbability, ...], most: int) -> str:
    return ", ".join(f"{each.label} {each.probability:.2f}" for each in classes[:most])
