"""Steps that turn texts into token ids."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import ClassVar, Self, TypeVar

import numpy as np

from limelight.v1 import attention_pb2, model_pb2, values_pb2
from limelight_bundle.errors import BundleError, InputError, Path
from limelight_bundle.label_columns import LazyColumn
from limelight_bundle.preprocess.step_types import (
    DataFormat,
    DataKind,
    PreprocessedInput,
    RunOptions,
    Sentence,
    SentenceStream,
    Step,
    StepContext,
)
from limelight_bundle.rows import BoundTensor, Labels
from limelight_bundle.splitting import split_lines, split_sentences, split_words
from limelight_bundle.text import Encoded, Encoder
from limelight_bundle.v1 import bundle_pb2
from limelight_bundle.values import Array, Pair, Sentences, Text

T = TypeVar("T")
_INT64 = values_pb2.DATA_TYPE_INT64
_SENTENCES_PER_BATCH = 32  # sentences encoded at once


class Split(Step):
    """Splits a text; parts that were sent stay as they are."""

    accepts: ClassVar[frozenset[DataKind]] = frozenset({DataKind.TEXT, DataKind.DOCUMENT})
    produces: ClassVar[DataKind] = DataKind.SENTENCES

    @abstractmethod
    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the parts of a text: (begin, end) in code points."""

    def run(self, value: Text | Sentences, options: RunOptions) -> SentenceStream:
        """Split a text, or pass on sent parts. Raises InputError for an empty part."""
        if isinstance(value, Sentences):

            def field(number: int) -> Path:
                return (*options.field, "sentences", "texts", number)

            empty = next((number for number, text in enumerate(value.texts) if not text or text.isspace()), None)
            if empty is not None:
                raise InputError(field(empty), "is empty")
            return SentenceStream((Sentence(text, (0, len(text))) for text in value.texts), field, len(value.texts))
        return SentenceStream(Sentence(value.text[begin:end], (begin, end)) for begin, end in self.spans(value.text))


@dataclass(frozen=True)
class SplitSentences(Split):
    """Splits a text into sentences."""

    max_characters: int

    @classmethod
    def make(
        cls,
        message: bundle_pb2.SplitSentences | bundle_pb2.SplitLines,
        context: StepContext,
        input_format: DataFormat,
        next_step: bundle_pb2.PreprocessingStep | None,
    ) -> Self:
        """See `Step.make`."""
        if message.max_characters < 0:
            raise BundleError("splits at a negative number of characters")
        return cls(message.max_characters)

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """See `Split.spans`."""
        return split_sentences(text, self.max_characters)


@dataclass(frozen=True)
class SplitLines(SplitSentences):
    """Splits a text into lines."""

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """See `Split.spans`."""
        return split_lines(text, self.max_characters)


@dataclass(frozen=True)
class SplitWords(Split):
    """Splits a text into words."""

    @classmethod
    def make(
        cls,
        message: bundle_pb2.SplitWords,
        context: StepContext,
        input_format: DataFormat,
        next_step: bundle_pb2.PreprocessingStep | None,
    ) -> Self:
        """See `Step.make`."""
        return cls()

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """See `Split.spans`."""
        return split_words(text)


