"""Checks that the outputs of a model are finite: a finite input that overflows inside a model has no answer."""

import math
from collections.abc import Mapping

import numpy as np

from limelight_bundle.descriptions import ACTIVATION_SIGMOID, ACTIVATION_SOFTMAX, QUANTITY_SCORES, Quantity
from limelight_bundle.maps import WEIGHTS, MapWeights
from limelight_bundle.v1 import bundle_pb2
from limelight_bundle.values import Array
from limelight_service.engine.types import MapKey
from limelight_service.errors import NotFiniteError

_SMALL = 2**18  # numbers that are looked at together: the intermediate result stays in the cache


class Finite:
    """Looks at the numbers of a model's answers.

    Minus infinity says "never" of a class, a token or a place, and is the one exception: in scores that a softmax or a
    sigmoid turns into probabilities, as long as the softmax has anything to share out, and in the scores of maps.
    """

    def __init__(self, bundle: bundle_pb2.Bundle) -> None:
        self._scores: dict[str, bool] = {bundle.generation.scores_output: True}  # by name: whether all may be never
        for each in bundle.description.results:
            if each.HasField("classes") and each.classes.activation == ACTIVATION_SOFTMAX:
                self._scores[each.classes.output] = False
            elif each.HasField("classes") and each.classes.activation == ACTIVATION_SIGMOID:
                self._scores[each.classes.output] = True
            elif each.HasField("boxes"):
                self._scores[each.boxes.scores_output] = False
            elif each.HasField("spans"):
                self._scores[each.spans.start_output] = self._scores[each.spans.end_output] = False

    def problem(self, outputs: Mapping[str, Array], maps: Mapping[MapKey, MapWeights]) -> str:
        """Name the first of one row's outputs and maps that is not finite, cut to the row; empty where all are."""
        for name, array in outputs.items():
            if not all_finite(array) and not (name in self._scores and _are_scores(array, self._scores[name])):
                return f"output {name}"
        for (name, quantity), found in maps.items():
            if not is_finite_map(found.weights, quantity):
                return map_problem(name, quantity)
        return ""


def not_finite(problem: str, index: int, rows: int) -> NotFiniteError:
    """Make the error of a row. problem: of `Finite.problem`. index, rows: of the row in its call."""
    where = f" for instances[{index}]" if rows > 1 else ""
    return NotFiniteError(
        f"the {problem} has NaN or infinity{where}: this input is finite, and the model's numbers overflow on it"
    )


def map_problem(name: str, quantity: int) -> str:
    """Name a map that is not finite."""
    kind = "" if quantity == WEIGHTS else f" ({Quantity.Name(quantity).removeprefix('QUANTITY_').lower()})"
    return f"map {name}{kind}"


def is_finite_map(weights: Array, quantity: int) -> bool:
    """Tell whether a map's numbers are finite; scores may be minus infinity."""
    if all_finite(weights):
        return True
    if quantity == WEIGHTS or np.isnan(weights).any():
        return False
    if weights.dtype == np.float16:  # rounded on the device, as the request asks
        return True
    return quantity == QUANTITY_SCORES and not np.isposinf(weights).any()


def all_finite(array: Array) -> bool:
    """Tell whether every number is finite."""
    if array.dtype.kind != "f":
        return True
    # A sum of squares is finite only where every number is, and takes half of the time: none of them cancels another.
    # Of the numbers themselves, it says nothing where it is not.
    if array.flags.c_contiguous and array.itemsize > 2 and math.isfinite(np.vdot(array, array)):
        return True
    if array.size <= _SMALL:
        return bool(np.isfinite(array).all())
    few = max(1, _SMALL * len(array) // array.size)
    return all(bool(np.isfinite(array[place : place + few]).all()) for place in range(0, len(array), few))


def _are_scores(array: Array, all_may_be_never: bool) -> bool:
    """Tell whether numbers that are not all finite are scores. array: [..., class]."""
    if np.isnan(array).any() or np.isposinf(array).any():
        return False
    return all_may_be_never or bool(np.isfinite(array.max(axis=-1)).all())
