"""Random rows of chosen sizes, for tracing and for comparison."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from limelight_bundle.rows import BoundTensor, Row, collate
from limelight_bundle.v1 import bundle_pb2
from limelight_bundle.values import Array, TensorValue
from limelight_bundle.wire import DTYPES
from limelight_export.interface import BATCH, input_tensors
from limelight_models.cards.card import Card

NEUTRAL_NOISE: Mapping[int, float] = {
    bundle_pb2.DISTRIBUTION_GUMBEL: 0.0,
    bundle_pb2.DISTRIBUTION_UNIFORM: 0.5,
    bundle_pb2.DISTRIBUTION_NORMAL: 0.0,
}


class RandomInputs:
    """Makes random rows of a model's input tensors: valid ids, ragged lengths, padding as a caller pads."""

    def __init__(self, card: Card, *, seed: int = 0) -> None:
        self._card = card
        self._random = np.random.default_rng(seed)
        self._preprocessor = card.preprocessor()

    def row(self, sizes: Mapping[str, int]) -> Row:
        """Make one row from tensors as a caller may send them; preprocessing adds masks and labels."""
        lengths: dict[tuple[str, ...], Array] = {}
        indices = self._indices(sizes)
        sizes = {**sizes, **{axis: len(array) for (axis, _), arrays in indices.items() for array in arrays.values()}}
        ends = {name: array for arrays in indices.values() for name, array in arrays.items()}
        instance = {
            each.name: TensorValue(ends[each.name] if each.name in ends else self._tensor(each, sizes, lengths))
            for each in input_tensors(self._card)
        }
        row = self._preprocessor.row(instance)
        noise = {each.tensor.name: self._noise(each, sizes) for each in self._card.noise}
        return Row({**row.tensors, **noise}, {**sizes, **row.sizes}, row.labels)

    def rows(self, sizes: Mapping[str, int]) -> list[Row]:
        """Make as many rows as `sizes` states for the batch."""
        return [self.row({name: size for name, size in sizes.items() if name != BATCH}) for _ in range(sizes[BATCH])]

    def integers(self, shape: tuple[int, ...], limit: int) -> Array:
        """Draw integers from 0 to `limit` - 1."""
        return self._random.integers(0, limit, shape)

    def rows_of_mixed_sizes(self, max_sizes: Mapping[str, int], count: int) -> list[Row]:
        """Make rows of different sizes; the first has the largest sizes, the last has size 1."""
        drawn = [
            {name: int(self._random.integers(1, limit + 1)) for name, limit in max_sizes.items()} for _ in range(count)
        ]
        drawn[0] = dict(max_sizes)
        drawn[-1] = dict.fromkeys(max_sizes, 1)
        return [self.row(sizes) for sizes in drawn]

    def _indices(self, sizes: Mapping[str, int]) -> dict[tuple[str, str], dict[str, Array]]:
        """Draw the ends of edges by edge axis and indexed axis, without repeating an edge."""
        groups: dict[tuple[str, str], list[str]] = {}
        for each in input_tensors(self._card):
            if each.indexes:
                groups.setdefault((each.description.dimensions[0].name, each.indexes), []).append(each.name)
        found = {}
        for (axis, indexed), names in groups.items():
            shape = (sizes[indexed],) * len(names)
            possible = sizes[indexed] ** len(names)
            drawn = self._random.choice(possible, min(sizes[axis], possible), replace=False)
            found[axis, indexed] = dict(
                zip(names, map(np.ascontiguousarray, np.unravel_index(drawn, shape)), strict=True)
            )
        return found

    def _tensor(self, tensor: BoundTensor, sizes: Mapping[str, int], lengths: dict[tuple[str, ...], Array]) -> Array:
        description = tensor.description
        names = tuple(dimension.name for dimension in description.dimensions)
        shape = tuple(dimension.size or sizes[dimension.name] for dimension in description.dimensions)
        values = self._values(tensor, shape)
        if not tensor.mask or len(shape) < 2 or description.dimensions[-1].size:
            return values
        if names not in lengths:  # tensors of the same axes share their lengths
            lengths[names] = self._random.integers(1, shape[-1] + 1, (*shape[:-1], 1))
            lengths[names].flat[0] = shape[-1]
        padding = np.arange(shape[-1]) >= lengths[names]
        return np.where(padding, np.asarray(tensor.pad_value, values.dtype), values)

    def _values(self, tensor: BoundTensor, shape: tuple[int, ...]) -> Array:
        description = tensor.description
        dtype = DTYPES[description.data_type]
        if np.issubdtype(dtype, np.floating):
            return self._random.standard_normal(shape).astype(dtype)
        if dtype == np.bool_:
            return self._random.random(shape) < 0.5
        least, limit = description.minimum, description.maximum
        if (least, limit) == (0, 0):
            limit = 1
        # A padded tensor must not hold the padding value as data.
        possible = [
            value
            for value in range(least, min(limit, least + 4096) + 1)
            if not tensor.mask or value != tensor.pad_value
        ]
        return self._random.choice(np.array(possible, dtype), shape)

    def _noise(self, noise: bundle_pb2.NoiseInput, sizes: Mapping[str, int]) -> Array:
        shape = tuple(dimension.size or sizes[dimension.name] for dimension in noise.tensor.dimensions)
        dtype = DTYPES[noise.tensor.data_type]
        if noise.distribution == bundle_pb2.DISTRIBUTION_GUMBEL:
            return self._random.gumbel(size=shape).astype(dtype)
        if noise.distribution == bundle_pb2.DISTRIBUTION_UNIFORM:
            return self._random.random(shape).astype(dtype)
        return self._random.standard_normal(shape).astype(dtype)


def neutral_noise(card: Card, sizes: Mapping[str, int]) -> dict[str, Array]:
    """Return the noise that a server uses for one row when the caller gives no seed."""
    return {
        each.tensor.name: np.full(
            tuple(dimension.size or sizes[dimension.name] for dimension in each.tensor.dimensions),
            NEUTRAL_NOISE[each.distribution],
            DTYPES[each.tensor.data_type],
        )
        for each in card.noise
    }


def collate_rows(card: Card, rows: Sequence[Row]) -> dict[str, Array]:
    """Pad and stack rows into a batch as the server does: tensors, masks and noise."""
    return collate(rows, [*input_tensors(card), *(BoundTensor(noise.tensor) for noise in card.noise)])


def batch_sizes(rows: Sequence[Row], joined: Collection[str] = ()) -> dict[str, int]:
    """Return the sizes of a batch of rows: the largest of each axis, or the sum of an axis in `joined`."""
    names = {name for row in rows for name in row.sizes}
    sizes = {name: [row.sizes[name] for row in rows] for name in names}
    return {BATCH: len(rows), **{name: sum(each) if name in joined else max(each) for name, each in sizes.items()}}
