"""Texts as inputs: one, a document of sentences, lines or words, two beside each other, two joined."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from limelight.v1 import model_pb2
from limelight_bundle.v1 import bundle_pb2
from limelight_models.cards.inputs.base import Input, TensorSpec, Tokenizer
from limelight_models.cards.labels import LabelSet

_CHARACTERS_A_WORD = 4


@dataclass(frozen=True, kw_only=True)
class _TokenisedInput(Input):
    """An input that a tokenizer reads, whose file comes with it."""

    tokenizer: Tokenizer

    @property
    def files(self) -> Mapping[str, str]:
        return {self.tokenizer.file: self.tokenizer.text}


@dataclass(frozen=True, kw_only=True)
class TextInput(_TokenisedInput):
    """A text -> `<prefix>_ids` [token] and `<prefix>_mask`.

    dimension: name of the axis; special_tokens: whether the tokenizer adds its own (an end, say). segments: number of
    segments that the model tells apart, in `segment_tensor`; 0 for a model without them.
    """

    name: str = "text"
    summary: str
    max_tokens: int
    prefix: str = "token"
    dimension: str = "token"
    special_tokens: bool = False
    segments: int = 0
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
    def segment_tensor(self) -> str:
        """The tensor of segment ids; empty where there is none."""
        return "segment_ids" if self.segments else ""

    @property
    def tensors(self) -> Sequence[TensorSpec]:
        ids = self.tokenizer.ids(self.tensor, self.mask, {self.dimension: self.max_tokens})
        if not self.segment_tensor:
            return [ids]
        return [ids, replace(ids, name=self.segment_tensor, mask="", minimum=0, maximum=self.segments - 1)]

    @property
    def steps(self) -> Sequence[bundle_pb2.PreprocessingStep]:
        return [
            _tokenize(self.tokenizer, self.tensor, special_tokens=self.special_tokens, segments=self.segment_tensor)
        ]

    def tokens(self, name: str = "tokens", *, words: bool = False) -> LabelSet:
        """Its tokens. words: whether answers state the word of each."""
        return LabelSet(
            name=name, kind="tokens", input=self.name, tensor=self.tensor, dimension=self.dimension, words=words
        )


@dataclass(frozen=True, kw_only=True)
class FilledTextInput(TextInput):
    """A text -> `token_ids` [token], filled up to `max_tokens` with a token that the model reads as any other.

    filler: its id. filler_text: its label.
    """

    filler: int
    filler_text: str

    @property
    def tensors(self) -> Sequence[TensorSpec]:
        (ids,) = super().tensors
        return [replace(ids, mask="", fixed=True)]

    @property
    def steps(self) -> Sequence[bundle_pb2.PreprocessingStep]:
        fill = bundle_pb2.FillTokens(tensor=self.tensor, token=self.filler, text=self.filler_text)
        return [*super().steps, bundle_pb2.PreprocessingStep(fill_tokens=fill)]


@dataclass(frozen=True, kw_only=True)
class JoinedPairInput(TextInput):
    """Two texts as one sequence with the tokenizer's special tokens -> `token_ids` [token] and `token_mask`."""

    name: str = "pair"
    special_tokens: bool = True
    kind = model_pb2.INPUT_KIND_PAIR


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
class DocumentInput(_TokenisedInput):
    """A document -> `token_ids` [sentence, word] and `token_mask`.

    max_characters: of a sentence; a longer one is split at white space.
    """

    name: str = "document"
    summary: str = "A text of one or more sentences."
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
        """The step that splits a text."""
        return bundle_pb2.PreprocessingStep(split_sentences=bundle_pb2.SplitSentences(max_characters=self.longest))

    @property
    def steps(self) -> Sequence[bundle_pb2.PreprocessingStep]:
        return [self.split, _tokenize(self.tokenizer, "token_ids")]

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
class PairInput(_TokenisedInput):
    """Two texts -> `first_ids` [first] and `second_ids` [second], each with its mask."""

    name: str = "pair"
    summary: str
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
