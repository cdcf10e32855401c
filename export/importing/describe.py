"""Turns the card of a model that was made elsewhere into the card of its bundle.

The model is the authority on its shapes: they are observed at two sizes, and a card that says otherwise is refused.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np

from bundle.maps import DENSE_AXES
from bundle.v1 import bundle_pb2
from bundle.wire import data_type_name, data_type_of
from export.errors import ExportError
from export.importing import cards
from export.interface import BATCH, Axes, AxisSize
from export.tracing.example_sizes import infer_axes
from limelight.enums import number_of
from limelight.v1 import attention_pb2, model_pb2, values_pb2
from models.cards.card import Card
from models.cards.describe import describe
from models.cards.inputs import Input, TensorSpec, Tokenizer
from models.cards.labels import LabelSet, one
from models.cards.results import Classes, Numbers, Result, Written
from models.cards.taxonomy import Taxonomy

# Nothing is known of where a model stands in the survey's table.
_UNKNOWN = Taxonomy(**{each.name: () for each in fields(Taxonomy)})
_BATCH_HEAD = "batch*head"
_DEFAULT_AXES: Mapping[int, tuple[str, ...]] = {
    4: (BATCH, "head", "query", "key"),
    3: (BATCH, "query", "key"),
    2: (BATCH, "key"),
}


@dataclass(frozen=True)
class Observed:
    """A tensor that a model returned at several sizes.

    Attributes:
        shapes: at each of `sizes`, which hold the batch and every axis that varies.
        is_inner: whether it is inside the model, and an output only where a map names it.
    """

    name: str
    dtype: np.dtype[Any]
    shapes: tuple[tuple[int, ...], ...]
    sizes: tuple[Mapping[str, int], ...]
    is_inner: bool = False

    @property
    def axes(self) -> Axes:
        """Its axes: the name of the size that each follows, or its own size."""
        axes = infer_axes(self.name, self.shapes, self.sizes)
        # With a fixed batch of 1, nothing varies along the first axis.
        is_single = all(each[BATCH] == 1 for each in self.sizes)
        return (BATCH, *axes[1:]) if is_single and axes and axes[0] == 1 else axes


@dataclass(frozen=True)
class MapSource:
    """How a model's tensor becomes a map [batch, head, query, key].

    Attributes:
        axes: of the tensor, in order.
        heads: of an axis `batch*head`.
    """

    output: str
    axes: tuple[str, ...]
    heads: int


@dataclass(frozen=True)
class ImportedCard:
    """The card of a bundle, and where its tensors come from.

    Attributes:
        inputs: the model's own input of each tensor and mask of the card.
        outputs: the model's name of each output of the card.
        maps: by the card's name.
    """

    card: Card
    inputs: Mapping[str, "ModelInput"]
    outputs: Mapping[str, str]
    maps: Mapping[str, MapSource]


@dataclass(frozen=True)
class ModelInput:
    """An input of a model, as it differs from the tensor of the card that has its name.

    Attributes:
        dtype: of a mask that a module takes.
        inverted: a mask is true at padding.
        channels_last: pixels are [batch, row, column, channel].
        mask: True for a mask.
        dropped: the axes that the model's mask lacks, last first: those along which its tensor does not vary.
    """

    name: str
    dtype: str = ""
    inverted: bool = False
    channels_last: bool = False
    mask: bool = False
    dropped: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _VaryingTensor(TensorSpec):
    """A tensor of which each axis has a fixed size, or varies. largest: of axes that vary; absent for no limit."""

    largest: Mapping[str, int]
    stored: str

    def describe(self) -> model_pb2.TensorDescription:
        return model_pb2.TensorDescription(
            name=self.name,
            data_type=number_of(values_pb2.DataType, self.stored, what="a tensor's dtype"),
            dimensions=[
                model_pb2.Dimension(name=name, size=size, maximum=0 if size else self.largest.get(name, 0))
                for name, size in self.dimensions.items()
            ],
            minimum=self.minimum,
            maximum=self.maximum,
        )


@dataclass(frozen=True, kw_only=True)
class _ImportedInput(Input):
    """An input, with everything that follows from it stated."""

    name: str
    summary: str
    kind: model_pb2.InputKind
    specs: tuple[TensorSpec, ...]
    made_by: tuple[bundle_pb2.PreprocessingStep, ...] = ()
    labelled: tuple[LabelSet, ...] = ()
    read: tuple[Tokenizer, ...] = ()
    taken: tuple[ModelInput, ...] = ()

    @property
    def tensors(self) -> Sequence[TensorSpec]:
        return self.specs

    @property
    def steps(self) -> Sequence[bundle_pb2.PreprocessingStep]:
        return self.made_by

    @property
    def label_sets(self) -> Sequence[LabelSet]:
        return self.labelled

    @property
    def files(self) -> Mapping[str, str]:
        return {each.file: each.text for each in self.read}


@dataclass(frozen=True, kw_only=True)
class _Embedding(Result):
    """A vector."""

    name: str
    vector: model_pb2.OutputDescription

    @property
    def task(self) -> model_pb2.Task:
        return model_pb2.TASK_EMBEDDING

    @property
    def output(self) -> model_pb2.OutputDescription:
        return self.vector

    def describe(self) -> model_pb2.ResultDescription:
        return model_pb2.ResultDescription(
            name=self.name, embedding=model_pb2.EmbeddingDescription(output=self.vector.name)
        )


@dataclass(frozen=True)
class _ImportedMap:
    """A map [batch, head, query, key] (see `models.cards.describe.DescribedMap`)."""

    stated: cards.Map
    heads: int
    queries: LabelSet
    keys: LabelSet
    axes: tuple[bundle_pb2.Axis, ...] = DENSE_AXES
    edges: tuple[str, str] | None = None

    @property
    def label_sets(self) -> tuple[LabelSet, ...]:
        return self.queries, self.keys

    def describe(self, name: str) -> model_pb2.MapDescription:
        parts = name.split(".")
        place = next((place for place, part in enumerate(parts) if part.isdigit()), None)
        kind = self.stated.kind or (
            "pool" if self.queries.kind == "one" else "self" if self.queries == self.keys else "cross"
        )
        described = model_pb2.MapDescription(
            name=name,
            stack=".".join(parts[:place]) or name,
            kind=number_of(attention_pb2.MapKind, kind, what=f"the kind of the map {name}"),
            normalised=self.stated.normalised,
            signed=self.stated.signed,
            heads=self.heads,
            query_labels=self.queries.name,
            key_labels=self.keys.name,
            form=model_pb2.MAP_FORM_DENSE,
            summary=self.stated.summary,
        )
        if place is not None:
            described.layer = int(parts[place])
        return described


def with_found_maps(card: cards.Card, observed: Mapping[str, Observed]) -> cards.Card:
    """Return a card with a map, of its own name, for each inner tensor of weights that no map names.

    Left out are those whose axes no label set counts, or several do.
    """
    named = {each.output for each in card.maps.values()} | set(card.maps)
    inner = {name: each for name, each in observed.items() if each.is_inner and name not in named}
    guessed = {name: guess_map(card, each) for name, each in inner.items()}
    found = {name: replace(each, summary=f"Attention of {name}.") for name, each in guessed.items() if each is not None}
    return replace(card, maps={**card.maps, **found})


def guess_map(card: cards.Card, tensor: Observed) -> cards.Map | None:
    """Return the map that a tensor of weights is; None where no label set of the card, or several, count an axis."""
    known = _label_sets(card, _inputs(card))
    axes, rank = tensor.axes, len(tensor.shapes[0])
    heads = _folded_heads(tensor) if rank == 3 else 0
    names = (_BATCH_HEAD, "query", "key") if heads else _DEFAULT_AXES.get(rank, ())
    found = dict(zip(names, axes, strict=False))
    if not found or (not heads and axes[0] != BATCH) or isinstance(found.get("head", 1), str):
        return None
    chosen = {}
    for axis in ("query", "key"):
        size = found.get(axis, 1)
        counted = [name for name, labels in known.items() if _axis_of(labels) == size]
        if len(counted) != 1:
            return None
        chosen[axis] = counted[0]
    return cards.Map(output=tensor.name, axes=names if heads else (), heads=heads, **chosen)  # type: ignore[arg-type]


def _folded_heads(tensor: Observed) -> int:
    """Return the number of heads of an axis `batch*head`; 0 for another axis."""
    found = {shape[0] / at[BATCH] for shape, at in zip(tensor.shapes, tensor.sizes, strict=True)}
    (heads, *others) = found
    return (
        0 if others or heads != int(heads) or heads == 1 or len({at[BATCH] for at in tensor.sizes}) == 1 else int(heads)
    )


def card_of_inputs(card: cards.Card) -> ImportedCard:
    """Return the part of a card that is known before the model has run: its inputs.

    Raises:
        ExportError: names the input that is wrong, and why.
    """
    inputs = _inputs(card)
    made = Card(
        description=model_pb2.ModelDescription(name=card.name, inputs=[each.describe() for each in inputs]),
        preprocessing=tuple(
            bundle_pb2.Preprocessing(input=each.name, steps=each.steps) for each in inputs if each.steps
        ),
        tensors=tuple(tensor.binding() for each in inputs for tensor in each.tensors),
        files={name: text for each in inputs for name, text in each.files.items()},
        single_rows=_is_single(card, inputs),
    )
    return ImportedCard(made, {each.name: each for owner in inputs for each in owner.taken}, {}, {})


def complete_card(card: cards.Card, observed: Mapping[str, Observed], summary: str = "") -> ImportedCard:
    """Return the whole card, once every output of the model has been observed.

    Args:
        summary: added to the card's own.
    Raises:
        ExportError: names the part of the card that is wrong, and what the model does.
    """
    inputs = _inputs(card)
    known = _label_sets(card, inputs)
    maps, sources = {}, {}
    for name, stated in card.maps.items():
        tensor = _observed(observed, stated.output, f"the card's map {name!r}")
        sources[name] = _map_source(name, stated, tensor)
        maps[name] = _imported_map(name, stated, sources[name], tensor, known)
    taken = {each.output for each in sources.values()}
    free = [name for name, each in observed.items() if name not in taken and not each.is_inner]
    results = [_result(card, name, stated, observed, free, known) for name, stated in card.results.items()]
    stated_outputs = [*card.outputs] if card.outputs or results else free
    if not stated_outputs and not results:
        raise ExportError("the card has neither a result nor an output, and the model returns maps only")
    read = {each.output.name for each in results}
    raw = [
        _raw_output(_observed(observed, name, "the card"), inputs)
        for name in dict.fromkeys(stated_outputs)
        if name not in read
    ]
    described = describe(
        name=card.name,
        title=card.title or card.name,
        summary=_summary(card, summary),
        inputs=inputs,
        results=results,
        maps=maps,
        outputs=raw,
        taxonomy=_UNKNOWN,
    )
    _check_task(card, described)
    described = replace(described, single_rows=_is_single(card, inputs))
    names = {each.name: each.name for each in described.description.outputs}
    return ImportedCard(described, card_of_inputs(card).inputs, names, sources)


def generating_card(
    card: cards.Card,
    written: Written,
    observed: Mapping[str, Observed],
    summary: str,
    steps: LabelSet,
) -> ImportedCard:
    """Return the whole card of a model that generates.

    Args:
        steps: the label set of the generated tokens, by which maps name them.
    Raises:
        ExportError: as for `complete_card`.
    """
    if card.results or card.outputs:
        raise ExportError("the card of a model that generates has a text as its only result: leave out the others")
    inputs = _inputs(card)
    known = {**_label_sets(card, inputs), steps.name: steps}
    maps, sources = {}, {}
    for name, stated in card.maps.items():
        tensor = _observed(observed, stated.output, f"the card's map {name!r}")
        sources[name] = _map_source(name, stated, tensor)
        maps[name] = _imported_map(name, stated, sources[name], tensor, known)
    described = describe(
        name=card.name,
        title=card.title or card.name,
        summary=_summary(card, summary),
        inputs=inputs,
        results=[written],
        maps=maps,
        taxonomy=_UNKNOWN,
    )
    _check_task(card, described)
    described = replace(described, single_rows=_is_single(card, inputs))
    return ImportedCard(described, card_of_inputs(card).inputs, {}, sources)


def _summary(card: cards.Card, added: str) -> str:
    return " ".join(filter(None, (card.summary, added, card.licence and f"Licence: {card.licence}.")))


def _inputs(card: cards.Card) -> list[_ImportedInput]:
    if not card.inputs:
        raise ExportError("the card has no input")
    texts = sum(isinstance(each, cards.Text) for each in card.inputs.values())
    made = []
    for name, stated in card.inputs.items():
        match stated:
            case cards.Text():
                made.append(_text(name, stated, "token" if texts == 1 else f"{name}_token"))
            case cards.Image():
                made.append(_image(name, stated))
            case cards.Tensor():
                made.append(_tensor(name, stated))
    taken = [each.name for owner in made for each in owner.taken]
    if twice := sorted({name for name in taken if taken.count(name) > 1}):
        raise ExportError(f"the card's inputs take {twice[0]!r} of the model twice")
    return made


def _is_single(card: cards.Card, inputs: Sequence[_ImportedInput]) -> bool:
    """Return whether rows run one at a time: by default, if an axis varies without a mask."""
    if card.batch is not None:
        return not card.batch
    specs = [spec for owner in inputs for spec in owner.specs]
    masked = {axis for spec in specs if spec.mask for axis in spec.dimensions}
    return any(not size and axis not in masked for spec in specs for axis, size in spec.dimensions.items())


def _text(name: str, stated: cards.Text, dimension: str) -> _ImportedInput:
    if stated.max_tokens < 3:
        raise ExportError(f"the card's input {name!r} has max_tokens {stated.max_tokens}; it must be at least 3")
    try:
        text = Path(stated.tokenizer).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ExportError(f"the tokenizer of the card's input {name!r} cannot be read: {stated.tokenizer}") from error
    tensor, mask = stated.tensor or name, _mask(stated.mask)
    tokenizer = Tokenizer(text=text, file=f"{name}.tokenizer.json" if dimension != "token" else "tokenizer.json")
    try:
        vocabulary = tokenizer.vocabulary
    except Exception as error:  # the library raises its own types
        raise ExportError(
            f"the tokenizer of the card's input {name!r} is no tokenizer.json: {stated.tokenizer}"
        ) from error
    ids = _VaryingTensor(
        name=tensor,
        mask=mask.name if mask else "",
        minimum=0,
        maximum=vocabulary - 1,
        dimensions={dimension: 0},
        largest={dimension: stated.max_tokens},
        stored="int64",
    )
    specs, taken = [ids], [ModelInput(tensor)]
    if stated.segments:
        specs.append(replace(ids, name=stated.segments, mask="", maximum=1))
        taken.append(ModelInput(stated.segments))
    tokenize = bundle_pb2.Tokenize(
        tokenizer=tokenizer.file,
        tensor=tensor,
        special_tokens=stated.special_tokens,
        segment_tensor=stated.segments,
    )
    return _ImportedInput(
        name=name,
        summary=stated.summary,
        kind=model_pb2.INPUT_KIND_PAIR if stated.pair else model_pb2.INPUT_KIND_TEXT,
        specs=tuple(specs),
        made_by=(bundle_pb2.PreprocessingStep(tokenize=tokenize),),
        labelled=(LabelSet(name=stated.labels, kind="tokens", input=name, tensor=tensor, dimension=dimension),),
        read=(tokenizer,),
        taken=(*taken, *_taken_mask(mask)),
    )


def _image(name: str, stated: cards.Image) -> _ImportedInput:
    channels = len(stated.mean)
    if len(stated.deviation) != channels or channels not in (1, 3):
        raise ExportError(
            f"the card's input {name!r} has {channels} means and {len(stated.deviation)} deviations; a picture has 1 "
            "or 3 channels"
        )
    tensor = stated.tensor or name
    where = f"the card's input {name!r}"
    steps = (
        bundle_pb2.PreprocessingStep(decode_image=bundle_pb2.DecodeImage(channels=channels)),
        bundle_pb2.PreprocessingStep(
            resize_image=bundle_pb2.ResizeImage(
                rows=stated.rows,
                columns=stated.columns,
                fit=_constant(bundle_pb2.Fit, stated.fit, f"the fit of {where}"),
                resampling=_constant(bundle_pb2.Resampling, stated.resampling, f"the resampling of {where}"),
            )
        ),
        bundle_pb2.PreprocessingStep(
            normalise_image=bundle_pb2.NormaliseImage(
                scale=1 / 255, mean=stated.mean, deviation=stated.deviation, tensor=tensor
            )
        ),
    )
    sizes = {"channel": channels, "row": stated.rows, "column": stated.columns}
    cells = () if stated.patches is None else (_cells(name, stated, stated.patches),)
    return _ImportedInput(
        name=name,
        summary=stated.summary,
        kind=model_pb2.INPUT_KIND_IMAGE,
        specs=(_VaryingTensor(name=tensor, dimensions=sizes, largest={}, stored="float32"),),
        made_by=steps,
        labelled=cells,
        taken=(ModelInput(tensor, channels_last=stated.channels_last),),
    )


def _cells(name: str, stated: cards.Image, patches: tuple[int, int]) -> LabelSet:
    rows, columns = patches
    return LabelSet(name=stated.labels, kind="grid", input=name, names=tuple(stated.leading), grid=(rows, columns))


def _tensor(name: str, stated: cards.Tensor) -> _ImportedInput:
    tensor, mask = stated.tensor or name, _mask(stated.mask)
    where = f"the card's input {name!r}"
    if unknown := sorted(set(stated.largest) - set(stated.axes)):
        raise ExportError(f"{where} has a largest size of {unknown[0]!r}, which is not one of its axes")
    if fixed := [axis for axis in stated.largest if stated.axes[axis]]:
        raise ExportError(f"{where} has a largest size of {fixed[0]!r}, whose size is fixed")
    if BATCH in stated.axes:
        raise ExportError(f"{where} has an axis {BATCH!r}; axes are those of one row, without the batch")
    varying = [axis for axis, size in stated.axes.items() if not size]
    if mask and len(varying) != 1:
        raise ExportError(f"{where} has a mask, so exactly one of its axes must vary; {len(varying)} do")
    whole = stated.dtype.startswith(("int", "uint"))
    spec = _VaryingTensor(
        name=tensor,
        dimensions=stated.axes,
        largest=stated.largest,
        stored=stated.dtype,
        mask=mask.name if mask else "",
        minimum=stated.minimum if whole else None,
        maximum=stated.maximum if whole else None,
    )
    kind: Any = "tokens" if whole else "frames"
    return _ImportedInput(
        name=name,
        summary=stated.summary,
        kind=model_pb2.INPUT_KIND_TENSOR,
        specs=(spec,),
        labelled=tuple(LabelSet(name=axis, kind=kind, input=name, tensor=tensor, dimension=axis) for axis in varying),
        taken=(ModelInput(tensor), *_taken_mask(mask, tuple(stated.axes.values()))),
    )


def _mask(stated: cards.Mask | str) -> cards.Mask | None:
    if isinstance(stated, str):
        return cards.Mask(name=stated) if stated else None
    return stated


def _taken_mask(mask: cards.Mask | None, sizes: tuple[int, ...] = (0,)) -> tuple[ModelInput, ...]:
    if mask is None:
        return ()
    dropped = tuple(place for place, size in reversed(list(enumerate(sizes, 1))) if size)
    return (ModelInput(mask.name, mask.dtype, mask.padding, mask=True, dropped=dropped),)


def _constant(enum: Any, name: str, what: str) -> Any:
    try:
        return number_of(enum, name, what=what)
    except ValueError as error:
        raise ExportError(str(error)) from error


def _label_sets(card: cards.Card, inputs: Sequence[_ImportedInput]) -> dict[str, LabelSet]:
    """Return the label sets that maps and results can name."""
    found = {cards.ONE: one(cards.ONE)}
    stated = [
        LabelSet(
            name=name,
            kind="latents",
            names=tuple(entries) if not isinstance(entries, int) else tuple(f"{name} {n + 1}" for n in range(entries)),
        )
        for name, entries in card.labels.items()
    ]
    for each in (*(labels for owner in inputs for labels in owner.labelled), *stated):
        if each.name in found and found[each.name].dimension != each.dimension:
            raise ExportError(f"two label sets of the card are called {each.name!r}")
        found.setdefault(each.name, each)
    return found


def _labels(known: Mapping[str, LabelSet], name: str, what: str) -> LabelSet:
    if name not in known:
        raise ExportError(f"{what} names the label set {name!r}; the card has {_listed(known)}")
    return known[name]


def _observed(observed: Mapping[str, Observed], name: str, what: str) -> Observed:
    if name not in observed:
        raise ExportError(
            f"{what} names the output {name!r}, which the model does not return; it returns {_listed(observed)}"
        )
    return observed[name]


def _map_source(name: str, stated: cards.Map, tensor: Observed) -> MapSource:
    where, rank = f"the card's map {name!r}", len(tensor.shapes[0])
    axes: tuple[str, ...] = tuple(stated.axes) or _DEFAULT_AXES.get(rank, ())
    known = get_args(cards.MapAxis)
    if unknown := [axis for axis in axes if axis not in known]:
        raise ExportError(f"{where} has the axis {unknown[0]!r}; an axis is one of {_listed(known)}")
    if len(axes) != rank:
        stated_axes = f"the axes {list(axes)}" if axes else "no axes"
        raise ExportError(f"{where} has {stated_axes}, and the output {tensor.name!r} has the shape {_shape(tensor)}")
    folded = _BATCH_HEAD in axes
    if len(set(axes)) < len(axes) or "key" not in axes or (folded and {BATCH, "head"} & set(axes)):
        raise ExportError(f"{where} has the axes {list(axes)}; each appears once, and one of them is the key")
    if not folded and axes[0] != BATCH:
        raise ExportError(f"{where} has the axes {list(axes)}; the first is the batch")
    if folded and (axes[0] != _BATCH_HEAD or stated.heads < 1):
        raise ExportError(f"{where} has an axis {_BATCH_HEAD!r}, which must be the first and needs `heads`")
    return MapSource(tensor.name, axes, stated.heads if folded else 0)


def _imported_map(
    name: str, stated: cards.Map, source: MapSource, tensor: Observed, known: Mapping[str, LabelSet]
) -> _ImportedMap:
    where = f"the card's map {name!r}"
    sizes = dict(zip(source.axes, tensor.axes, strict=True))
    heads: AxisSize = source.heads or sizes.get("head", 1)
    if isinstance(heads, str):
        raise ExportError(
            f"{where}: its head axis varies with {heads!r}; the output {tensor.name!r} has {_shape(tensor)}"
        )
    if source.heads:
        for shape, at in zip(tensor.shapes, tensor.sizes, strict=True):
            if shape[0] != at[BATCH] * source.heads:
                raise ExportError(
                    f"{where} has {source.heads} heads, and the first axis of the output {tensor.name!r} is {shape[0]} "
                    f"for {at[BATCH]} rows"
                )
    elif sizes[BATCH] != BATCH:
        raise ExportError(
            f"{where}: the first axis of the output {tensor.name!r} is not the batch; it has {_shape(tensor)}"
        )
    if stated.heads and stated.heads != heads:
        raise ExportError(f"{where} has {stated.heads} heads, and the output {tensor.name!r} has {heads}")
    chosen = {}
    for axis, labels in (("query", stated.query), ("key", stated.key)):
        chosen[axis] = _labels(known, labels, where)
        found, wanted = sizes.get(axis, 1), _axis_of(chosen[axis])
        if found != wanted:
            raise ExportError(
                f"{where} has {labels!r} as {axis}, {_size(wanted)}, and that axis of the output {tensor.name!r} "
                f"is {_size(found)}: it has the shape {_shape(tensor)}"
            )
    return _ImportedMap(stated, heads, chosen["query"], chosen["key"])


def _axis_of(labels: LabelSet) -> AxisSize:
    """Return the axis that a label set counts, or the number of its entries."""
    if labels.kind in ("one", "output_steps"):  # a step gives one of several queries
        return 1
    if labels.grid is not None:
        rows, columns = labels.grid
        return len(labels.names) + rows * columns
    return labels.dimension or len(labels.names)


def _result(
    card: cards.Card,
    name: str,
    stated: cards.Result,
    observed: Mapping[str, Observed],
    free: Sequence[str],
    known: Mapping[str, LabelSet],
) -> Result:
    where = f"the card's result {name!r}"
    if not stated.output and len(free) != 1:
        raise ExportError(f"{where} must name its output: the model returns {_listed(free)}")
    tensor = _observed(observed, stated.output or free[0], where)
    axes = _output_axes(tensor)
    match stated:
        case cards.Classes():
            over = _labels(known, stated.over, where) if stated.over else None
            wanted: Axes = (BATCH, *([_axis_of(over)] if over else []), len(stated.labels))
            made: Result = Classes(
                name=name,
                scores=tensor.name,
                labels=stated.labels,
                activation=stated.activation,
                over=over,
            )
            what = f"scores of {len(stated.labels)} classes"
        case cards.Numbers():
            wanted, what = (BATCH, len(stated.units)), f"{len(stated.units)} numbers"
            made = Numbers(name=name, values=tensor.name, targets=stated.units)
        case cards.Embedding():
            size = axes[-1] if len(axes) == 2 and isinstance(axes[-1], int) else 0
            wanted, what = (BATCH, size), "a vector of one size"
            dimensions = [model_pb2.Dimension(name="feature", size=size)]
            vector = model_pb2.OutputDescription(
                name=tensor.name, data_type=values_pb2.DATA_TYPE_FLOAT32, dimensions=dimensions
            )
            made = _Embedding(name=name, vector=vector)
    if axes != wanted:
        raise ExportError(
            f"{where} reads {what}, {_named(wanted)}, from the output {tensor.name!r}, which is {_named(axes)}: "
            f"it has the shape {_shape(tensor)}"
        )
    if not np.issubdtype(tensor.dtype, np.floating):
        raise ExportError(f"{where} reads the output {tensor.name!r}, which holds {tensor.dtype}, not floating point")
    return made


def _raw_output(tensor: Observed, inputs: Sequence[_ImportedInput]) -> model_pb2.OutputDescription:
    varying = {axis for owner in inputs for spec in owner.specs for axis, size in spec.dimensions.items() if not size}
    axes = _output_axes(tensor)
    for place, axis in enumerate(axes[1:], 1):
        if isinstance(axis, str) and axis not in varying:
            raise ExportError(
                f"axis {place} of the output {tensor.name!r} varies, but follows no axis of an input; leave it out of "
                f"the card's outputs: it has the shape {_shape(tensor)}"
            )
    try:
        data_type = data_type_of(np.empty(0, _stored(tensor.dtype)))
    except KeyError as error:
        raise ExportError(f"the output {tensor.name!r} holds {tensor.dtype}, which no answer can hold") from error
    return model_pb2.OutputDescription(
        name=tensor.name,
        data_type=data_type,
        dimensions=[
            model_pb2.Dimension(name=axis)
            if isinstance(axis, str)
            else model_pb2.Dimension(name=f"axis_{place}", size=axis)
            for place, axis in enumerate(axes[1:], 1)
        ],
        summary=f"{data_type_name(data_type)}, as the model returns it.",
    )


def _stored(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type in which an output is kept: floating point as float32, for results and maps alike."""
    return np.dtype(np.float32) if np.issubdtype(dtype, np.floating) else dtype


