"""Base of inputs: tensors, the steps that make them, label sets, files."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from limelight.base.enums import number_of
from limelight.v1 import model_pb2, values_pb2
from limelight_bundle.v1 import bundle_pb2
from limelight_models.cards.labels import LabelSet
from limelight_models.data import tokenizers

DType = Literal["float32", "float64", "float16", "int64", "int32", "uint8", "bool"]


@dataclass(frozen=True, kw_only=True)
class TensorSpec:
    """A tensor of one instance, and what of it only the server needs.

    dimensions: name -> size, or where it varies the largest one, 0 for no limit. fixed: which do not vary: all of them,
    all but the first, or those of these names. square: a number for each pair of entries, along its one dimension
    twice. mask: name of the tensor that is true at real places. Rows of one instance that differ in length are filled
    up with 0, as batches are. joined: instances lie one after the other, along the first axis. indexes: for a joined
    tensor of indices, the dimension that they index.
    """

    name: str
    dimensions: Mapping[str, int]
    data_type: DType = "float32"
    fixed: bool | Literal["all but the first"] | frozenset[str] = False
    mask: str = ""
    joined: bool = False
    square: bool = False
    indexes: str = ""
    minimum: int | None = None
    maximum: int | None = None

    @property
    def varying(self) -> tuple[str, ...]:
        """Names of the dimensions that vary."""
        names = tuple(self.dimensions)
        if isinstance(self.fixed, frozenset):
            return tuple(name for name in names if name not in self.fixed)
        return names[:1] if self.fixed == "all but the first" else () if self.fixed else names

    def describe(self) -> model_pb2.TensorDescription:
        """As a description has it."""
        described = model_pb2.TensorDescription(
            name=self.name,
            data_type=number_of(values_pb2.DataType, self.data_type, what="a tensor's data type"),
            dimensions=[
                model_pb2.Dimension(name=name, **{"maximum" if name in self.varying else "size": size})
                for name, size in self.dimensions.items()
                for _ in range(1 + self.square)
            ],
            minimum=self.minimum,
            maximum=self.maximum,
        )
        if self.mask and len(self.varying) > 1:
            described.fill = 0
        return described

    def binding(self) -> bundle_pb2.TensorBinding:
        """Its binding in a bundle, which says how it is put into a batch."""
        collation = bundle_pb2.COLLATION_JOIN if self.joined else bundle_pb2.COLLATION_STACK
        return bundle_pb2.TensorBinding(tensor=self.name, collation=collation, mask=self.mask, indexes=self.indexes)


@dataclass(frozen=True, kw_only=True)
class Tokenizer:
    """A tokenizer's file: its name in the bundle, and its text.

    first: smallest id of a text. size: number of ids that the model knows; 0 for those of the file.
    """

    text: str
    file: str = "tokenizer.json"
    first: int = 1
    size: int = 0

    @property
    def vocabulary(self) -> int:
        """Number of token ids."""
        return self.size or tokenizers.size(self.text)

    def ids(self, name: str, mask: str, dimensions: Mapping[str, int]) -> TensorSpec:
        """A tensor of its token ids, padded with 0, and its mask."""
        return TensorSpec(
            name=name,
            data_type="int64",
            dimensions=dimensions,
            mask=mask,
            minimum=self.first,
            maximum=self.vocabulary - 1,
        )


class Input(ABC):
    """One input. Each kind is a frozen dataclass."""

    name: str
    summary: str
    kind: model_pb2.InputKind
    optional: bool = False

    @property
    @abstractmethod
    def tensors(self) -> Sequence[TensorSpec]:
        """The tensors that it becomes."""

    @property
    def steps(self) -> Sequence[bundle_pb2.PreprocessingStep]:
        """How; nothing where the caller sends tensors."""
        return ()

    @property
    def label_sets(self) -> Sequence[LabelSet]:
        """Label sets of its parts."""
        return ()

    @property
    def files(self) -> Mapping[str, str]:
        """The files that the steps name."""
        return {}

    def describe(self) -> model_pb2.InputDescription:
        """As a description has it."""
        return model_pb2.InputDescription(
            name=self.name,
            kind=self.kind,
            optional=self.optional,
            summary=self.summary,
            tensors=[each.describe() for each in self.tensors],
        )
