"""Rows (instances as tensors), batches of rows, and labels of their axes."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from limelight.v1 import attention_pb2, model_pb2
from limelight_bundle.errors import BundleError
from limelight_bundle.v1 import bundle_pb2
from limelight_bundle.values import Array


@dataclass(frozen=True)
class Labels:
    """Labels of the entries along an axis, for one instance, as columns (see `LabelSet` of attention.proto).

    kind: a value of `LabelKind`.

    A column has one value for each entry, or is empty. Columns replace one object for each token, whose construction
    was most of the time of preprocessing a text.
    """

    name: str
    kind: int
    size: int
    texts: Sequence[str] = ()
    starts: Sequence[int] = ()
    ends: Sequence[int] = ()
    ids: Sequence[int] = ()
    special: Sequence[bool] = ()
    parents: Sequence[int] = ()
    parent: str = ""
    inputs: tuple[str, ...] = ()
    input_indices: Sequence[int] = ()
    grid: attention_pb2.Grid | None = None
    words: Sequence[int] = ()


@dataclass(frozen=True)
class Row:
    """One instance, ready for a batch.

    Attributes:
        tensors: by name, without batch axis, masks included (bool, True at real values).
        sizes: size of every named dimension; a batch is padded to the largest.
        labels: every label set that the inputs determine.
        tokens: labels of the tokens of each tensor of ids, whether or not a label set of the model counts them.
    """

    tensors: Mapping[str, Array]
    sizes: Mapping[str, int]
    labels: Mapping[str, Labels] = field(default_factory=dict)
    truncated: bool = False
    tokens: Mapping[str, Labels] = field(default_factory=dict)


@dataclass(frozen=True)
class BoundTensor:
    """A tensor of one instance, and its batching (`TensorBinding` of bundle.proto).

    Attributes:
        joined: concatenated along the first axis without padding; otherwise padded with `pad_value` and stacked.
        pad_value: value after an instance's own entries in a batch. Shorter rows within an instance end in the
            description's `fill`, which is the same number.
        mask: name of the tensor that is true at real values; empty for none.
        indexes: for a joined tensor of indices, the joined dimension that they index.
        instance_index: for a joined tensor, name of the tensor with each entry's instance; empty for none.
    """

    description: model_pb2.TensorDescription
    joined: bool = False
    pad_value: float = 0.0
    mask: str = ""
    indexes: str = ""
    instance_index: str = ""

    @property
    def name(self) -> str:
        """Name of the tensor."""
        return self.description.name

    @property
    def derived(self) -> tuple[str, ...]:
        """Names of the tensors derived from it in a batch."""
        return tuple(filter(None, (self.mask, self.instance_index)))


def tensor_descriptions(inputs: Sequence[model_pb2.InputDescription]) -> Iterator[model_pb2.TensorDescription]:
    """Yield every tensor of the inputs, in order."""
    for description in inputs:
        yield from description.tensors


def bound_tensors(
    inputs: Sequence[model_pb2.InputDescription], bindings: Iterable[bundle_pb2.TensorBinding]
) -> dict[str, BoundTensor]:
    """Return every tensor of the inputs with its binding, by name, in order.

    Raises:
        BundleError: a binding has no tensor, or is inconsistent.
    """
    tensors = {each.name: BoundTensor(each) for each in tensor_descriptions(inputs)}
    for binding in bindings:
        if binding.tensor not in tensors:
            raise BundleError(f"a binding refers to the tensor {binding.tensor!r}, which no input has")
        tensors[binding.tensor] = _bound(tensors[binding.tensor].description, binding)
    dimensions = joined_dimensions(tensors.values())
    for each in tensors.values():
        _check_fill(each)
        if each.indexes and each.indexes not in dimensions:
            raise BundleError(f"the tensor {each.name!r} indexes {each.indexes!r}, along which nothing is joined")
    return tensors


def joined_dimensions(tensors: Iterable[BoundTensor]) -> frozenset[str]:
    """Return the dimensions along which instances are joined."""
    return frozenset(each.description.dimensions[0].name for each in tensors if each.joined)


def _bound(description: model_pb2.TensorDescription, binding: bundle_pb2.TensorBinding) -> BoundTensor:
    joined = binding.collation == bundle_pb2.COLLATION_JOIN
    if joined and (binding.mask or not description.dimensions or description.dimensions[0].size):
        raise BundleError(
            f"the tensor {description.name!r} is joined, so its first axis must vary, and it must not have a mask"
        )
    if not joined and (binding.indexes or binding.instance_index):
        raise BundleError(f"the tensor {description.name!r} is stacked, so it cannot index a joined dimension")
    return BoundTensor(description, joined, binding.pad_value, binding.mask, binding.indexes, binding.instance_index)


def _check_fill(tensor: BoundTensor) -> None:
    """Check that fill and pad value are equal, since a batch does not distinguish them.

    The fill ends shorter rows of an instance; the pad value ends whole instances of a batch.
    """
    description = tensor.description
    if not description.HasField("fill"):
        return
    if len(description.dimensions) < 2 or tensor.joined:
        raise BundleError(f"the tensor {tensor.name!r} has a fill, but no rows that differ in length")
    if tensor.pad_value != description.fill:
        raise BundleError(
            f"the tensor {tensor.name!r} is filled with {description.fill:g}, but padded with {tensor.pad_value:g}"
        )


def collate(rows: Sequence[Row], tensors: Iterable[BoundTensor]) -> dict[str, Array]:
    """Collate rows into a batch: stacked tensors and their masks get a batch axis, joined ones do not.

    A tensor that no row has (an optional input) is omitted. Padding is the `pad_value`, and False in masks. Indices of
    a joined tensor are shifted by the entries of earlier rows.
    """
    batch: dict[str, Array] = {}
    for each in tensors:
        if each.name not in rows[0].tensors:
            continue
        arrays = [row.tensors[each.name] for row in rows]
        if each.joined:
            batch[each.name] = _join(arrays, offsets(rows, each.indexes) if each.indexes else None)
            if each.instance_index:
                counts = [len(array) for array in arrays]
                batch[each.instance_index] = np.repeat(np.arange(len(rows), dtype=np.int64), counts)
            continue
        batch[each.name] = _stack(arrays, each.pad_value)
        if each.mask:
            batch[each.mask] = _stack([row.tensors[each.mask] for row in rows], 0)
    return batch


def offsets(rows: Sequence[Row], dimension: str) -> list[int]:
    """Return the start of each row's entries of a joined dimension, and the end of the last row."""
    found = [0]
    for row in rows:
        found.append(found[-1] + row.sizes[dimension])
    return found


