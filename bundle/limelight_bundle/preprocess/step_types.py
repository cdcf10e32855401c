"""Types that pass between preprocessing steps, and the base class of steps."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, Self

from limelight.v1 import attention_pb2, model_pb2
from limelight_bundle.errors import BundleError, Path
from limelight_bundle.rows import BoundTensor, Labels
from limelight_bundle.v1 import bundle_pb2
from limelight_bundle.values import Array


class DataKind(Enum):
    """Kind of a step's input or output, as written in errors."""

    TEXT = "text"
    DOCUMENT = "a document"
    SENTENCES = "sentences"
    PAIR = "a pair"
    FILE = "an image file"
    PICTURE = "a picture"
    RECORDING = "a recording"
    WAVEFORM = "samples of a recording"
    GRAPH = "a graph"
    TENSORS = "tensors"


@dataclass(frozen=True)
class DataFormat:
    """Static properties of a step's input.

    Attributes:
        channels, rows, columns: of a picture.
        exact: whether a picture has exactly this size, or at least this size.
        sample_rate: of a recording's samples, their number a second.
    """

    kind: DataKind
    channels: int = 0
    rows: int = 0
    columns: int = 0
    exact: bool = False
    sample_rate: int = 0


@dataclass(frozen=True)
class Sentence:
    """A sentence of a document.

    Attributes:
        span: position in the document if the server split the text, else in the sentence itself.
    """

    text: str
    span: tuple[int, int]


@dataclass(frozen=True)
class SentenceStream:
    """The sentences of a document, split on demand.

    Attributes:
        field: path of a sent sentence, by number; None if the server splits the text.
        count: number of sent sentences.
    """

    found: Iterator[Sentence]
    field: Callable[[int], Path] | None = None
    count: int = 0


@dataclass(frozen=True)
class Picture:
    """Pixels uint8 [row, column, channel], and the region of the sent image that they show."""

    pixels: Array
    region: attention_pb2.Region


@dataclass(frozen=True)
class Waveform:
    """Samples of a recording, float32 [sample] from -1 to 1. truncated: whether it was cut."""

    samples: Array
    truncated: bool


@dataclass(frozen=True)
class PreprocessedInput:
    """The part of a row that one input becomes. tokens: as those of a `Row`."""

    input: str
    tensors: Mapping[str, Array]
    sizes: Mapping[str, int]
    labels: Mapping[str, Labels] = field(default_factory=dict)
    truncated: bool = False
    tokens: Mapping[str, Labels] = field(default_factory=dict)


@dataclass(frozen=True)
class RunOptions:
    """Options of a run beside the data. field: the input's path in the request."""

    field: Path
    truncate: bool


@dataclass(frozen=True)
class StepContext:
    """Context from which steps are built, beside their own message.

    Attributes:
        tensors: tensors of the input, by name.
        label_sets: label sets that its tensors or pictures count.
        tokenizers: text of each tokenizer file, by name.
    """

    input: model_pb2.InputDescription
    tensors: Mapping[str, BoundTensor]
    label_sets: Sequence[model_pb2.LabelSetDescription]
    limits: model_pb2.Limits
    tokenizers: Mapping[str, str]

    def tensor(self, name: str, axes: int, data_type: int | None = None) -> BoundTensor:
        """Return a tensor of the input.

        Raises:
            BundleError: the tensor is missing, or has other axes or another type.
        """
        if name not in self.tensors:
            raise BundleError(f"outputs the tensor {name!r}, which the input does not have")
        found = self.tensors[name]
        if len(found.description.dimensions) != axes:
            raise BundleError(f"outputs the tensor {name!r} with {axes} axes, which is described with another number")
        if data_type is not None and found.description.data_type != data_type:
            raise BundleError(f"outputs the tensor {name!r}, which is described with another type")
        return found


class Step(ABC):
    """A preprocessing step; safe to use from several threads.

    Attributes:
        accepts: kinds of input.
        produces: kind of output.
        tensors: names of the output tensors, for a last step.
    """

    accepts: ClassVar[frozenset[DataKind]]
    produces: ClassVar[DataKind]
    tensors: tuple[str, ...] = ()

    @property
    def output_format(self) -> DataFormat:
        """Static properties of the output."""
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
        """Build a step from its message.

        Args:
            input_format: format of the step's input.
            next_step: the following step.
        Raises:
            BundleError: the rest of a sentence that starts with the step's name.
        """

    @abstractmethod
    def run(self, value: Any, options: RunOptions) -> Any:
        """Run the step. Raises InputError or a subclass, with the path of the input."""

    def check_sent_tensors(self, tensors: Mapping[str, Array], options: RunOptions) -> dict[str, Labels]:
        """Check tensors that a caller sent in place of the step's output, and return their labels.

        Raises:
            InputError: names the tensor.
        """
        return {}
