"""`limelight predict`."""

from limelight.cli import as_json, options
from limelight.cli.answering import answer_file
from limelight.cli.connection import Connection, with_connection_options
from limelight.cli.input_texts import input_lines, input_texts
from limelight.cli.inputs import read_instance
from limelight.cli.intervention_options import read_interventions
from limelight.predictions import (
    NO_OBJECT,
    Box,
    Boxes,
    Classification,
    Embedding,
    Prediction,
    Regression,
    Result,
    Sequences,
    Spans,
    Tagging,
    TokenVectors,
    class_list,
)
from limelight.requests import PredictOptions


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
    mask_heads: options.MaskedHeads = None,
    uniform: options.UniformMaps = None,
    look_away: options.LookedAway = None,
    file: options.InputFile = None,
    out: options.AnswerFile = None,
    as_document: options.Json = False,
    version: options.Version = 0,
) -> int | None:
    """Predict: `limelight predict dates "7 March 2021"`

    --file answers every row of a file, with many calls at the same time; rows that fail have an error, by line.
    """
    options.check_file(file, out, (values, named, image, example))
    with connection.client() as client:
        description = client.model(model, version)
        asked: PredictOptions = {
            "version": version,
            "truncate": truncate,
            "seed": seed,
            "max_classes": max_classes,
            "interventions": read_interventions(mask_heads, uniform, look_away),
        }
        if file is not None:
            return answer_file(file, out, description, lambda inputs: client.predict_many(model, inputs, **asked))
        instance = read_instance(description, positional=values or (), named=named or (), image=image, example=example)
        answer = client.predict(model, instance, **asked)
    if as_document:
        as_json.write(answer.to_dict())
    else:
        print("\n".join((*input_lines(input_texts(description, instance)), *lines(answer))))
    return None


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
            entries = answer.tagged_texts(result)
            width = max(map(len, entries), default=0)
            return [f"{entry:<{width}}  {class_list(tags)}" for entry, tags in zip(entries, result, strict=True)]
        case Spans():
            shown = [f"{span.probability:.4f}  {span.text}  [{span.start}:{span.end}]" for span in result.spans]
            none = result.none_probability
            return shown if none is None else [*shown, f"{none:.4f}  (no answer in the text)"]
        case Boxes():
            return [_box(each) for each in result.boxes] or [NO_OBJECT]
        case Sequences():
            return [f"{sequence.probability:.4f}  {sequence.text}" for sequence in result.sequences]
        case Embedding():
            return [" ".join(f"{number:.6g}" for number in result.vector.reshape(-1).tolist())]
        case TokenVectors():
            labels = answer.label_sets[result.label_set].labels
            rows = (" ".join(f"{number:.6g}" for number in row) for row in result.vectors.tolist())
            return [f"{label}  {row}" for label, row in zip(labels, rows, strict=True)]
        case Regression():
            return [f"{each.name} {each.value:.6g} {each.unit}".rstrip() for each in result.numbers]


def _box(box: Box) -> str:
    edges = " ".join(f"{each:.6g}" for each in (box.left, box.top, box.right, box.bottom))
    return f"{box.probability:.4f}  {box.label}  [{edges}]  query {box.query}"
