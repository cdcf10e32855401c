"""What PyTorch answered to a bundle's examples, kept beside it so that a server can check itself."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from bundle.errors import BundleError
from bundle.maps import MapWeights
from bundle.names import SAMPLES_FILE
from bundle.reader import BundleFolder
from bundle.values import Array

_MAX_UNPACKED_BYTES = 2**30


@dataclass(frozen=True)
class Sample:
    """The answer to one example, in the form that a caller gets: no batch axis, no padding.

    tensors: what preprocessing must turn the example into, bit for bit.
    maps: by name; another quantity than weights by `bundle.maps.map_key`.
    token_ids: what a generating model puts out greedily; empty for any other.
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
    """Read the samples of a bundle, one for each of its examples, in order.

    Raises: BundleError where the archive is broken, too large, or has another number of samples.
    """
    try:
        with np.load(folder.file(SAMPLES_FILE), allow_pickle=False) as archive:
            size = sum(each.file_size for each in archive.zip.infolist())
            if size > _MAX_UNPACKED_BYTES:
                raise BundleError(
                    f"{SAMPLES_FILE} unpacks to {size} bytes, more than the {_MAX_UNPACKED_BYTES} that it may have"
                )
            arrays = {name: archive[name] for name in archive.files}
        samples = [_sample(arrays, number) for number in range(int(arrays["count"]))]
    except (BundleError, MemoryError):
        raise
    except Exception as error:  # whatever the archive's layers raise: zip, zlib, NumPy's header
        raise BundleError(f"{SAMPLES_FILE} is broken") from error
    if len(samples) != len(folder.bundle.description.examples):
        raise BundleError(f"{SAMPLES_FILE} has {len(samples)} samples, not one for each example")
    return samples


def _sample(arrays: Mapping[str, Array], number: int) -> Sample:
    def group(name: str) -> dict[str, Array]:
        prefix = f"{number}/{name}/"
        return {key.removeprefix(prefix): array for key, array in arrays.items() if key.startswith(prefix)}

    queries, keys = group("query_index"), group("key_index")
    maps = {name: MapWeights(array, queries.get(name), keys.get(name)) for name, array in group("maps").items()}
    token_ids = tuple(int(token) for token in arrays[f"{number}/token_ids"])
    return Sample(group("tensors"), group("outputs"), maps, token_ids)