@dataclass(frozen=True)
class Tokenize(Step):
    """Turns a text into ids [token], sentences into ids [sentence, token], a pair into one or two tensors of ids.

    Attributes:
        input_format: kind of input.
        bound: the tensors of ids.
        segments: the tensor of segment ids; empty for none.
        token_sets: the label set of the tokens of each tensor of ids; one of its own where none is described.
    """

    accepts: ClassVar[frozenset[DataKind]] = frozenset({DataKind.TEXT, DataKind.SENTENCES, DataKind.PAIR})
    produces: ClassVar[DataKind] = DataKind.TENSORS
    context: StepContext
    input_format: DataKind
    encoder: Encoder
    bound: tuple[BoundTensor, ...]
    segments: str
    token_sets: Mapping[str, model_pb2.LabelSetDescription]
    tensors: tuple[str, ...]

    @classmethod
    def make(
        cls,
        message: bundle_pb2.Tokenize,
        context: StepContext,
        input_format: DataFormat,
        next_step: bundle_pb2.PreprocessingStep | None,
    ) -> Self:
        """See `Step.make`."""
        axes = 2 if input_format.kind is DataKind.SENTENCES else 1
        if message.second_tensor and input_format.kind is not DataKind.PAIR:
            raise BundleError(f"has a second tensor, but gets {input_format.kind.value}, not a pair")
        if message.segment_tensor and (message.second_tensor or input_format.kind is DataKind.SENTENCES):
            raise BundleError("has a tensor of segments, but does not output a single sequence")
        names = list(filter(None, (message.tensor, message.second_tensor)))
        bound = tuple(context.tensor(name, axes, _INT64) for name in names)
        if axes == 2 and not bound[0].description.HasField("fill"):
            raise BundleError(f"makes rows of different lengths, but the tensor {names[0]!r} has no fill")
        maxima = {axis.maximum or axis.size for axis in (each.description.dimensions[-1] for each in bound)}
        if len(maxima) > 1:
            raise BundleError(f"outputs {names[0]!r} and {names[1]!r}, which have different limits")
        if message.segment_tensor:
            segments = context.tensor(message.segment_tensor, 1, _INT64)
            if segments.description.dimensions[0] != bound[0].description.dimensions[0]:
                raise BundleError(f"outputs the segments {segments.name!r}, which have another axis than the tokens")
        if message.tokenizer not in context.tokenizers:
            raise BundleError(f"uses the tokenizer {message.tokenizer!r}, which does not exist")
        encoder = Encoder(
            context.tokenizers[message.tokenizer], special_tokens=message.special_tokens, maximum=maxima.pop()
        )
        tensors = (*names, *filter(None, (message.segment_tensor,)))
        token_sets = {each.name: _token_set(each, context, among=len(bound)) for each in bound}
        return cls(context, input_format.kind, encoder, bound, message.segment_tensor, token_sets, tensors)

    def blanks(self) -> Iterator[tuple[str, int | None]]:
        """Yield each tensor of ids with the token that stands for any word; None where the model knows none."""
        for each in self.bound:
            described = each.description
            most = described.maximum if described.HasField("maximum") else None
            yield each.name, next((token for token in self.encoder.blank_ids if most is None or token <= most), None)

    def run(self, value: Text | Pair | SentenceStream, options: RunOptions) -> PreprocessedInput:
        """Encode. Raises InputError for no tokens, or more than the tensor allows."""
        name = self.context.input.name
        inputs: list[tuple[str, ...]]
        match value:
            case SentenceStream():
                return self._sentences(value, options)
            case Text(text, complete):
                encoded, paths = self.encoder.encode([text], complete=complete), [options.field]
                inputs = [(name,)]
            case Pair(first, second) if len(self.bound) == 2:
                encoded, paths = (
                    self.encoder.encode([first, second]),
                    [(*options.field, "first"), (*options.field, "second")],
                )
                inputs = [(f"{name}.first",), (f"{name}.second",)]
            case Pair(first, second):
                encoded, paths = [self.encoder.encode_pair(first, second)], [options.field]
                inputs = [(f"{name}.first", f"{name}.second")]
        tensors: dict[str, Array] = {}
        sizes: dict[str, int] = {}
        labels: dict[str, Labels] = {}
        tokens: dict[str, Labels] = {}
        for bound, each, path, parts in zip(self.bound, encoded, paths, inputs, strict=True):
            _check(each, path, options.truncate)
            if not each.ids:
                raise InputError(path, "has no tokens")
            tensors[bound.name] = np.array(each.ids, dtype=np.int64)
            if self.segments:
                tensors[self.segments] = np.array(each.segments or [0] * len(each.ids), dtype=np.int64)
            sizes[bound.description.dimensions[0].name] = len(each.ids)
            for labelled in self._labelled(bound):
                if labelled.kind == attention_pb2.LABEL_KIND_PLACES:
                    labels[labelled.name] = Labels(labelled.name, labelled.kind, len(each.ids), inputs=parts)
                else:
                    labels[labelled.name] = self._token_labels(labelled, each, parts)
            own = self.token_sets[bound.name]
            tokens[bound.name] = labels.get(own.name) or self._token_labels(own, each, parts)
        return PreprocessedInput(name, tensors, sizes, labels, any(each.truncated for each in encoded), tokens)

    def _sentences(self, sentences: SentenceStream, options: RunOptions) -> PreprocessedInput:
        """Encode as many sentences as the model takes, and report whether there are more."""
        bound = self.bound[0]
        dimensions = bound.description.dimensions
        most = dimensions[0].maximum
        if most and sentences.count > most and not options.truncate:
            raise InputError(
                options.field,
                f"has {sentences.count} {dimensions[0].name}s; at most {most} are allowed; shorten it or set truncate",
            )
        kept = list(islice(self._encoded(sentences, options), most + 1 if most else None))
        if not kept:
            raise InputError(options.field, "is empty")
        more = most and len(kept) > most
        if more and not options.truncate:
            raise InputError(options.field, f"has more than {most} {dimensions[0].name}s; shorten it or set truncate")
        kept = kept[:most] if more else kept
        cut = bool(more) or any(each.truncated for each, _ in kept)
        lengths = np.array([len(each.ids) for each, _ in kept])
        ids = np.full((len(kept), lengths.max()), int(bound.description.fill), dtype=np.int64)
        for place, (each, _) in zip(ids, kept, strict=True):
            place[: len(each.ids)] = each.ids
        sizes = {dimension.name: size for dimension, size in zip(dimensions, ids.shape, strict=True)}
        tensors: dict[str, Array] = {bound.name: ids}
        real = np.arange(ids.shape[1]) < lengths[:, None]  # by length, since a text may contain the fill token
        if bound.mask:
            tensors[bound.mask] = real
        labels, own = self._document_labels(kept, ids, real), self.token_sets[bound.name]
        tokens = {bound.name: labels.get(own.name) or self._word_labels(own, kept, ids, real)}
        return PreprocessedInput(self.context.input.name, tensors, sizes, labels, cut, tokens)

    def _encoded(self, sentences: SentenceStream, options: RunOptions) -> Iterator[tuple[Encoded, tuple[int, int]]]:
        """Encode sentences in batches on demand; yield the tokens and the position of each sentence.

        Sentences without tokens are skipped if the server split the text.

        Raises:
            InputError: a sent sentence has no tokens, or a sentence has too many.
        """
        numbers = count()
        while together := list(islice(sentences.found, _SENTENCES_PER_BATCH)):
            encoded = self.encoder.encode([each.text for each in together])
            for each, sentence in zip(encoded, together, strict=True):
                number = next(numbers)
                path = options.field if sentences.field is None else sentences.field(number)
                _check(each, path, options.truncate)
                if each.ids:
                    yield each, sentence.span
                elif sentences.field is not None:
                    raise InputError(path, "has no tokens")

    def _document_labels(
        self, kept: Sequence[tuple[Encoded, tuple[int, int]]], ids: Array, real: Array
    ) -> dict[str, Labels]:
        """Label sentences and words.

        Positions are in the document if the server split it, else in the sentence.

        Shapes: ids int64 [sentence, word], real bool of the same.
        """
        labels = {}
        for each in self._labelled(self.bound[0]):
            if each.kind == attention_pb2.LABEL_KIND_TOKENS:
                labels[each.name] = self._word_labels(each, kept, ids, real)
            else:
                starts, ends = zip(*(span for _, span in kept), strict=True)
                labels[each.name] = Labels(
                    each.name,
                    each.kind,
                    len(kept),
                    starts=starts,
                    ends=ends,
                    parent=each.parent,
                    inputs=(self.context.input.name,),
                )
        return labels

    def _token_labels(
        self, description: model_pb2.LabelSetDescription, encoded: Encoded, inputs: tuple[str, ...]
    ) -> Labels:
        size, is_pair = len(encoded.ids), len(inputs) == 2
        return Labels(
            description.name,
            description.kind,
            size,
            LazyColumn(size, lambda: encoded.texts),
            LazyColumn(size, lambda: encoded.starts),
            LazyColumn(size, lambda: encoded.ends),
            encoded.ids,
            LazyColumn(size, lambda: encoded.special or [False] * size)
            if self.encoder.adds_special_tokens(len(inputs)) or encoded.complete
            else (),
            inputs=inputs,
            input_indices=LazyColumn(size, lambda: encoded.parts) if is_pair else (),
            words=LazyColumn(size, lambda: encoded.words) if description.words else (),
        )

    def _word_labels(
        self,
        description: model_pb2.LabelSetDescription,
        kept: Sequence[tuple[Encoded, tuple[int, int]]],
        ids: Array,
        real: Array,
    ) -> Labels:
        size = int(real.sum())
        joined = self.encoder.join_encodings([words for words, _ in kept], [begin for _, (begin, _) in kept])
        return Labels(
            description.name,
            description.kind,
            size,
            LazyColumn(size, lambda: joined.texts),
            LazyColumn(size, lambda: joined.starts),
            LazyColumn(size, lambda: joined.ends),
            LazyColumn(size, lambda: ids[real].tolist()),
            LazyColumn(size, lambda: joined.special) if self.encoder.adds_special_tokens(1) else (),
            LazyColumn(size, lambda: real.nonzero()[0].tolist()) if description.parent else (),
            description.parent,
            (self.context.input.name,),
        )

    def check_sent_tensors(self, tensors: Mapping[str, Array], options: RunOptions) -> dict[str, Labels]:
        """Label sent token ids by the vocabulary, without positions in a text."""
        labels = {}
        for number, bound in enumerate(self.bound):
            array = tensors[bound.name]
            real = array != bound.description.fill if bound.description.HasField("fill") else np.ones_like(array, bool)
            ids = array[real].tolist()
            inputs, input_indices = self._sent_parts(tensors, number)
            for each in [self.token_sets[bound.name], *self._labelled(bound)]:
                if each.kind != attention_pb2.LABEL_KIND_TOKENS or each.name in labels:
                    continue
                labels[each.name] = Labels(
                    each.name,
                    each.kind,
                    len(ids),
                    [self.encoder.token(token) for token in ids],
                    ids=ids,
                    special=self.encoder.special(ids),
                    parents=real.nonzero()[0].tolist() if each.parent else (),
                    parent=each.parent,
                    inputs=inputs,
                    input_indices=input_indices,
                )
        return labels

    def _sent_parts(self, tensors: Mapping[str, Array], number: int) -> tuple[tuple[str, ...], Sequence[int]]:
        """Return the inputs of a sent tensor's entries; without segments, both texts of a pair are one input."""
        name = self.context.input.name
        if self.input_format is not DataKind.PAIR or (len(self.bound) == 1 and not self.segments):
            return (name,), ()
        if len(self.bound) == 2:
            return (f"{name}.{('first', 'second')[number]}",), ()
        return (f"{name}.first", f"{name}.second"), np.clip(tensors[self.segments], 0, 1).tolist()

    def _labelled(self, bound: BoundTensor) -> list[model_pb2.LabelSetDescription]:
        return [each for each in self.context.label_sets if each.tensor == bound.name]


