"""The demo models on data that they never saw: `python -m research.unseen --mnist FOLDER`, three minutes.

- digits: the test pictures of MNIST (t10k-*.gz in FOLDER), as they are and inverted.
- dates, numbers, canvas: some hundreds of generated examples each; the weight on the right places is counted.
- slips: every kind of slip in the held-out functions (those of the Python version that the model was trained with), and
  in functions of NumPy.

Beside these stand the held-out figures from the bundle of each model.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import limelight
from benchmarks.demo_calls import DEMO
from benchmarks.process import ServerProcess
from benchmarks.tables import number, table
from limelight_bundle.values import Array, Text
from limelight_models.data import dates, numbers, slips
from limelight_models.data.dataset import DataError, Example
from limelight_models.data.gold import Span
from limelight_models.data.idx import read_idx
from limelight_models.data.images import png
from research.batches import batches
from research.unseen.examples import (
    LABELS,
    PICTURES,
    Asked,
    Looked,
    canvases,
    held_out_hand,
    looked,
    mnist_hand,
    printed_hand,
    texts,
)

_TOGETHER = 100  # pictures a call


def asked(client: limelight.Client, name: str, pictures: Array, labels: Sequence[str]) -> Asked:
    """Send pictures, uint8 [picture, row, column], and count the answers that are right."""
    right = 0
    for some in batches(list(zip(pictures, labels, strict=True)), _TOGETHER):
        answers = client.predict("digits", [{"image": png(picture).data} for picture, _ in some], max_classes=1)
        right += sum(each.label == label for each, (_, label) in zip(answers, some, strict=True))
    return Asked(name, len(pictures), right)


def strangers(client: limelight.Client, folder: Path, most: int) -> Iterator[Asked]:
    """MNIST's test pictures, both ways round. Raises: DataError where the files are not there, or are no such files."""
    pictures, labels = read_idx(folder / PICTURES)[:most], [str(each) for each in read_idx(folder / LABELS)[:most]]
    yield asked(client, "MNIST, light on dark", pictures, labels)
    yield asked(client, "MNIST, dark on light", 255 - pictures, labels)


def generated(client: limelight.Client, folder: Path, most: int) -> Iterator[Looked]:
    """So many dates, numbers and questions, these about three kinds of digits. Raises: DataError as `strangers`."""
    yield looked(client, "dates", "dates", "decoder.cross", texts(dates.example, dates.dataset(), most))
    yield looked(client, "numbers", "numbers", "decoder.1.cross", texts(numbers.example, numbers.dataset(), most))
    for name, hand in (
        ("held-out digits", held_out_hand()),
        ("MNIST's digits", mnist_hand(folder)),
        ("printed digits", printed_hand()),
    ):
        yield looked(client, f"canvas, {name}", "canvas", "question.regions", canvases(hand, most))


@dataclass(frozen=True)
class Slip:
    """Results for one kind of slip. weight: on its line, the mean; None where no line is wrong."""

    name: str
    count: int
    right: int
    weight: float | None


def slips_found(client: limelight.Client, examples: Sequence[Example]) -> Iterator[Slip]:
    """Ask for every example, and count by the kind of its slip."""
    for name in sorted({each.label for each in examples}):
        some = [each for each in examples if each.label == name]
        answers = [
            answer
            for part in batches(some, _TOGETHER)
            for answer in client.attend(
                "slips",
                [{"document": source(each)} for each in part],
                maps="sentence",
                truncate=True,
            )
        ]
        right = sum(each.prediction.label == name for each in answers)
        shares = [on_the_line(*each) for each in zip(some, answers, strict=True) if each[0].gold]
        yield Slip(name, len(some), right, sum(shares) / len(shares) if shares else None)


def of_others(most: int) -> Sequence[Example]:
    """Functions of NumPy, with slips and without."""
    return slips.dataset(library=Path(np.__file__).parent, training=1, held_out=most).test


def source(example: Example) -> str:
    """The text of an example."""
    document = example.instance["document"]
    assert isinstance(document, Text)
    return document.text


def on_the_line(example: Example, answer: limelight.Attended) -> float:
    """The weight on the lines where something is wrong: what the whole document should look at."""
    found = answer["sentence"]
    wrong = np.zeros(len(found.key), bool)
    for place in example.gold[0].keys:
        assert isinstance(place, Span)
        wrong |= (found.key.starts < place.end) & (found.key.ends > place.start)
    return float(found.weights[0, 0, wrong].sum())


def slip_table(found: Sequence[Slip]) -> list[str]:
    """A row a kind of slip."""
    return table(
        ["slip", "functions", "said right", "weight on its line"],
        ([each.name, str(each.count), f"{each.right / each.count:.4f}", number(each.weight, ".4f")] for each in found),
    )


def looked_table(found: Sequence[Looked]) -> list[str]:
    """A row a set of generated examples."""
    head = ["asked for", "examples", "right", "weight on the right place", "equal weights"]
    return table(head, [each.row() for each in found])


def held_out(models: Sequence[limelight.Model]) -> list[str]:
    """A table of what the bundles say."""
    return table(
        ["model", "held-out figure", "measured", "beside it"],
        (
            [
                model.name,
                each.name,
                f"{each.value:.4f}",
                "" if each.baseline is None else f"{each.baseline_name}: {each.baseline:.4f}",
            ]
            for model in models
            for each in model.metrics
        ),
    )


def main() -> None:
    """Ask and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mnist", type=Path, required=True, help="folder of MNIST's files")
    parser.add_argument("--repository", type=Path, default=DEMO)
    parser.add_argument("--most", type=int, default=10_000, help="pictures, the first ones")
    parser.add_argument("--generated", type=int, default=500, help="dates, numbers, and questions of each kind")
    options = parser.parse_args()
    with ServerProcess(options.repository) as server, limelight.Client(server.target) as client:
        try:
            found = list(strangers(client, options.mnist, options.most))
            made = list(generated(client, options.mnist, options.generated))
        except DataError as error:
            raise SystemExit(error.message) from None
        kinds = list(slips_found(client, slips.dataset().test))
        others = list(slips_found(client, of_others(options.generated)))
        models = [client.model(each.name) for each in client.models()]
    rows = ([each.name, f"{each.count:,}", f"{each.accuracy:.4f}"] for each in found)
    print(
        "\n".join(
            [
                *table(["digits asked for", "pictures", "read right"], rows),
                "",
                *looked_table(made),
                "",
                *slip_table(kinds),
                "",
                "In functions of NumPy:",
                "",
                *slip_table(others),
                "",
                *held_out(models),
            ]
        )
    )


if __name__ == "__main__":
    main()