def _join(arrays: Sequence[Array], shifts: Sequence[int] | None) -> Array:
    if len(arrays) == 1:
        return arrays[0]
    if shifts is None:
        return np.concatenate(arrays)
    return np.concatenate([array + array.dtype.type(shift) for array, shift in zip(arrays, shifts, strict=False)])


def _stack(arrays: Sequence[Array], pad_value: float) -> Array:
    shape = tuple(max(sizes) for sizes in zip(*(array.shape for array in arrays), strict=True))
    if all(array.shape == shape for array in arrays):
        return np.stack(arrays)
    stacked = np.full((len(arrays), *shape), pad_value, dtype=arrays[0].dtype)
    for place, array in zip(stacked, arrays, strict=True):
        place[tuple(slice(size) for size in array.shape)] = array
    return stacked


def cut_output(array: Array, dimensions: Sequence[model_pb2.Dimension], sizes: Mapping[str, int]) -> Array:
    """Cut one row's raw output: axes that vary have the size of the input axis of that name."""
    return array[tuple(slice(None if each.size else sizes.get(each.name)) for each in dimensions)]


def cut_outputs(
    array: Array, dimensions: Sequence[model_pb2.Dimension], rows: Sequence[Row], joined: Collection[str]
) -> list[Array]:
    """Split a batch's raw output into rows, each cut to its own sizes.

    Args:
        joined: dimensions along which rows are joined; an output whose first axis is one of them has no batch axis.
    """
    if not dimensions or dimensions[0].name not in joined:
        return [cut_output(array[place], dimensions, row.sizes) for place, row in enumerate(rows)]
    ends = offsets(rows, dimensions[0].name)
    return [cut_output(array[begin:], dimensions, row.sizes) for begin, row in zip(ends, rows, strict=False)]
