"""A loaded model with what an engine needs to carry out requests for it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial

from limelight_bundle.descriptions import input_steps, sequence_description
from limelight_bundle.maps import MapPart
from limelight_bundle.reader import BundleFolder
from limelight_service.attention.options import Options
from limelight_service.attention.plan import AttentionPlan, parts_of, plan_attention
from limelight_service.engine.model import Model
from limelight_service.engine.types import MapKey, Query
from limelight_service.ipc.boundary import GraphStatus, InferenceRequest, ServedModel

_MOST_PLANS = 32
PROJECTED = MapPart(projected=True)


@dataclass(frozen=True, eq=False)
class HostedModel:
    """A model and its announcement to frontends. Equal only to itself.

    growing_labels: names of the label sets that grow with each generated token.
    """

    model: Model
    served: ServedModel
    growing_labels: frozenset[str]

    def __post_init__(self) -> None:
        maps = tuple(self.model.description.maps)
        # Not a cache of a method, which would keep an unloaded model until the next collection of cycles.
        object.__setattr__(self, "_plans", lru_cache(_MOST_PLANS)(partial(plan_attention, maps)))

    def plan(self, options: Options | None) -> AttentionPlan | None:
        """Plan attention options; the same ones are planned once.

        Raises: InputError naming the option that cannot be met.
        """
        if options is None:
            return None
        if options.query_groups or options.key_groups:  # plans keep what groups found in instances
            return plan_attention(tuple(self.model.description.maps), options)
        plan: AttentionPlan = self._plans(options)  # type: ignore[attr-defined]
        return plan

    def query(self, request: InferenceRequest, plan: AttentionPlan | None, *, streamed: bool = False) -> Query:
        """Make the engine's query of a request. streamed: of maps, what they are made of is enough."""
        parts: tuple[Mapping[MapKey, MapPart], ...] = ()
        if plan is not None and not streamed:
            parts = tuple([parts_of(plan, row.labels) for row in request.rows])
        elif plan is not None:
            parts = (dict.fromkeys(plan.keys, PROJECTED),) * len(request.rows)
        return Query(
            rows=request.rows,
            maps=plan.keys if plan is not None else frozenset(),
            parts=parts,
            seeds=request.seeds,
            sequences=plan.options.sequences if plan is not None else 1,
            generation=request.generation,
            deadline=request.deadline,
            outputs=request.outputs,
        )


def hosted(model: Model, folder: BundleFolder) -> HostedModel:
    """Make the announcement of a model that was loaded from a folder."""
    served = ServedModel(
        name=model.name,
        version=model.version,
        digest=model.digest,
        provider=model.provider,
        folder=str(folder.path),
        bundle=folder.bundle.SerializeToString(),
        graph_bytes=dict(folder.graph_bytes),
        stamps=dict(folder.stamps),
        origin=folder.origin,
        graphs=tuple(GraphStatus(each.name, each.provider, dict(each.nodes)) for each in model.graphs),
        projected={name: (each.numbers, each.bias, each.bias_heads) for name, each in model.projected.items()},
        max_rows=model.policy.max_rows,
        workers=model.policy.spread,
        max_tokens=model.policy.max_tokens,
    )
    steps = sequence_description(model.description).label_set
    growing = frozenset({steps, *(each.name for each in input_steps(model.description))}) - {""}
    return HostedModel(model, served, growing)