@dataclass(frozen=True)
class FillTokens(Step):
    """Fills the ids of a text up with one token, to the size of their tensor.

    Attributes:
        length: number of tokens.
        text: label of those that are filled in.
    """

    accepts: ClassVar[frozenset[DataKind]] = frozenset({DataKind.TENSORS})
    produces: ClassVar[DataKind] = DataKind.TENSORS
    bound: BoundTensor
    length: int
    token: int
    text: str

    @classmethod
    def make(
        cls,
        message: bundle_pb2.FillTokens,
        context: StepContext,
        input_format: DataFormat,
        next_step: bundle_pb2.PreprocessingStep | None,
    ) -> Self:
        """See `Step.make`."""
        bound = context.tensor(message.tensor, 1, _INT64)
        described = bound.description
        if not described.dimensions[0].size:
            raise BundleError(f"fills up the tensor {bound.name!r}, which has no fixed size")
        if not described.minimum <= message.token <= described.maximum:
            raise BundleError(f"fills up with the token {message.token}, which the tensor {bound.name!r} cannot have")
        return cls(bound, described.dimensions[0].size, message.token, message.text)

    def run(self, value: PreprocessedInput, options: RunOptions) -> PreprocessedInput:
        """Fill up the ids, and label what is filled in as special."""
        ids, name = value.tensors[self.bound.name], self.bound.description.dimensions[0].name
        filled = np.pad(ids, (0, self.length - len(ids)), constant_values=self.token)
        labelled = {own.name for own in value.tokens.values()}
        return replace(
            value,
            tensors={**value.tensors, self.bound.name: filled},
            sizes={**value.sizes, name: self.length},
            labels={key: self._filled(each) if key in labelled else each for key, each in value.labels.items()},
            tokens={key: self._filled(each) for key, each in value.tokens.items()},
        )

    def _filled(self, own: Labels) -> Labels:
        size, more = self.length, self.length - own.size

        def column(values: Sequence[T], filler: T) -> Sequence[T]:
            return LazyColumn(size, lambda: [*values, *[filler] * more])

        return replace(
            own,
            size=size,
            texts=column(own.texts, self.text),
            starts=column(own.starts, 0),
            ends=column(own.ends, 0),
            ids=[*own.ids, *[self.token] * more],
            special=column(own.special or [False] * own.size, True),
            words=column(own.words, -1) if own.words else (),
        )


def _token_set(bound: BoundTensor, context: StepContext, *, among: int) -> model_pb2.LabelSetDescription:
    """Find the label set of a tensor's tokens; where none is described, make one with the name of the input, or of the
    tensor if the input has several.
    """
    tokens = attention_pb2.LABEL_KIND_TOKENS
    for each in context.label_sets:
        if each.tensor == bound.name and each.kind == tokens:
            return each
    taken = among > 1 or any(each.name == context.input.name for each in context.label_sets)
    return model_pb2.LabelSetDescription(name=bound.name if taken else context.input.name, kind=tokens)


def _check(encoded: Encoded, path: Path, truncate: bool) -> None:
    if encoded.truncated and not truncate:
        raise InputError(path, f"has more than {len(encoded.ids)} tokens; shorten it or set truncate")
