"""Label sets: what the axes of maps, and of outputs, count."""

from dataclasses import dataclass
from typing import Literal

from limelight.base.enums import number_of
from limelight.v1 import attention_pb2, model_pb2

LabelKind = Literal[
    "tokens",
    "sentences",
    "grid",
    "nodes",
    "output_steps",
    "input_steps",
    "hops",
    "classes",
    "representations",
    "latents",
    "slots",
    "heads",
    "features",
    "frames",
    "places",
    "one",
]


@dataclass(frozen=True, kw_only=True)
class LabelSet:
    """The labels of an axis.

    input, tensor, dimension: where the entries come from, for those that an input decides. parent: the set that holds
    these (the sentences of words). names: of a fixed set. grid: rows and columns of an image's cells; its `names` stand
    before the cells. words: of tokens, whether answers state the word of each. frames: number of frames of a recording,
    and seconds of each.
    """

    name: str
    kind: LabelKind
    names: tuple[str, ...] = ()
    input: str = ""
    tensor: str = ""
    dimension: str = ""
    parent: str = ""
    grid: tuple[int, int] | None = None
    words: bool = False
    frames: tuple[int, float] | None = None

    @property
    def axis(self) -> model_pb2.Dimension:
        """The axis of an output that has a number for each entry; a grid's has its size, as every picture has it."""
        if self.grid is None:
            return model_pb2.Dimension(name=self.dimension)
        rows, columns = self.grid
        return model_pb2.Dimension(name=self.name, size=len(self.names) + rows * columns)

    def describe(self) -> model_pb2.LabelSetDescription:
        """As a description has it."""
        kind = number_of(attention_pb2.LabelKind, self.kind, what="the kind of a label set")
        described = model_pb2.LabelSetDescription(
            name=self.name,
            kind=kind,
            input=self.input,
            tensor=self.tensor,
            dimension=self.dimension,
            parent=self.parent,
            words=self.words,
        )
        if self.frames is not None:
            count, seconds = self.frames
            described.frames.CopyFrom(model_pb2.Frames(count=count, seconds=seconds))
        if self.grid is None:
            described.names.extend(self.names)
        else:
            rows, columns = self.grid
            described.grid.CopyFrom(attention_pb2.Grid(rows=rows, columns=columns, leading=self.names))
        return described


def one(name: str) -> LabelSet:
    """An axis with a single entry: the whole document, the text as one."""
    return LabelSet(name=name, kind="one")


def output_steps(name: str = "output") -> LabelSet:
    """The tokens that a model puts out."""
    return LabelSet(name=name, kind="output_steps")


def input_steps(name: str = "input", *, prompt: LabelSet | None = None) -> LabelSet:
    """The tokens that go into a model which puts out others: a begin token, those of the prompt, those put out before.

    prompt: the tokens of the input that is the prompt.
    """
    if prompt is None:
        return LabelSet(name=name, kind="input_steps")
    return LabelSet(name=name, kind="input_steps", input=prompt.input, tensor=prompt.tensor, dimension=prompt.dimension)


def numbered(name: str, kind: LabelKind, what: str, count: int) -> LabelSet:
    """So many entries: `hop 1`, `hop 2`, …"""
    return LabelSet(name=name, kind=kind, names=tuple(f"{what} {number + 1}" for number in range(count)))
