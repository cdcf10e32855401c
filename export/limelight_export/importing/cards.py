"""Cards of models that were made elsewhere: what their inputs, outputs and maps are, in plain Python values.

A card names tensors as the model does: arguments and results of a PyTorch module, or inputs and outputs of an ONNX
file. `limelight_export.importing.describe` turns it into what a bundle states.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from limelight_models.cards.inputs import DType, Fit, Resampling

Task = Literal["classification", "multi_label", "generation", "embedding", "tagging", "regression"]
# `batch*head` is one axis for the heads of every row, in the order of rows.
MapAxis = Literal["batch", "head", "query", "key", "batch*head"]
# The label set of a map's query axis where the map has none.
ONE = "one"


@dataclass(frozen=True, kw_only=True)
class Mask:
    """A mask that a model takes beside a tensor that is padded.

    Attributes:
        name: the model's name of the mask.
        padding: True where the mask is true (or 1) at padding; otherwise it is true at real values.
        dtype: of a module's argument. An ONNX file states its own.
    """

    name: str
    padding: bool = False
    dtype: Literal["bool", "int64", "int32", "float32"] = "bool"


@dataclass(frozen=True, kw_only=True)
class Text:
    """A text, or a pair of texts in one sequence, that a tokenizer turns into ids.

    Attributes:
        tokenizer: path of a tokenizer.json of the `tokenizers` library.
        max_tokens: the longest sequence, special tokens included.
        tensor: the model's name of the ids [batch, token]; empty for the input's own name.
        mask: the mask of the ids. Without one, rows run one at a time.
        segments: the model's name of the segment ids; empty for none.
        special_tokens: whether the tokenizer adds its special tokens.
        pair: whether callers send two texts.
        labels: name of the label set of the tokens.
    """

    tokenizer: str | Path
    max_tokens: int
    tensor: str = ""
    mask: Mask | str = ""
    segments: str = ""
    special_tokens: bool = True
    pair: bool = False
    labels: str = "tokens"
    summary: str = ""


@dataclass(frozen=True, kw_only=True)
class Image:
    """An image file that is decoded, scaled to one size, and normalised: (pixel / 255 - mean) / deviation.

    Attributes:
        tensor: the model's name of the pixels; empty for the input's own name.
        mean, deviation: one number for each channel: one for grey, three for RGB.
        channels_last: whether the pixels are [batch, row, column, channel]; otherwise the channel comes first.
        fit: handling of another aspect ratio.
        patches: rows and columns of the cells that a map attends to; None for no label set of cells.
        leading: names of entries before the cells, such as a class token.
        labels: name of the label set of the cells.
    """

    rows: int
    columns: int
    mean: Sequence[float] = (0.0, 0.0, 0.0)
    deviation: Sequence[float] = (1.0, 1.0, 1.0)
    tensor: str = ""
    channels_last: bool = False
    fit: Fit = "stretch"
    resampling: Resampling = "bilinear"
    patches: tuple[int, int] | None = None
    leading: Sequence[str] = ()
    labels: str = "patches"
    summary: str = ""


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """A tensor that callers send as it is.

    Attributes:
        axes: size of each axis but the batch, by name; 0 or None for an axis that varies, which is a label set.
        largest: largest size of axes that vary, by name.
        tensor: the model's name of the tensor; empty for the input's own name.
        minimum, maximum: of whole numbers, such as the ids of a vocabulary.
        mask: the mask of a tensor whose axes vary. Without one, rows run one at a time.
    """

    axes: Mapping[str, int | None]
    largest: Mapping[str, int] = field(default_factory=dict)
    dtype: DType = "float32"
    tensor: str = ""
    minimum: int | None = None
    maximum: int | None = None
    mask: Mask | str = ""
    summary: str = ""

    @property
    def sizes(self) -> Mapping[str, int]:
        """The size of each axis, 0 for one that varies."""
        return {axis: size or 0 for axis, size in self.axes.items()}


@dataclass(frozen=True, kw_only=True)
class Classes:
    """Scores that become probabilities of classes: of the whole input, or of each entry of the label set `over`.

    Attributes:
        output: the model's name of the scores [batch, class] or [batch, entry, class]; empty for its only output.
    """

    labels: Sequence[str]
    output: str = ""
    activation: Literal["softmax", "sigmoid", "identity"] = "softmax"
    over: str = ""


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """Numbers [batch, number] of a regression. units: unit of each number by its name; an empty unit for none."""

    units: Mapping[str, str]
    output: str = ""


@dataclass(frozen=True, kw_only=True)
class Embedding:
    """A vector [batch, feature] of the input."""

    output: str = ""


@dataclass(frozen=True, kw_only=True)
class Boxes:
    """Objects in a picture: each query finds one, or none, as DETR's do.

    Attributes:
        labels: of the classes. The scores have one more, the last: that of no object.
        boxes: the model's name of the boxes [batch, query, 4]: centre x, centre y, width and height, as parts of the
            picture's.
        over: label set of the queries, in `Card.labels`.
        grid: label set of the picture's cells, which its input has where it states `patches`.
        output: the model's name of the scores [batch, query, class].
        threshold: probability above which an object is returned.
    """

    labels: Sequence[str]
    output: str
    boxes: str
    over: str
    grid: str = "patches"
    threshold: float = 0.5


@dataclass(frozen=True, kw_only=True)
class Map:
    """An attention map: a tensor of weights of the model, and what its axes are.

    Attributes:
        output: the model's name of the tensor.
        query, key: label sets of the axes: of an input, of `Card.labels`, or `one`.
        axes: the tensor's axes in order; empty for [batch, head, query, key], [batch, query, key] or [batch, key].
        heads: number of heads, where `axes` has `batch*head`.
        kind: self, cross, pool, co or memory; empty for what follows from query and key.
        normalised: whether the weights of a query sum to 1.
        signed: whether weights may be negative.
    """

    output: str
    key: str
    query: str = ONE
    axes: Sequence[MapAxis] = ()
    heads: int = 0
    kind: Literal["", "self", "cross", "pool", "co", "memory"] = ""
    normalised: bool = True
    signed: bool = False
    summary: str = ""


Input = Text | Image | Tensor
Result = Classes | Numbers | Embedding | Boxes


@dataclass(frozen=True, kw_only=True)
class Card:
    """A model that was made elsewhere.

    Attributes:
        name: name in the repository: lower-case letters, digits, _ and -.
        inputs: by the names that callers use.
        results: typed results by name, the main one first.
        outputs: the model's names of further outputs that callers get as tensors.
        maps: by name, such as `encoder.3.self`.
        labels: label sets that no input has: the number of entries, or a name for each.
        task: empty for the task of the first result.
        batch: whether rows share batches, padded to one size. Empty: if every axis that varies has a mask. A model that
            finds padding by itself needs True, and one whose rows must run one at a time False.
    """

    name: str
    inputs: Mapping[str, Input]
    results: Mapping[str, Result] = field(default_factory=dict)
    outputs: Sequence[str] = ()
    maps: Mapping[str, Map] = field(default_factory=dict)
    labels: Mapping[str, int | Sequence[str]] = field(default_factory=dict)
    task: Task | Literal[""] = ""
    title: str = ""
    summary: str = ""
    licence: str = ""
    batch: bool | None = None
