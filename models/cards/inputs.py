"""Inputs: what a caller sends, the tensors that it becomes, by which steps, and what its parts are called on maps."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol

from bundle.v1 import bundle_pb2
from limelight.enums import number_of
from limelight.v1 import model_pb2, values_pb2
from models.cards.labels import LabelSet
from models.data import tokenizers

_CHARACTERS_A_WORD = 4


@dataclass(frozen=True, kw_only=True)
class TensorSpec:
    """A tensor of one instance, and what of it only the server needs.

    dimensions: name -> size, or where it varies the largest one; fixed: which is meant, for all of them or all but the
    first. square: a number for each pair of entries, along its one dimension twice. mask: name of the tensor that is
    true at real places. Rows of one instance that differ in length are filled up with 0, as batches are. joined:
    instances lie one after the other, along the first axis. indexes: for a joined tensor of indices, the dimension that
    they index.
    """

    name: str
    dimensions: Mapping[str, int]
    data_type: Literal["int64", "float32"] = "float32"
    fixed: bool | Literal["all but the first"] = False
    mask: str = ""
    joined: bool = False
    square: bool = False
    indexes: str = ""
    minimum: int | None = None
    maximum: int | None = None

    def describe(self) -> model_pb2.TensorDescription:
        """As a description has it."""
        first = "size" if self.fixed is True else "maximum"
        keys = [first, *["size" if self.fixed else "maximum"] * (len(self.dimensions) - 1)]
        described = model_pb2.TensorDescription(
            name=self.name,
            data_type=number_of(values_pb2.DataType, self.data_type, what="a tensor's data type"),
            dimensions=[
                model_pb2.Dimension(name=name, **{key: size})
                for key, (name, size) in zip(keys, self.dimensions.items(), strict=True)
                for _ in range(1 + self.square)
            ],
        )
        if self.mask and len(self.dimensions) > 1:
            described.fill = 0
        if self.minimum is not None:
            described.minimum = self.minimum
        if self.maximum is not None:
            described.maximum = self.maximum
        return described

    def binding(self) -> bundle_pb2.TensorBinding:
        """How it is put into a batch, as a bundle has it."""
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
        """What it becomes."""

    @property
    def steps(self) -> Sequence[bundle_pb2.PreprocessingStep]:
        """How; nothing where the caller sends tensors."""
        return ()

    @property
    def label_sets(self) -> Sequence[LabelSet]:
        """What its parts are called."""
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


@dataclass(frozen=True, kw_only=True)
class TextInput(Input):
    """A text -> `<prefix>_ids` [token] and `<prefix>_mask`.

    dimension: name of the axis; special_tokens: whether the tokenizer adds its own (an end, say).
    """

    name: str = "text"
    summary: str
    tokenizer: Tokenizer
    max_tokens: int
    prefix: str = "token"
    dimension: str = "token"
    special_tokens: bool = False
    optional: bool = False
    kind = model_pb2.INPUT_KIND_TEXT

    @property
    def tensor(self) -> str:
        """The tensor of token ids."""
        return f"{self.prefix}_ids"

    @property
    def mask(self) -> str:
        """The tensor that is true at real places."""
        return f"{self.prefix}_mask"

    @property
    def tensors(self) -> Sequence[TensorSpec]:
        return [self.tokenizer.ids(self.tensor, self.mask, {self.dimension: self.max_tokens})]

    @property
    def steps(self) -> Sequence[bundle_pb2.PreprocessingStep]:
        return [_tokenize(self.tokenizer, self.tensor, special_tokens=self.special_tokens)]

    @property
    def files(self) -> Mapping[str, str]:
        return {self.tokenizer.file: self.tokenizer.text}

    def tokens(self, name: str = "tokens", *, words: bool = False) -> LabelSet:
        """Its tokens. words: whether answers state the word of each."""
        return LabelSet(
            name=name, kind="tokens", input=self.name, tensor=self.tensor, dimension=self.dimension, words=words
        )


def forced_target(tokenizer: Tokenizer, max_new_tokens: int, *, special_tokens: bool = True) -> TextInput:
    """The optional input that forces what a generating model puts out, with the tokenizer's end token where it has one.

    special_tokens: False for a text that goes on with another, whose tokens alone are put out.
    """
    return TextInput(
        name="target",
        summary="Forces the output: its attention is answered instead of a free one.",
        tokenizer=tokenizer,
        max_tokens=max_new_tokens,
        prefix="target",
        dimension="target",
        special_tokens=special_tokens,
        optional=True,
    )


@dataclass(frozen=True, kw_only=True)
class DocumentInput(Input):
    """A document -> `token_ids` [sentence, word] and `token_mask`.

    max_characters: of a sentence; a longer one is split at white space.
    """

    name: str = "document"
    summary: str = "A text of one or more sentences."
    tokenizer: Tokenizer
    max_sentences: int
    max_words: int
    max_characters: int = 0
    kind = model_pb2.INPUT_KIND_DOCUMENT
    axes: ClassVar[tuple[str, str]] = ("sentence", "word")

    @property
    def tensors(self) -> Sequence[TensorSpec]:
        sizes = dict(zip(self.axes, (self.max_sentences, self.max_words), strict=True))
        return [self.tokenizer.ids("token_ids", "token_mask", sizes)]

    @property
    def longest(self) -> int:
        """Code points of a part of a text, over which it is split: it would rarely be short enough for the model."""
        return self.max_characters or _CHARACTERS_A_WORD * self.max_words

    @property
    def split(self) -> bundle_pb2.PreprocessingStep:
        """What parts a text."""
        return bundle_pb2.PreprocessingStep(split_sentences=bundle_pb2.SplitSentences(max_characters=self.longest))

    @property
    def steps(self) -> Sequence[bundle_pb2.PreprocessingStep]:
        return [self.split, _tokenize(self.tokenizer, "token_ids")]

    @property
    def files(self) -> Mapping[str, str]:
        return {self.tokenizer.file: self.tokenizer.text}

    @property
    def sentences(self) -> LabelSet:
        """Its sentences."""
        whole, _ = self.axes
        return LabelSet(name=f"{whole}s", kind="sentences", input=self.name, tensor="token_ids", dimension=whole)

    @property
    def words(self) -> LabelSet:
        """The words of its sentences."""
        return LabelSet(
            name=f"{self.axes[1]}s",
            kind="tokens",
            input=self.name,
            tensor="token_ids",
            dimension=self.axes[1],
            parent=self.sentences.name,
        )

    @property
    def label_sets(self) -> Sequence[LabelSet]:
        return [self.sentences, self.words]


@dataclass(frozen=True, kw_only=True)
class LinesInput(DocumentInput):
    """A document of lines in the place of sentences."""

    summary: str = "A text of one or more lines."

    @property
    def split(self) -> bundle_pb2.PreprocessingStep:
        return bundle_pb2.PreprocessingStep(split_lines=bundle_pb2.SplitLines(max_characters=self.longest))


@dataclass(frozen=True, kw_only=True)
class WordsInput(DocumentInput):
    """A text by its words -> `token_ids` [word, piece] and `token_mask`: what white space parts, or words as sent.

    Its `sentences` are the words, its `words` their pieces.
    """

    summary: str = "A sentence: its words, as the sentences of a document, or a text that is parted at white space."
    axes: ClassVar[tuple[str, str]] = ("word", "piece")

    @property
    def split(self) -> bundle_pb2.PreprocessingStep:
        return bundle_pb2.PreprocessingStep(split_words=bundle_pb2.SplitWords())


@dataclass(frozen=True, kw_only=True)
class PairInput(Input):
    """Two texts -> `first_ids` [first] and `second_ids` [second], each with its mask."""

    name: str = "pair"
    summary: str
    tokenizer: Tokenizer
    max_tokens: int
    kind = model_pb2.INPUT_KIND_PAIR

    @property
    def tensors(self) -> Sequence[TensorSpec]:
        return [
            self.tokenizer.ids(f"{part}_ids", f"{part}_mask", {part: self.max_tokens}) for part in ("first", "second")
        ]

    @property
    def steps(self) -> Sequence[bundle_pb2.PreprocessingStep]:
        return [_tokenize(self.tokenizer, "first_ids", second="second_ids")]

    @property
    def files(self) -> Mapping[str, str]:
        return {self.tokenizer.file: self.tokenizer.text}

    @property
    def first(self) -> LabelSet:
        """Tokens of the first text."""
        return LabelSet(name="first", kind="tokens", input=self.name, tensor="first_ids", dimension="first")

    @property
    def second(self) -> LabelSet:
        """Tokens of the second text."""
        return LabelSet(name="second", kind="tokens", input=self.name, tensor="second_ids", dimension="second")

    @property
    def label_sets(self) -> Sequence[LabelSet]:
        return [self.first, self.second]


@dataclass(frozen=True, kw_only=True)
class JoinedPairInput(Input):
    """Two texts as one sequence with the tokenizer's special tokens -> `token_ids` [token] and `token_mask`.

    segments: number of segments that the model tells apart, in `segment_ids` [token]; 0 for a model without them.
    """

    name: str = "pair"
    summary: str
    tokenizer: Tokenizer
    max_tokens: int
    segments: int = 0
    kind = model_pb2.INPUT_KIND_PAIR
    tensor: ClassVar[str] = "token_ids"
    segment_tensor: ClassVar[str] = "segment_ids"
    dimension: ClassVar[str] = "token"

    @property
    def tensors(self) -> Sequence[TensorSpec]:
        dimensions = {self.dimension: self.max_tokens}
        ids = self.tokenizer.ids(self.tensor, "token_mask", dimensions)
        if not self.segments:
            return [ids]
        segments = TensorSpec(
            name=self.segment_tensor, data_type="int64", dimensions=dimensions, minimum=0, maximum=self.segments - 1
        )
        return [ids, segments]

    @property
    def steps(self) -> Sequence[bundle_pb2.PreprocessingStep]:
        segments = self.segment_tensor if self.segments else ""
        return [_tokenize(self.tokenizer, self.tensor, special_tokens=True, segments=segments)]

    @property
    def files(self) -> Mapping[str, str]:
        return {self.tokenizer.file: self.tokenizer.text}

    def tokens(self, name: str = "tokens", *, words: bool = False) -> LabelSet:
        """The tokens of both texts. words: whether answers state the word of each."""
        return LabelSet(
            name=name, kind="tokens", input=self.name, tensor=self.tensor, dimension=self.dimension, words=words
        )


class PictureSizes(Protocol):
    """What the config of a model of pictures says of them."""

    @property
    def rows(self) -> int: ...
    @property
    def columns(self) -> int: ...
    @property
    def mean(self) -> Sequence[float]: ...
    @property
    def deviation(self) -> Sequence[float]: ...


@dataclass(frozen=True, kw_only=True)
class ImageInput(Input):
    """An image file -> `pixels` float32 [channel, row, column].

    mean, deviation: of pixels from 0 to 1, one a channel.
    """

    name: str = "image"
    summary: str = "A picture; it is scaled to the model's size."
    rows: int
    columns: int
    mean: Sequence[float]
    deviation: Sequence[float]
    kind = model_pb2.INPUT_KIND_IMAGE

    @classmethod
    def of(cls, config: "PictureSizes", **changes: Any) -> "ImageInput":
        """The pictures of a model's config. changes: the name or the summary."""
        return cls(rows=config.rows, columns=config.columns, mean=config.mean, deviation=config.deviation, **changes)

    @property
    def tensors(self) -> Sequence[TensorSpec]:
        sizes = {"channel": len(self.mean), "row": self.rows, "column": self.columns}
        return [TensorSpec(name="pixels", dimensions=sizes, fixed=True)]

    @property
    def steps(self) -> Sequence[bundle_pb2.PreprocessingStep]:
        decode = bundle_pb2.DecodeImage(channels=len(self.mean))
        resize = bundle_pb2.ResizeImage(
            rows=self.rows,
            columns=self.columns,
            fit=bundle_pb2.FIT_STRETCH,
            resampling=bundle_pb2.RESAMPLING_BILINEAR,
        )
        normalise = bundle_pb2.NormaliseImage(scale=1 / 255, mean=self.mean, deviation=self.deviation, tensor="pixels")
        return [
            bundle_pb2.PreprocessingStep(decode_image=decode),
            bundle_pb2.PreprocessingStep(resize_image=resize),
            bundle_pb2.PreprocessingStep(normalise_image=normalise),
        ]

    def patches(self, size: int, *, leading: tuple[str, ...] = (), name: str = "patches") -> LabelSet:
        """Its cells of `size` × `size` pixels, behind some other entries (a class token)."""
        return self.cells(self.rows // size, self.columns // size, leading=leading, name=name)

    def cells(self, rows: int, columns: int, *, leading: tuple[str, ...] = (), name: str = "cells") -> LabelSet:
        """So many cells, that cover it evenly; one row of them for the frames of a film."""
        return LabelSet(name=name, kind="grid", input=self.name, names=leading, grid=(rows, columns))


@dataclass(frozen=True, kw_only=True)
class AudioInput(Input):
    """A recording -> `features` float32 [mel, frame], the logarithm of its mel spectrogram (`LogMel` of bundle.proto).

    sample_rate: samples a second. window, hop: samples of a window, and between two. mels: number of filters, up to
    highest_frequency in Hz. frames: of every recording; the card's `max_audio_seconds` is no more.
    """

    name: str = "audio"
    summary: str
    sample_rate: int
    window: int
    hop: int
    mels: int
    highest_frequency: float
    frames: int
    kind = model_pb2.INPUT_KIND_AUDIO

    @property
    def seconds(self) -> float:
        """Length of the longest recording."""
        return self.frames * self.hop / self.sample_rate

    @property
    def tensors(self) -> Sequence[TensorSpec]:
        return [TensorSpec(name="features", dimensions={"mel": self.mels, "mel_frame": self.frames}, fixed=True)]

    @property
    def steps(self) -> Sequence[bundle_pb2.PreprocessingStep]:
        log_mel = bundle_pb2.LogMel(
            window=self.window,
            hop=self.hop,
            mels=self.mels,
            highest_frequency=self.highest_frequency,
            frames=self.frames,
            tensor="features",
        )
        return [
            bundle_pb2.PreprocessingStep(decode_audio=bundle_pb2.DecodeAudio(sample_rate=self.sample_rate)),
            bundle_pb2.PreprocessingStep(log_mel=log_mel),
        ]

    def joined_frames(self, joined: int, name: str = "frames") -> LabelSet:
        """Frames of the model, each of so many of the spectrogram's."""
        seconds = joined * self.hop / self.sample_rate
        return LabelSet(name=name, kind="frames", input=self.name, frames=(self.frames // joined, seconds))


@dataclass(frozen=True, kw_only=True)
class TensorInput(Input):
    """A tensor, sent as it is."""

    name: str
    summary: str
    tensor: TensorSpec
    kind = model_pb2.INPUT_KIND_TENSOR

    @property
    def tensors(self) -> Sequence[TensorSpec]:
        return [self.tensor]


@dataclass(frozen=True, kw_only=True)
class GraphInput(Input):
    """A graph -> `nodes` [node, feature], `sources` and `targets` [edge]; a batch of graphs is one of several parts.

    self_loops: every node gets an edge to itself. both_ways: every edge gets its opposite.
    """

    name: str = "graph"
    summary: str
    features: int
    max_nodes: int
    max_edges: int
    self_loops: bool = True
    both_ways: bool = True
    kind = model_pb2.INPUT_KIND_GRAPH
    edges: ClassVar[tuple[str, str]] = ("edge_targets", "edge_sources")

    @property
    def tensors(self) -> Sequence[TensorSpec]:
        dimensions = {"node": self.max_nodes, "feature": self.features}
        ends = (
            TensorSpec(
                name=name,
                data_type="int64",
                dimensions={"edge": self.max_edges},
                joined=True,
                indexes="node",
                minimum=0,
            )
            for name in ("sources", "targets")
        )
        return [TensorSpec(name="nodes", dimensions=dimensions, fixed="all but the first", joined=True), *ends]

    @property
    def steps(self) -> Sequence[bundle_pb2.PreprocessingStep]:
        read = bundle_pb2.ReadGraph(
            nodes_tensor="nodes",
            sources_tensor="sources",
            targets_tensor="targets",
            self_loops=self.self_loops,
            both_ways=self.both_ways,
        )
        return [bundle_pb2.PreprocessingStep(read_graph=read)]

    @property
    def nodes(self) -> LabelSet:
        """Its nodes."""
        return LabelSet(name="nodes", kind="nodes", input=self.name, tensor="nodes", dimension="node")

    @property
    def label_sets(self) -> Sequence[LabelSet]:
        return [self.nodes]


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Numbers that the server draws for each row; without a seed 0.5, or 0 of normal ones.

    axes: name -> size where it is fixed; 0 for an axis that an input has as well.
    """

    name: str = "noise"
    axes: Mapping[str, int] = field(default_factory=dict)
    most: int = 0
    distribution: Literal["uniform", "normal"] = "uniform"

    def describe(self) -> bundle_pb2.NoiseInput:
        """As a bundle has it."""
        dimensions = [
            model_pb2.Dimension(name=name, size=size, maximum=0 if size else self.most)
            for name, size in self.axes.items()
        ]
        tensor = model_pb2.TensorDescription(
            name=self.name, data_type=values_pb2.DATA_TYPE_FLOAT32, dimensions=dimensions
        )
        drawn = number_of(bundle_pb2.Distribution, self.distribution, what="a distribution")
        return bundle_pb2.NoiseInput(tensor=tensor, distribution=drawn)


def _tokenize(
    tokenizer: Tokenizer, tensor: str, *, second: str = "", special_tokens: bool = False, segments: str = ""
) -> bundle_pb2.PreprocessingStep:
    return bundle_pb2.PreprocessingStep(
        tokenize=bundle_pb2.Tokenize(
            tokenizer=tokenizer.file,
            tensor=tensor,
            second_tensor=second,
            special_tokens=special_tokens,
            segment_tensor=segments,
        )
    )
