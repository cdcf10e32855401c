"""Samples: what PyTorch answered, kept without pickles."""

import io
import pickle
from pathlib import Path

import numpy as np
import pytest

from limelight_bundle.errors import BundleError
from limelight_bundle.maps import MapWeights
from limelight_bundle.reader import read_bundle
from limelight_bundle.samples import Sample, read_samples, samples_file
from tests.bundle import small


def npz(**arrays: object) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def test_samples_come_back_as_they_were(tmp_path: Path) -> None:
    folder = small.write(tmp_path)
    edges = MapWeights(
        np.array([[0.5, 0.5, 1]], np.float32), np.array([0, 0, 1], np.int32), np.array([0, 1, 2], np.int32)
    )
    written = Sample(
        {"ids": np.array([[1, 2]]), "ids_mask": np.array([[True, False]])},
        {"scores": np.zeros((0, 3), np.float32)},
        {"encoder.0.self": MapWeights(np.eye(2, dtype=np.float32)[None]), "word": edges},
        (4, 2, 3),
    )
    small.change(folder.path, samples=samples_file([written]))
    read = read_samples(read_bundle(folder.path))[0]
    assert read.token_ids == (4, 2, 3)
    for group in ("tensors", "outputs"):
        assert getattr(read, group).keys() == getattr(written, group).keys()
        for name, array in getattr(written, group).items():
            assert getattr(read, group)[name].dtype == array.dtype
            np.testing.assert_array_equal(getattr(read, group)[name], array)
    assert read.maps["encoder.0.self"].query_index is None
    np.testing.assert_array_equal(read.maps["word"].query_index, edges.query_index)
    np.testing.assert_array_equal(read.maps["word"].key_index, edges.key_index)
    np.testing.assert_array_equal(read.maps["word"].weights, edges.weights)


class Harmful:
    """Would run code if it were unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return exec, ("raise SystemExit('unpickled')",)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PK\x03\x04 broken",
        samples_file([small.sample()])[:-30],
        samples_file([small.sample()])[:200] + bytes(50) + samples_file([small.sample()])[250:],
        npy(np.arange(3)),
        pickle.dumps(Harmful()),
        npz(count=np.array([Harmful()], dtype=object)),
        npz(**{"count": np.array(1), "0/token_ids": np.array([Harmful()], dtype=object)}),
        npz(count=np.array(1)),
        npz(count=np.array("many")),
        npz(other=np.array(1)),
    ],
    ids=["empty", "no zip", "cut", "damaged", "array", "pickle", "pickled", "inner", "fewer", "text", "no count"],
)
def test_broken_samples(tmp_path: Path, content: bytes) -> None:
    folder = small.write(tmp_path)
    small.change(folder.path, samples=content)
    with pytest.raises(BundleError, match=r"samples\.npz is invalid"):
        read_samples(read_bundle(folder.path))


@pytest.mark.parametrize("count", [0, 2])
def test_another_number_of_samples_than_of_examples(tmp_path: Path, count: int) -> None:
    folder = small.write(tmp_path)
    small.change(folder.path, samples=samples_file([small.sample()] * count))
    with pytest.raises(BundleError, match=f"has {count} samples, not one for each example"):
        read_samples(read_bundle(folder.path))
