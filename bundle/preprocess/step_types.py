"""What goes from step to step, and what every step has in common."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, Self

from bundle.errors import BundleError
from bundle.rows import BoundTensor, Labels
from bundle.v1 import bundle_pb2
from bundle.values import Array
from limelight.v1 import attention_pb2, model_pb2


class DataKind(Enum):
    """What a step takes or gives, as errors write it."""

    TEXT = "text"
    DOCUMENT = "a document"
    SENTENCES = "sentences"
    PAIR = "a pair"
    FILE = "an image file"
    PICTURE = "a picture"
    GRAPH = "a graph"
    TENSORS = "tensors"


@dataclass(frozen=True)
class DataFormat:
    """What comes to a step, as far as it is known before anything is sent.

    channels, rows, columns: of a picture; exact: True where it has just so many pixels, False where at least.
    """

    kind: DataKind
    channels: int = 0
    rows: int = 0
    columns: int = 0
    exact: bool = False


@dataclass(frozen=True)
class Sentence:
    """A sentence of a document. span: where it stands, in the document's text where we split that, else in itself."""

    text: str
    span: tuple[int, int]


@dataclass(frozen=True)
class SentenceStream:
    """The sentences of a document, found as they are asked for.

    field: the path of each that was sent, by its number; None where the splitting was ours. count: how many were sent.
    """

    found: Iterator[Sentence]
    field: Callable[[int], str] | None = None
    count: int = 0


@dataclass(frozen=True)
class Picture:
    """Pixels uint8 [row, column, channel], and the part of the image as it was sent that they show, evenly."""

    pixels: Array
    region: attention_pb2.Region


@dataclass(frozen=True)
class PreprocessedInput:
    """What one input was turned into: its part of a row."""

    input: str
    tensors: Mapping[str, Array]
    sizes: Mapping[str, int]
    labels: Mapping[str, Labels] = field(default_factory=dict)
    truncated: bool = False


@dataclass(frozen=True)
class RunOptions:
    """What a step is told beside what comes to it. field: the input's path in the request."""

    field: str
    truncate: bool


@dataclass(frozen=True)
class StepContext:
    """What steps are made from beside their own message.

    tensors: of this input, by name. label_sets: those that its tensors or pictures count. tokenizers: text of each
    tokenizer file by name.
    """

    input: model_pb2.InputDescription
    tensors: Mapping[str, BoundTensor]
    label_sets: Sequence[model_pb2.LabelSetDescription]
    limits: model_pb2.Limits
    tokenizers: Mapping[str, str]

    def tensor(self, name: str, axes: int, data_type: int | None = None) -> BoundTensor:
        """Give a tensor of the input; BundleError where there is none, or it has other axes or another type."""
        if name not in self.tensors:
            raise BundleError(f"puts out the tensor {name!r}, which the input does not have")
        found = self.tensors[name]
        if len(found.description.dimensions) != axes:
            raise BundleError(f"puts out the tensor {name!r} with {axes} axes, which is described with others")
        if data_type is not None and found.description.data_type != data_type:
            raise BundleError(f"puts out the tensor {name!r}, which is described as of another type")
        return found


class Step(ABC):
    """One step of preprocessing. A step is safe to use from several threads.

    takes: what may come to it. gives: what it makes of that. tensors: names of those it puts out, for a last step.
    """

    accepts: ClassVar[frozenset[DataKind]]
    produces: ClassVar[DataKind]
    tensors: tuple[str, ...] = ()

    @property
    def output_format(self) -> DataFormat:
        """What it gives, as far as it is known before anything is sent."""
        return DataFormat(self.produces)

    @classmethod
    @abstractmethod
    def make(
        cls,
        message: Any,
        context: StepContext,
        input_format: DataFormat,
        next_step: bundle_pb2.PreprocessingStep | None,
    ) -> Self:
        """Make it from its message. given: what comes to it. following: the step after it.

        Raises: BundleError saying what is wrong with it, as the rest of a sentence that begins with its name.
        """

    @abstractmethod
    def run(self, value: Any, options: RunOptions) -> Any:
        """Do it. Raises: InputError and its kinds, naming the field of the input."""

    def check_sent_tensors(self, tensors: Mapping[str, Array], options: RunOptions) -> dict[str, Labels]:
        """Check tensors that a caller sent in place of what this step puts out, and label what can be labelled.

        Raises: InputError naming the tensor.
        """
        return {}