def _output_axes(tensor: Observed) -> Axes:
    axes = tensor.axes
    if not axes or axes[0] != BATCH:
        raise ExportError(
            f"the first axis of the output {tensor.name!r} is not the batch: it has the shape {_shape(tensor)}"
        )
    return axes


def _check_task(card: cards.Card, described: Card) -> None:
    if not card.task:
        return
    wanted = _constant(model_pb2.Task, card.task, "the card's task")
    if described.description.task != wanted:
        found = model_pb2.Task.Name(described.description.task).removeprefix("TASK_").lower()
        raise ExportError(f"the card's task is {card.task!r}, and its first result makes it {found!r}")


def _shape(tensor: Observed) -> str:
    """Describe shapes with the sizes at which they were seen."""
    sizes = ", ".join(f"{name} {size}" for name, size in tensor.sizes[0].items())
    return f"{list(tensor.shapes[0])} at {sizes}"


def _named(axes: Axes) -> str:
    return f"[{', '.join(map(str, axes))}]"


def _size(axis: AxisSize) -> str:
    return f"always {axis}" if isinstance(axis, int) else f"as long as {axis!r}"


def _listed(names: Iterable[object]) -> str:
    found = [repr(each) for each in names]
    return ", ".join(found[:20]) + (f" and {len(found) - 20} more" if len(found) > 20 else "") if found else "nothing"
