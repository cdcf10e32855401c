"""What the axes of a map are: said once by whoever makes it, read by the cards of all small task models."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn

from bundle.v1 import bundle_pb2
from limelight.v1 import attention_pb2, model_pb2
from models.attention import Attention
from models.attention.score import ImportanceMatrix

ATTENTION = "attention"  # the map of a model that has one
TEXT, TOKENS = "text", "tokens"  # label sets: a text as one thing, its tokens
_AXES = (bundle_pb2.AXIS_BATCH, bundle_pb2.AXIS_HEAD, bundle_pb2.AXIS_QUERY, bundle_pb2.AXIS_KEY)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """One map. queries, keys: label sets; names, label_kind: entries of the one of them that is a fixed set.

    edges: keys are nested in their query, [batch, query, key of it].
    """

    queries: str = TEXT
    keys: str = TOKENS
    names: tuple[str, ...] = ()
    label_kind: attention_pb2.LabelKind = attention_pb2.LABEL_KIND_ONE
    heads: int = 1
    features: int = 0
    kind: attention_pb2.MapKind = attention_pb2.MAP_KIND_POOL
    normalised: bool = True
    signed: bool = False
    edges: bool = False


def layout_of(
    attention: nn.Module,
    *,
    d: int,
    queries: str = TEXT,
    keys: str = TOKENS,
    names: tuple[str, ...] = (),
    label_kind: attention_pb2.LabelKind = attention_pb2.LABEL_KIND_ONE,
    kind: attention_pb2.MapKind = attention_pb2.MAP_KIND_POOL,
) -> Layout:
    """The layout that follows from an `Attention`, or from what wraps one (`MultiHead`)."""
    heads = int(getattr(attention, "heads", 1))
    inner = attention if isinstance(attention, Attention) else attention.get_submodule("attention")
    assert isinstance(inner, Attention)
    return Layout(
        queries=queries,
        keys=keys,
        names=names,
        label_kind=label_kind,
        kind=kind,
        heads=inner.score.importance.weight.shape[-1] if isinstance(inner.score, ImportanceMatrix) else heads,
        features=d if inner.score.multidimensional else 0,
        # Estimated kernels may sum to less than 1.
        normalised=inner.normalised and not inner.signed,
        signed=inner.signed,
    )


def map_description(name: str, layout: Layout, *, summary: str) -> model_pb2.MapDescription:
    """A map as a card describes it."""
    return model_pb2.MapDescription(
        name=name,
        stack=name.split(".")[0],
        kind=layout.kind,
        normalised=layout.normalised,
        signed=layout.signed,
        heads=layout.heads,
        query_labels=layout.queries,
        key_labels=layout.keys,
        form=model_pb2.MAP_FORM_EDGES if layout.edges else model_pb2.MAP_FORM_DENSE,
        features=layout.features,
        summary=summary,
    )


def axes(layout: Layout) -> tuple[bundle_pb2.Axis, ...]:
    """The axes of a map's tensor."""
    return (*_AXES, bundle_pb2.AXIS_FEATURE) if layout.features else _AXES


def fixed_sets(layouts: Mapping[str, Layout], texts: set[str]) -> list[model_pb2.LabelSetDescription]:
    """The label sets that are no tokens or sentences: those are in `texts`, and described by the input's owner."""
    found = {}
    for layout in layouts.values():
        for name in (layout.queries, layout.keys):
            if name not in texts and name not in found:
                found[name] = model_pb2.LabelSetDescription(name=name, kind=layout.label_kind, names=layout.names)
    return list(found.values())
