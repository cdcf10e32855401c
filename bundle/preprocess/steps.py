"""The steps declared for one input, made ready to run."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from bundle.errors import BundleError, InputError
from bundle.preprocess.images import decode_image, normalise_image
from bundle.rows import BoundTensor, Labels
from bundle.text import Encoded, Encoder, split_sentences
from bundle.v1 import bundle_pb2
from bundle.values import Array, Image, Pair, Sentences, TensorValue, Text, Value
from limelight.v1 import attention_pb2, model_pb2


@dataclass(frozen=True)
class Prepared:
    """What one input was turned into: its part of a row."""

    input: str
    tensors: Mapping[str, Array]
    sizes: Mapping[str, int]
    labels: Mapping[str, Labels] = field(default_factory=dict)
    truncated: bool = False


class InputSteps:
    """Runs the steps of one input.

    tokenizers: text of each tokenizer file by name. tensors: those of the input, by name.
    Raises: BundleError where the steps do not fit the kind of the input.
    """

    def __init__(
        self,
        description: model_pb2.InputDescription,
        steps: Sequence[bundle_pb2.PreprocessingStep],
        tokenizers: Mapping[str, str],
        limits: model_pb2.Limits,
        tensors: Mapping[str, BoundTensor],
        label_sets: Iterable[model_pb2.LabelSetDescription] = (),
    ) -> None:
        self.description = description
        self.tensors = tensors
        self.label_sets = [each for each in label_sets if each.input == description.name and each.tensor]
        self._limits = limits
        self._steps = {step.WhichOneof("step"): step for step in steps}
        self.encoder = self._make_encoder(tokenizers)
        wanted = {
            model_pb2.INPUT_KIND_TEXT: {"tokenize"},
            model_pb2.INPUT_KIND_PAIR: {"tokenize"},
            model_pb2.INPUT_KIND_DOCUMENT: {"split_sentences", "tokenize"},
            model_pb2.INPUT_KIND_IMAGE: {"decode_image", "resize_image", "normalise_image"},
            model_pb2.INPUT_KIND_TENSOR: set[str](),
        }.get(description.kind)
        if wanted is None or set(self._steps) != wanted:
            raise BundleError(f"the preprocessing of the input {description.name!r} does not fit its kind")
        if "normalise_image" in wanted:
            self._check_image_steps()

    @property
    def is_own_tensor(self) -> bool:
        """True where the input is a tensor already, under its own name."""
        return any(tensor.name == self.description.name for tensor in self.description.tensors)

    def parts(self, tensor: str) -> tuple[str, ...]:
        """Name what a tensor's entries come from: the input, or one text of a pair."""
        if self.description.kind != model_pb2.INPUT_KIND_PAIR:
            return (self.description.name,)
        part = "second" if tensor == self._steps["tokenize"].tokenize.second_tensor else "first"
        return (f"{self.description.name}.{part}",)

    def run(self, value: Value, *, field: str, truncate: bool) -> Prepared:
        """Convert a value. Raises: InputError where it is of another kind, empty, or too large."""
        match self.description.kind, value:
            case model_pb2.INPUT_KIND_TEXT, Text(text):
                return self._texts([text], [field], truncate)
            case model_pb2.INPUT_KIND_PAIR, Pair(first, second):
                return self._texts([first, second], [f"{field}.first", f"{field}.second"], truncate)
            case model_pb2.INPUT_KIND_DOCUMENT, Text(text):
                self._check_length(text, field)
                spans = split_sentences(text, self._steps["split_sentences"].split_sentences.max_characters)
                return self._document([text[begin:end] for begin, end in spans], spans, field, truncate, split=True)
            case model_pb2.INPUT_KIND_DOCUMENT, Sentences(texts):
                self._check_length("".join(texts), field)
                spans = [(0, len(text)) for text in texts]
                return self._document(list(texts), spans, field, truncate, split=False)
            case model_pb2.INPUT_KIND_IMAGE, Image(data):
                return self._image(data, field)
        kind = model_pb2.InputKind.Name(self.description.kind).removeprefix("INPUT_KIND_").lower()
        sent = "a tensor" if isinstance(value, TensorValue) else type(value).__name__.lower()
        names = ", ".join(repr(tensor.name) for tensor in self.description.tensors)
        raise InputError(field, f"is {sent}; {kind} is wanted (or tensors under the names {names})")

    def _make_encoder(self, tokenizers: Mapping[str, str]) -> Encoder | None:
        if "tokenize" not in self._steps:
            return None
        step = self._steps["tokenize"].tokenize
        if step.tokenizer not in tokenizers:
            raise BundleError(f"the tokenizer {step.tokenizer!r} is not there")
        maximum = self._tensor(step.tensor).description.dimensions[-1].maximum
        second = step.second_tensor
        if second and self._tensor(second).description.dimensions[-1].maximum != maximum:
            raise BundleError(f"the two tensors of the input {self.description.name!r} have different limits")
        return Encoder(tokenizers[step.tokenizer], special_tokens=step.special_tokens, maximum=maximum)

    def _tensor(self, name: str) -> BoundTensor:
        if name in self.tensors:
            return self.tensors[name]
        raise BundleError(f"the input {self.description.name!r} has no tensor {name!r}")

    def _check_image_steps(self) -> None:
        decode, normalise = self._steps["decode_image"].decode_image, self._steps["normalise_image"].normalise_image
        resize = self._steps["resize_image"].resize_image
        made = [decode.channels, resize.rows, resize.columns]
        if decode.channels not in (1, 3) or min(made) < 1:
            raise BundleError(f"the input {self.description.name!r} is decoded to an image of shape {made}")
        if made != [dimension.size for dimension in self._tensor(normalise.tensor).description.dimensions]:
            raise BundleError(f"the image {made} is not of the shape of the tensor {normalise.tensor!r}")
        if len(normalise.mean) != decode.channels or len(normalise.deviation) != decode.channels:
            raise BundleError(f"the input {self.description.name!r} needs a mean and a deviation for each channel")

    def _check_length(self, text: str, field: str) -> None:
        most = self._limits.max_characters
        if most and len(text) > most:
            raise InputError(field, f"has {len(text)} characters; at most {most} are allowed, truncated or not")

    def _encode(self, texts: Sequence[str], fields: Sequence[str], truncate: bool) -> list[Encoded]:
        assert self.encoder is not None
        encoded = self.encoder.encode(texts)
        for each, path in zip(encoded, fields, strict=True):
            if each.cut and not truncate:
                raise InputError(path, f"has more than {len(each.ids)} tokens; shorten it or set truncate")
        return encoded

    def _texts(self, texts: list[str], fields: list[str], truncate: bool) -> Prepared:
        for text, path in zip(texts, fields, strict=True):
            self._check_length(text, path)
            if not text.strip():
                raise InputError(path, "is empty")
        step = self._steps["tokenize"].tokenize
        tensors: dict[str, Array] = {}
        sizes: dict[str, int] = {}
        labels: dict[str, Labels] = {}
        encoded = self._encode(texts, fields, truncate)
        for name, each, path in zip((step.tensor, step.second_tensor), encoded, fields, strict=False):
            if not each.ids:
                raise InputError(path, "has no token that the model could read")
            bound = self._tensor(name)
            tensors[name] = np.array(each.ids, dtype=np.int64)
            if bound.mask:
                tensors[bound.mask] = np.ones(len(each.ids), dtype=np.bool_)
            sizes[bound.description.dimensions[0].name] = len(each.ids)
            for labelled in self.label_sets:
                if labelled.tensor == name:
                    labels[labelled.name] = Labels(
                        labelled.name,
                        labelled.kind,
                        len(each.ids),
                        each.texts,
                        each.starts,
                        each.ends,
                        each.ids,
                        each.special,
                        inputs=self.parts(name),
                    )
        return Prepared(self.description.name, tensors, sizes, labels, any(each.cut for each in encoded))

    def _document(
        self, texts: list[str], spans: list[tuple[int, int]], field: str, truncate: bool, *, split: bool
    ) -> Prepared:
        """Encode sentences. One without a token is left out where the splitting was ours, else refused."""
        step = self._steps["tokenize"].tokenize
        bound = self._tensor(step.tensor)
        dimensions = bound.description.dimensions
        most = dimensions[0].maximum
        paths = [field if split else f"{field}.sentences.texts[{number}]" for number in range(len(texts))]
        kept = [
            (each, span)
            for each, span, path in zip(self._encode(texts, paths, truncate), spans, paths, strict=True)
            if each.ids or not _refuse_empty(split, path)
        ]
        if not kept:
            raise InputError(field, "is empty")
        cut = any(each.cut for each, _ in kept)
        if most and len(kept) > most:
            if not truncate:
                raise InputError(
                    field, f"has {len(kept)} sentences; at most {most} are allowed; shorten it or set truncate"
                )
            kept, cut = kept[:most], True
        encoded = [each for each, _ in kept]
        ids = np.full((len(kept), max(len(each.ids) for each in encoded)), int(bound.description.fill), dtype=np.int64)
        for place, each in zip(ids, encoded, strict=True):
            place[: len(each.ids)] = each.ids
        mask = np.arange(ids.shape[1]) < np.array([len(each.ids) for each in encoded])[:, None]
        sizes = {dimension.name: size for dimension, size in zip(dimensions, ids.shape, strict=True)}
        tensors: dict[str, Array] = {step.tensor: ids, bound.mask: mask}
        return Prepared(self.description.name, tensors, sizes, self._document_labels(step.tensor, kept), cut)

    def _document_labels(self, tensor: str, kept: Sequence[tuple[Encoded, tuple[int, int]]]) -> dict[str, Labels]:
        """Words of a text that we split are placed in the text; words of a sentence that was sent, in that sentence."""
        inputs = self.parts(tensor)
        labels = {}
        for each in self.label_sets:
            if each.kind == attention_pb2.LABEL_KIND_SENTENCES:
                starts, ends = zip(*(span for _, span in kept), strict=True)
                labels[each.name] = Labels(
                    each.name, each.kind, len(kept), starts=starts, ends=ends, parent=each.parent, inputs=inputs
                )
                continue
            special = [flag for words, _ in kept for flag in words.special or [False] * len(words.ids)]
            labels[each.name] = Labels(
                each.name,
                each.kind,
                sum(len(words.ids) for words, _ in kept),
                [text for words, _ in kept for text in words.texts],
                [begin + start for words, (begin, _) in kept for start in words.starts],
                [begin + end for words, (begin, _) in kept for end in words.ends],
                [token for words, _ in kept for token in words.ids],
                special if any(special) else (),
                [number for number, (words, _) in enumerate(kept) for _ in words.ids] if each.parent else (),
                each.parent,
                inputs,
            )
        return labels

    def _image(self, data: bytes, field: str) -> Prepared:
        decode, normalise = self._steps["decode_image"].decode_image, self._steps["normalise_image"].normalise_image
        resize = self._steps["resize_image"].resize_image
        pixels = decode_image(
            data,
            channels=decode.channels,
            rows=resize.rows,
            columns=resize.columns,
            max_pixels=self._limits.max_pixels,
            field=field,
        )
        values = normalise_image(pixels, scale=normalise.scale, mean=normalise.mean, deviation=normalise.deviation)
        names = [dimension.name for dimension in self._tensor(normalise.tensor).description.dimensions]
        sizes = dict(zip(names, values.shape, strict=True))
        return Prepared(self.description.name, {normalise.tensor: values}, sizes)


def _refuse_empty(split: bool, path: str) -> bool:
    """Leave out an empty sentence of our own splitting (True); refuse one that the caller sent."""
    if not split:
        raise InputError(path, "is empty")
    return True
