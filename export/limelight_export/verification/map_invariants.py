"""Checks of answers: finite outputs, and a map's weights against the properties that its description states."""

import numpy as np

from limelight.v1 import attention_pb2, model_pb2
from limelight_bundle.maps import SCORES, WEIGHTS, MapWeights, map_key, map_quantities
from limelight_bundle.values import Array
from limelight_export.errors import ExportError
from limelight_export.execution.row_answers import RowAnswer
from limelight_models.cards.card import Card

# Weights in half precision are off by up to 2^-11 of each, and so are the sums of rows.
_ROUNDING = 2e-3


def check_maps(card: Card, answer: RowAnswer) -> None:
    """Check every quantity of every map of one instance. Raises ExportError as `check_map` does."""
    for each, quantity in map_quantities(card.description.maps):
        check_map(each, answer.maps[map_key(each.name, quantity)], quantity)


def check_finite(answer: RowAnswer, reference: str) -> None:
    """Check the outputs of one instance. Raises ExportError for NaN or infinity, which a server refuses to answer."""
    for name, array in answer.outputs.items():
        if np.issubdtype(array.dtype, np.floating) and not np.isfinite(array).all():
            raise ExportError(f"{reference} answers with NaN or infinity in {name!r}")


def check_map(
    description: model_pb2.MapDescription, weights: MapWeights, quantity: attention_pb2.Quantity = WEIGHTS
) -> None:
    """Check one quantity of a map, for one instance, against the map's description.

    Raises:
        ExportError: wrong number of heads, a value that is not finite, a negative weight of an unsigned map, a negative
            norm, or a query of a normalised map whose weights sum to neither 1 nor 0.
    """
    name, array = map_key(description.name, quantity), weights.weights
    if array.shape[0] != description.heads:
        raise ExportError(f"the map {name} has {array.shape[0]} heads; the card states {description.heads}")
    if not np.isfinite(array).all():
        raise ExportError(f"the map {name} has weights that are not finite")
    signed = quantity == SCORES or (quantity == WEIGHTS and description.signed)
    if not signed and array.size and array.min() < 0:
        raise ExportError(f"the map {name} has a weight of {array.min():.3g}; the card states that none is negative")
    if description.normalised and quantity == WEIGHTS:
        totals = _totals(weights)
        wrong = np.minimum(np.abs(totals - 1), np.abs(totals))
        if wrong.size and wrong.max() > _ROUNDING:
            total = totals.flat[wrong.argmax()]
            raise ExportError(f"a row of the map {name} sums to {total:.6g}; the card states that rows sum to 1")


def _totals(weights: MapWeights) -> Array:
    """Sum the weights of each query, by feature."""
    if weights.query_index is None:
        dense: Array = weights.weights.sum(axis=2)
        return dense
    queries = int(weights.query_index.max(initial=-1)) + 1
    totals = np.zeros((weights.weights.shape[0], queries, *weights.weights.shape[2:]), np.float64)
    for edge, query in enumerate(weights.query_index.tolist()):
        totals[:, query] += weights.weights[:, edge]
    return totals
