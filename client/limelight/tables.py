"""Attention maps as pandas and xarray objects."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from limelight.base.optional import package

if TYPE_CHECKING:
    import pandas
    import xarray

    from limelight.maps import AttentionMap


def frame(maps: Sequence["AttentionMap"]) -> "pandas.DataFrame":
    """Return a row for each value of the maps (`AttentionMap.to_pandas`)."""
    pandas = package("pandas", "to_pandas()")
    frames = []
    for each in maps:
        columns = pandas.DataFrame(_columns(each))
        columns.insert(1, "layer", pandas.Series([each.layer], dtype="Int64").repeat(len(columns)).array)
        frames.append(columns)
    return pandas.concat(frames, ignore_index=True)


def array(each: "AttentionMap") -> "xarray.DataArray":
    """Return a map as a labelled array (`AttentionMap.to_xarray`)."""
    xr = package("xarray", "to_xarray()")
    values, there = each.dense(absent=np.nan), each.present()
    if not there.all():
        values = np.where(there.reshape(*there.shape, *(1,) * (values.ndim - 3)), values, np.float32(np.nan))
    axes = ("head", "query", "key", "feature")[: values.ndim]
    coordinates: dict[str, Any] = {"head": _heads(each)}
    for axis, labels in (("query", each.query), ("key", each.key)):
        coordinates |= {axis: labels.numbers, f"{axis}_label": (axis, list(labels.labels))}
    if each.feature_labels is not None:
        coordinates["feature"] = list(each.feature_labels.labels)
    facts = {"kind": each.kind, "stack": each.stack, "layer": each.layer, "quantity": each.quantity}
    facts |= {"normalised": int(each.normalised), "query": each.query.name, "key": each.key.name}
    attributes = {name: value for name, value in facts.items() if value is not None}
    made: xarray.DataArray = xr.DataArray(values.copy(), coordinates, axes, each.name, attributes)
    return made


def stacked(maps: Sequence["AttentionMap"]) -> "xarray.DataArray":
    """Return maps with the same axes as one array, with a first axis `map`.

    Raises:
        ValueError: two maps differ in their heads or labels; the message names them.
    """
    xr, first = package("xarray", "to_xarray()"), maps[0]
    for each in maps[1:]:
        same = each.query.labels == first.query.labels and each.key.labels == first.key.labels
        if not same or each.heads != first.heads or each.axes != first.axes:
            both = f"{first.name!r} and {each.name!r}"
            raise ValueError(
                f"{both} have different axes or labels; choose by name maps that fit, or convert each alone"
            )
    whole = xr.concat([array(each) for each in maps], "map", combine_attrs="drop_conflicts").rename(first.quantity)
    named: xarray.DataArray = whole.assign_coords(map=[each.name for each in maps])
    return named


def _columns(each: "AttentionMap") -> dict[str, Any]:
    """Return the values that a map has, by columns; all columns have the same length."""
    if each.edges is not None:
        head, edge = (axis.ravel() for axis in np.indices(each.weights.shape[:2]))
        query, key = each.edges.query_index[edge], each.edges.key_index[edge]
        values = each.weights[head, edge]
    elif each.key_index is not None:
        head, query, place = np.nonzero(each.key_index >= 0)
        key, values = each.key_index[head, query, place], each.weights[head, query, place]
    else:
        head, query, key = np.nonzero(each.present())
        values = each.dense()[head, query, key]
    columns: dict[str, Any] = {"map": each.name, "head": _heads(each)[head]}
    for axis, labels, places in (("query", each.query, query), ("key", each.key, key)):
        columns |= {axis: labels.numbers[places], f"{axis}_label": np.array(labels.labels, object)[places]}
    if values.ndim == 2:
        features = values.shape[1]
        columns = {name: np.repeat(column, features) if isinstance(column, np.ndarray) else column
                   for name, column in columns.items()}  # fmt: skip
        columns["feature"] = np.tile(np.arange(features), len(values))
    return {**columns, each.quantity.removesuffix("s"): values.ravel()}


def _heads(each: "AttentionMap") -> NDArray[Any]:
    return np.array([each.head_reduction] if each.head_reduction else each.heads)
