"""Generated examples that the demo models never learned from, asked through a server: answers, and where weights lie.

Dates and numbers are those that are not in the training part; the digits on a canvas are held-out handwriting, MNIST's
test digits, or printed ones, of which it learned none.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from PIL import Image as Picture

import limelight
from limelight.v1 import attention_pb2
from limelight_bundle.rows import Labels
from limelight_bundle.values import Array, Image, Text
from limelight_models.data.canvas import questions
from limelight_models.data.canvas.world import WORDS, Hand, Sample, hands
from limelight_models.data.dataset import Dataset, Example
from limelight_models.data.idx import read_idx
from limelight_models.data.snapshots import printed
from limelight_models.training.correctness import Tally, add
from research.batches import batches

PICTURES, LABELS = "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"
_TOGETHER = 50  # examples a call
_BOX, _COARSE = slice(4, 24), 8  # where MNIST's digits are in their pictures, and the side of scikit-learn's
_INK = 64  # what is lighter is ink, as on the canvas


@dataclass(frozen=True)
class Asked:
    """Number of right answers among the examples."""

    name: str
    count: int
    right: int

    @property
    def accuracy(self) -> float:
        """The share of right answers."""
        return self.right / self.count


@dataclass(frozen=True)
class Looked(Asked):
    """The same, with where weights lay.

    weight: the share on the right places, of the best head; even: what equal weights would have there.
    """

    weight: float
    even: float

    def row(self) -> list[str]:
        """A row of a table."""
        figures = (f"{each:.4f}" for each in (self.accuracy, self.weight, self.even))
        return [self.name, str(self.count), *figures]


def looked(client: limelight.Client, name: str, model: str, map_name: str, examples: Sequence[Example]) -> Looked:
    """Ask for every example. Where the answer is a text, weights count for right ones: gold is by its characters."""
    tally, right = Tally(), 0
    for some in batches(examples, _TOGETHER):
        answers = client.attend(model, [sent(each) for each in some], maps=map_name)
        for example, answer in zip(some, answers, strict=True):
            wanted = example.instance.get("target")
            found, says = answer[map_name], answer.prediction.label if wanted is None else answer.prediction.text
            is_right = says == (wanted.text if isinstance(wanted, Text) else example.label)
            right += is_right
            if is_right or wanted is None:
                there = np.ones(found.weights.shape[1:], bool)
                add(tally, found.weights, there, axis(found.query, put_out="target"), axis(found.key), example)
    return Looked(name, len(examples), right, float(tally.weight.max()), tally.even / tally.count)


def sent(example: Example) -> dict[str, str | bytes]:
    """The inputs of an example: all but the output."""
    values: dict[str, str | bytes] = {}
    for name, value in example.instance.items():
        if name != "target":
            assert isinstance(value, Text | Image)
            values[name] = value.text if isinstance(value, Text) else value.data
    return values


def axis(found: limelight.LabelSet, *, put_out: str = "") -> Labels:
    """A label set of an answer as training has it; put_out: the input that forces the output, for its steps."""
    grid = None
    if found.grid is not None:
        region = found.grid.region
        grid = attention_pb2.Grid(
            rows=found.grid.rows,
            columns=found.grid.columns,
            leading=found.grid.leading,
            region=None
            if region is None
            else attention_pb2.Region(left=region.left, top=region.top, right=region.right, bottom=region.bottom),
        )
    steps = found.kind == "output_steps"
    return Labels(
        found.name,
        getattr(attention_pb2, f"LABEL_KIND_{found.kind.upper()}"),
        len(found),
        starts=found.starts.tolist(),
        ends=found.ends.tolist(),
        special=found.flags.tolist(),
        parents=found.parents.tolist(),
        inputs=(put_out,) if steps else found.inputs,
        input_indices=[] if steps else found.input_indices.tolist(),
        grid=grid,
    )


def texts(make: Callable[[random.Random], Example], learned: Dataset, count: int) -> list[Example]:
    """Examples of a generator whose texts are not in the training part, in capitals or not."""
    known, chance = {_text(each).lower() for each in learned.train}, random.Random("strangers")
    return list(islice((each for each in iter(lambda: make(chance), None) if _text(each).lower() not in known), count))


def canvases(hand: Hand, count: int) -> list[Example]:
    """Questions about pictures of these digits."""
    chance = random.Random("strangers")
    return [questions.example(hand, chance) for _ in range(count)]


def held_out_hand() -> Hand:
    """Handwriting of the kind that the model of the canvas learned from, none of it seen."""
    return hands()[2]


def mnist_hand(folder: Path) -> Hand:
    """MNIST's test digits. Raises: DataError where the files are not there, or are no such files."""
    pictures, labels = read_idx(folder / PICTURES), read_idx(folder / LABELS)
    return Hand(
        tuple(tuple(_sample(_coarse(each)) for each in pictures[labels == value]) for value in range(len(WORDS)))
    )


def printed_hand() -> Hand:
    """Printed digits, one of each value."""
    return Hand(tuple((_sample(np.asarray(printed(value))),) for value in range(len(WORDS))))


def _coarse(pixels: Array) -> Array:
    """A picture as coarse as the digits that canvases are drawn with: finer strokes would be lost in thinning."""
    small = np.asarray(Picture.fromarray(pixels[_BOX, _BOX]).resize((_COARSE, _COARSE), Picture.Resampling.BOX))
    bright: Array = (small.astype(np.int64) * 255 // small.max()).astype(np.uint8)
    return bright


def _sample(pixels: Array) -> Sample:
    rows, columns = (np.flatnonzero((pixels > _INK).any(axis)) for axis in (1, 0))
    return Sample(pixels, (columns[-1] - columns[0] + 1) / (rows[-1] - rows[0] + 1))


def _text(example: Example) -> str:
    value = example.instance["text"]
    assert isinstance(value, Text)
    return value.text
