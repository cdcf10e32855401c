"""Samples of a bundle: PyTorch's answers to its examples, for the server's self-test."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from limelight_bundle.errors import BundleError
from limelight_bundle.maps import MapWeights
from limelight_bundle.names import SAMPLES_FILE
from limelight_bundle.reader import BundleFolder
from limelight_bundle.values import Array

_MAX_UNPACKED_BYTES = 2**30


@dataclass(frozen=True)
class Sample:
    """The answer to one example, as callers get it: without batch axis or padding.

    Attributes:
        tensors: exact result of preprocessing.
        maps: by `limelight_bundle.maps.map_key`.
        token_ids: greedy output of a generating model; empty for others.
    """

    tensors: Mapping[str, Array]
    outputs: Mapping[str, Array]
    maps: Mapping[str, MapWeights]
    token_ids: tuple[int, ...] = field(default=())


def samples_file(samples: Sequence[Sample]) -> bytes:
    """Encode samples as an .npz archive."""
    arrays: dict[str, Array] = {"count": np.array(len(samples))}
    for number, sample in enumerate(samples):
        for group, content in (("tensors", sample.tensors), ("outputs", sample.outputs)):
            arrays |= {f"{number}/{group}/{name}": array for name, array in content.items()}
        for name, weights in sample.maps.items():
            arrays[f"{number}/maps/{name}"] = weights.weights
            if weights.query_index is not None and weights.key_index is not None:
                arrays[f"{number}/query_index/{name}"] = weights.query_index
                arrays[f"{number}/key_index/{name}"] = weights.key_index
        arrays[f"{number}/token_ids"] = np.array(sample.token_ids, dtype=np.int32)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def read_samples(folder: BundleFolder) -> list[Sample]:
    """Read the samples of a bundle, one for each example, in order.

    Raises:
        BundleError: the archive is invalid or too large, or has another number of samples.
    """
    try:
        with np.load(folder.file(SAMPLES_FILE), allow_pickle=False) as archive:
            size = sum(each.file_size for each in archive.zip.infolist())
            if size > _MAX_UNPACKED_BYTES:
                raise BundleError(
                    f"{SAMPLES_FILE} unpacks to {size} bytes, more than the limit of {_MAX_UNPACKED_BYTES}"
                )
            groups: dict[str, dict[str, Array]] = {}
            for path in archive.files:
                number, _, rest = path.partition("/")
                group, _, name = rest.partition("/")
                groups.setdefault(f"{number}/{group}", {})[name] = archive[path]
        count = int(groups["count/"][""])
        if count != len(folder.bundle.description.examples):
            raise BundleError(f"{SAMPLES_FILE} has {count} samples, not one for each example")
        return [_sample(groups, number) for number in range(count)]
    except (BundleError, MemoryError):
        raise
    except Exception as error:  # zip, zlib and NumPy raise different types
        raise BundleError(f"{SAMPLES_FILE} is invalid") from error


def _sample(groups: Mapping[str, Mapping[str, Array]], number: int) -> Sample:
    def group(name: str) -> Mapping[str, Array]:
        return groups.get(f"{number}/{name}", {})

    queries, keys = group("query_index"), group("key_index")
    maps = {name: MapWeights(array, queries.get(name), keys.get(name)) for name, array in group("maps").items()}
    token_ids = tuple(int(token) for token in groups[f"{number}/token_ids"][""])
    return Sample(group("tensors"), group("outputs"), maps, token_ids)
