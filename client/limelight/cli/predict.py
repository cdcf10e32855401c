"""`limelight predict`."""

from limelight.cli import as_json, options
from limelight.cli.inputs import read_instance
from limelight.predictions import ClassProbability, Prediction

# Raw outputs of at most so many numbers fit into a headline.
_FEW = 8


def predict(
    model: options.ModelName,
    values: options.Words = None,
    named: options.NamedInputs = None,
    image: options.ImageFile = None,
    example: options.Example = None,
    truncate: options.Truncate = False,
    seed: options.Seed = None,
    as_document: options.Json = False,
    target: options.Target = options.TARGET,
    version: options.Version = 0,
    timeout: options.Timeout = options.TIMEOUT,
) -> None:
    """Ask a model for a prediction: `limelight predict han "Opens a socket. Sends bytes."`"""
    with options.connect(target, timeout) as client:
        description = client.model(model, version)
        instance = read_instance(description, positional=values or (), named=named or (), image=image, example=example)
        answer = client.predict(model, instance, version=version, truncate=truncate, seed=seed)
    if as_document:
        as_json.write(as_json.prediction(answer))
    else:
        print("\n".join(lines(answer)))


def lines(answer: Prediction) -> list[str]:
    """A prediction for people, a line each."""
    shown = [f"{each.probability:.4f}  {each.label}" for each in answer.classes]
    shown += [f"{index}  {_classes(tags, 3)}" for index, tags in enumerate(answer.tags)]
    shown += [f"{span.probability:.4f}  {span.text}  [{span.start}:{span.end}]" for span in answer.spans]
    shown += [sequence.text for sequence in answer.sequences]
    if answer.embedding is not None:
        shown.append(" ".join(f"{number:.6g}" for number in answer.embedding.reshape(-1).tolist()))
    if not shown:
        shown += [f"{name} {list(array.shape)}: {array.tolist()}" for name, array in answer.outputs.items()]
    if answer.truncated:
        shown.append("(the input was cut to the model's limits)")
    return shown


def headline(answer: Prediction) -> str:
    """A prediction in one line."""
    if answer.classes:
        return _classes(answer.classes, 3)
    if answer.text is not None:
        return answer.text
    if answer.spans:
        return answer.spans[0].text
    small = {name: array.reshape(-1).tolist() for name, array in answer.outputs.items() if array.size <= _FEW}
    return ", ".join(f"{name} {' '.join(f'{number:.4g}' for number in numbers)}" for name, numbers in small.items())


def _classes(classes: tuple[ClassProbability, ...], most: int) -> str:
    return ", ".join(f"{each.label} {each.probability:.2f}" for each in classes[:most])
