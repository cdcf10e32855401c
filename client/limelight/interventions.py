"""Interventions: what a model answers if its attention is another."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from limelight.base.counts import counted
from limelight.base.strings import check_string
from limelight.base.tensors import to_tensor
from limelight.groups import Members, group_message
from limelight.v1 import values_pb2

_Integers = int | Sequence[int]


@dataclass(frozen=True)
class Intervention:
    """A change to one map of a model, for the instances of a call: by `scale_heads`, `scale_keys` or `replace`."""

    message: values_pb2.Intervention
    """The protocol message."""


def scale_heads(map: str, factors: Mapping[int, float]) -> Intervention:
    """Multiply the results of heads by factors: 0 masks a head, 1 leaves it.

    Args:
        map: name of the map.
        factors: by head; negative numbers count from the end. Heads without a factor stay.
    Raises:
        ValueError: no factor.
    """
    if not factors:
        raise ValueError('scale_heads takes a factor for some head, such as scale_heads("encoder.0.self", {3: 0})')
    scales = to_tensor(np.array([*factors.values()], np.float32))
    return Intervention(
        values_pb2.Intervention(map=check_string(map, "interventions.map"), head_scales=scales, heads=[*factors])
    )


def replace(
    map: str,
    weights: ArrayLike | Literal["uniform"],
    *,
    heads: _Integers = (),
    queries: _Integers = (),
) -> Intervention:
    """Replace weights of a map, which the model then attends with.

    Args:
        map: name of the map.
        weights: numbers of the shape [head, query, key] for the heads and queries that change, those of a query with
            the sum 1; a shape that broadcasts to it is not enough. Of a map of edges they are [head, edge]: the edges
            of these queries, in the order in which the map is answered. Or "uniform": equal weights over the keys to
            which a query may attend. A map of output steps takes one query for all steps, where `queries` names none.
        heads, queries: those that change; all by default. Negative numbers count from the end, but for output steps.
    Raises:
        ValueError: weights that are neither "uniform" nor numbers along two or three axes.
    """
    message = values_pb2.Intervention(
        map=check_string(map, "interventions.map"), heads=_listed(heads), queries=_listed(queries)
    )
    if isinstance(weights, str):
        if weights != "uniform":
            raise ValueError(f'weights are numbers, or "uniform", not {weights!r}')
        message.uniform.SetInParent()
        return Intervention(message)
    array = np.asarray(weights, np.float32)
    if array.ndim not in (2, 3):
        axes = counted(array.ndim, "axis", "axes")
        raise ValueError(f"weights have the axes [head, query, key], or [head, edge], not {axes}")
    message.weights.CopyFrom(to_tensor(array))
    return Intervention(message)


def scale_keys(
    map: str, keys: Members, factor: float = 0.0, *, heads: _Integers = (), queries: _Integers = ()
) -> Intervention:
    """Multiply the weights on some keys, and all of a query so that their sum stays: 0 looks away from these keys.

    For softmax, this adds log(factor) to the scores of the keys. A query whose weights are all on keys with the factor
    0 keeps them. Several changes of this kind multiply.

    Args:
        map: name of a normalised map.
        keys: entries of its key axis, as the members of a group (`limelight.Grouping`): indices, ranges, spans of the
            text, inputs. Keys that are output or input steps are counted from the first.
        factor: from 0 to 1,000,000.
        heads, queries: those that change; all by default. Negative numbers count from the end, but for output steps.
    """
    changed = values_pb2.KeyFactor(factor=factor, keys=group_message("", keys, "interventions.key_factor.keys"))
    message = values_pb2.Intervention(
        map=check_string(map, "interventions.map"),
        key_factor=changed,
        heads=_listed(heads),
        queries=_listed(queries),
    )
    return Intervention(message)


def with_interventions(instance: values_pb2.Instance, interventions: Iterable[Intervention]) -> values_pb2.Instance:
    """Add interventions to an instance. The caller's message is not changed."""
    added = [each.message for each in interventions]
    if not added:
        return instance
    changed = values_pb2.Instance()
    changed.CopyFrom(instance)
    changed.interventions.extend(added)
    return changed


def _listed(value: _Integers) -> Sequence[int]:
    return [value] if isinstance(value, int) else value
