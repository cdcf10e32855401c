"""Maps: said once, by who asks and who is asked; the rest follows from the attention that makes the weights."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from limelight.base.enums import number_of
from limelight.v1 import attention_pb2, model_pb2
from limelight_bundle.v1 import bundle_pb2
from limelight_models.cards.labels import LabelSet
from limelight_models.weights import Weights, weights_of

if TYPE_CHECKING:  # cards of ONNX files need no PyTorch
    from torch import nn

MapKind = Literal["self", "cross", "pool", "co", "memory", "graph"]
_AXES = (bundle_pb2.AXIS_BATCH, bundle_pb2.AXIS_HEAD, bundle_pb2.AXIS_QUERY, bundle_pb2.AXIS_KEY)
_EDGE_AXES = (bundle_pb2.AXIS_EDGE, bundle_pb2.AXIS_HEAD)


@dataclass(frozen=True, kw_only=True)
class Map:
    """One map; its tensor is [batch, head, query, key(, feature)], or without the query axis in a decoder's step, or
    [edge, head].

    weights: what the attention says of them. features: size of the values, which is that of the feature axis where
    there is one. nested: keys are those of their query, [batch, head, query, key of it]. edges: for [edge, head], the
    names in `Answer.edges` of each edge's query and key. of_heads, of_features: what those axes count, where their
    entries have names. part: a row is a part of a distribution (over a document, of
    which a sentence is shown), so it does not sum to 1. derived: it is made of other maps, and only on request.
    """

    weights: Weights
    kind: MapKind
    queries: LabelSet
    keys: LabelSet
    features: int = 0
    nested: bool = False
    edges: tuple[str, str] | None = None
    of_heads: LabelSet | None = None
    of_features: LabelSet | None = None
    part: bool = False
    derived: bool = False
    summary: str = ""

    @property
    def label_sets(self) -> tuple[LabelSet, ...]:
        """Label sets of its axes."""
        named = (each for each in (self.of_heads, self.of_features) if each is not None)
        return (self.queries, self.keys, *named)

    @property
    def feature_axis(self) -> int:
        """Size of the feature axis; 0 where there is none."""
        return self.features if self.weights.by_feature else 0

    @property
    def axes(self) -> tuple[bundle_pb2.Axis, ...]:
        """The axes of its tensor."""
        axes = _EDGE_AXES if self.edges else _AXES
        return (*axes, bundle_pb2.AXIS_FEATURE) if self.feature_axis else axes

    def describe(self, name: str) -> model_pb2.MapDescription:
        """As a description has it. `encoder.3.self` is in layer 3 of the stack `encoder`."""
        parts = name.split(".")
        place = next((place for place, part in enumerate(parts) if part.isdigit()), 0)
        described = model_pb2.MapDescription(
            name=name,
            stack=".".join(parts[:place]) or parts[0],
            kind=number_of(attention_pb2.MapKind, self.kind, what=f"the kind of the map {name}"),
            normalised=self.weights.normalised and not self.part,
            signed=self.weights.signed,
            heads=self.weights.heads,
            query_labels=self.queries.name,
            key_labels=self.keys.name,
            head_labels="" if self.of_heads is None else self.of_heads.name,
            feature_labels="" if self.of_features is None else self.of_features.name,
            form=model_pb2.MAP_FORM_EDGES if self.nested or self.edges else model_pb2.MAP_FORM_DENSE,
            features=self.feature_axis,
            quantities=[
                number_of(attention_pb2.Quantity, each, what="a quantity of a map") for each in self.weights.quantities
            ],
            summary=self.summary,
        )
        if place:
            described.layer = int(parts[place])
        return described


@dataclass(frozen=True)
class Attends:
    """A map of queries that attend to keys. The module that makes its weights declares the rest.

    kind: where it is not the last part of the map's name; `pool` where it is neither, and there is one query.
    features, nested, edges: as those of `Map`.
    """

    queries: LabelSet
    keys: LabelSet
    summary: str
    kind: MapKind | None = None
    features: int = 0
    nested: bool = False
    edges: tuple[str, str] | None = None

    def described(self, name: str, key: str, weights: Weights) -> Map:
        """The map of a name. key: stands for `{}` in the summary. Raises: ValueError where its kind is not known."""
        last = name.rpartition(".")[2]
        kind = self.kind or next((each for each in get_args(MapKind) if each == last), None)
        if kind is None and self.queries.kind != "one":
            raise ValueError(f"{name}: the kind of this map is not known")
        return Map(
            weights=weights,
            kind=kind or "pool",
            queries=self.queries,
            keys=self.keys,
            features=self.features,
            nested=self.nested,
            edges=self.edges,
            summary=self.summary.format(key),
        )


def maps_of(module: "nn.Module", shown: Mapping[str, Attends]) -> dict[str, Map]:
    """The maps that a module makes, by name, in the order of its weights.

    Of a ModuleList or ModuleDict: the maps of each of its modules, `{}` in names and summaries being its number or key.
    Raises: TypeError where a module makes another number of maps, or does not say; ValueError as `Attends.described`.
    """
    from torch import nn

    several = isinstance(module, nn.ModuleList | nn.ModuleDict)
    found = {}
    for key, part in module.named_children() if several else [("", module)]:
        made = weights_of(part)
        if len(made) != len(shown):
            raise TypeError(f"{type(part).__name__} makes {len(made)} maps, not {len(shown)}")
        for (name, attends), weights in zip(shown.items(), made, strict=True):
            found[name.format(key)] = attends.described(name, key, weights)
    return found


def map_of(
    attention: "nn.Module",
    kind: MapKind,
    *,
    queries: LabelSet,
    keys: LabelSet,
    features: int = 0,
    nested: bool = False,
    edges: tuple[str, str] | None = None,
    of_heads: LabelSet | None = None,
    of_features: LabelSet | None = None,
    part: bool = False,
    summary: str = "",
) -> Map:
    """The map of a module that makes one. Raises: TypeError where it makes another number, or does not say."""
    made = weights_of(attention)
    if len(made) != 1:
        raise TypeError(f"{type(attention).__name__} makes {len(made)} maps, not one")
    return Map(
        weights=made[0],
        kind=kind,
        queries=queries,
        keys=keys,
        features=features,
        nested=nested,
        edges=edges,
        of_heads=of_heads,
        of_features=of_features,
        part=part,
        summary=summary,
    )
