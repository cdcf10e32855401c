"""What a call asks of a model's maps, checked once for the whole call, before anything runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bundle.errors import InputError
from limelight.v1 import attention_pb2, model_pb2
from service.attention.options import Encoding, HeadReduction, Options
from service.attention.select import Chosen, choose, indices


@dataclass(frozen=True)
class Plan:
    """The maps to compute, and what becomes of them.

    stacks: for a rollout, the maps of each stack that it replaces, first layer first; empty without.
    """

    chosen: tuple[Chosen, ...]
    options: Options
    stacks: Mapping[str, tuple[Chosen, ...]]

    @property
    def names(self) -> frozenset[str]:
        """Names of the maps to compute."""
        return frozenset(each.description.name for each in self.chosen)


def make_plan(maps: Sequence[model_pb2.MapDescription], options: Options, field: str = "attention") -> Plan:
    """Find the maps that the options select, and check that what is to be done with them can be.

    Raises: InputError naming the field that cannot be met, and why.
    """
    chosen = choose(maps, options.selections, field)
    stacks = _stacks(chosen, f"{field}.rollout") if options.rollout else {}
    replaced = {each.description.name for stack in stacks.values() for each in stack}
    for each in chosen:
        description = each.description
        if options.top_k and description.features:
            raise InputError(f"{field}.top_k", f"cannot be applied to {description.name}, whose weights have features")
        if options.encoding is Encoding.UINT8 and description.signed and description.name not in replaced:
            raise InputError(
                f"{field}.encoding", f"is UINT8, which has no negative weights as {description.name} does; use FLOAT16"
            )
    return Plan(chosen, options, stacks)


def check_indices(plan: Plan, sizes: Mapping[str, int]) -> None:
    """Check the queries and keys of a plan against an instance's label sets, as far as `sizes` knows them.

    Raises: InputError naming the first index that the instance lacks.
    """
    for each in plan.chosen:
        description = each.description
        for wanted, labels, axis in (
            (each.queries, description.query_labels, "queries"),
            (each.keys, description.key_labels, "keys"),
        ):
            if wanted is not None and labels in sizes:
                indices(wanted, sizes[labels], f"{axis} of {description.name}")


def rollout_description(replaced: Sequence[Chosen]) -> model_pb2.MapDescription:
    """Describe the map that a rollout puts in place of a stack's self maps."""
    first = replaced[0].description
    return model_pb2.MapDescription(
        name=f"{first.stack}.rollout" if first.stack else "rollout",
        stack=first.stack,
        kind=attention_pb2.MAP_KIND_SELF,
        normalised=True,
        heads=1,
        query_labels=first.query_labels,
        key_labels=first.key_labels,
        form=model_pb2.MAP_FORM_DENSE,
    )


def head_count(chosen: Chosen, options: Options) -> int:
    """Count the heads that are left after the reduction."""
    return len(chosen.heads) if options.reduce_heads is HeadReduction.NONE else 1


def _stacks(chosen: Sequence[Chosen], field: str) -> dict[str, tuple[Chosen, ...]]:
    stacks: dict[str, list[Chosen]] = {}
    for each in chosen:
        if each.description.kind == attention_pb2.MAP_KIND_SELF:
            stacks.setdefault(each.description.stack, []).append(each)
    if not stacks:
        raise InputError(field, "needs self maps, and the selection has none")
    for members in stacks.values():
        labels = members[0].description.query_labels
        for each in members:
            description = each.description
            if each.queries is not None or each.keys is not None:
                raise InputError(field, f"needs whole maps: leave out queries and keys of {description.name}")
            square = description.query_labels == description.key_labels == labels
            if not square or description.form != model_pb2.MAP_FORM_DENSE or description.features:
                raise InputError(field, f"needs square maps, which {description.name} is not")
            if description.signed:
                raise InputError(field, f"needs weights that are not negative, unlike those of {description.name}")
        members.sort(key=lambda each: each.description.layer)
    return {stack: tuple(members) for stack, members in stacks.items()}
