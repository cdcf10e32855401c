"""A bundle is written whole or not at all."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from limelight_bundle.errors import BundleError
from limelight_bundle.reader import BundleFolder, read_bundle
from limelight_bundle.writer import next_version, write_bundle
from tests.bundle import small


def test_versions_follow_each_other(tmp_path: Path) -> None:
    assert next_version(tmp_path, "echo") == 1
    assert [small.write(tmp_path).path.name for _ in range(3)] == ["1", "2", "3"]
    (tmp_path / "echo" / "notes").mkdir()
    (tmp_path / "echo" / "010").mkdir()
    assert next_version(tmp_path, "echo") == 4
    folder = write_bundle(tmp_path, small.bundle(), small.files(), version=12)
    assert folder.bundle.description.version == 12
    assert next_version(tmp_path, "echo") == 13


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    folder = small.write(tmp_path)
    assert read_bundle(folder.path).bundle == folder.bundle
    assert {each.path for each in folder.bundle.files} == set(small.files())
    assert folder.bundle.schema_version == 1


def test_a_version_is_never_overwritten(tmp_path: Path) -> None:
    before = small.write(tmp_path).digest
    with pytest.raises(BundleError, match="echo/1 exists already"):
        write_bundle(tmp_path, small.bundle(), small.files(), version=1)
    assert read_bundle(tmp_path / "echo" / "1").digest == before


@pytest.mark.parametrize("name", ["", "Echo", "../echo", "a b", ".hidden", "x" * 65, "echo/1", "écho"])
def test_a_name_that_is_not_allowed(tmp_path: Path, name: str) -> None:
    with pytest.raises(BundleError, match="is not a model name"):
        write_bundle(tmp_path / "repository", small.bundle(name), small.files())
    assert not (tmp_path / "repository").exists()


def test_nothing_is_left_of_a_bundle_that_a_reader_would_refuse(tmp_path: Path) -> None:
    files = small.files()
    del files["samples.npz"]
    with pytest.raises(BundleError, match=r"has no samples\.npz"):
        write_bundle(tmp_path, small.bundle(), files)
    with pytest.raises(BundleError, match="is not a plain file name"):
        write_bundle(tmp_path, small.bundle(), {**small.files(), "../escaped": b""})
    with pytest.raises(FileNotFoundError):
        write_bundle(tmp_path, small.bundle(), {**small.files(), "weights": tmp_path / "missing"})
    assert list(tmp_path.iterdir()) == []


def test_files_in_folders_and_files_to_copy(tmp_path: Path) -> None:
    (tmp_path / "labels").write_bytes(b"a\nb\n")
    folder = write_bundle(tmp_path / "r", small.bundle(), {**small.files(), "more/labels.txt": tmp_path / "labels"})
    assert folder.file("more/labels.txt").read_bytes() == b"a\nb\n"


def test_many_writers_at_once_never_share_a_version(tmp_path: Path) -> None:
    def write(_: int) -> BundleFolder | None:
        try:
            return small.write(tmp_path)
        except BundleError as error:
            assert "exists already" in error.message
            return None

    with ThreadPoolExecutor(4) as pool:
        written = [each for each in pool.map(write, range(8)) if each]
    assert len({each.path for each in written}) == len(written) >= 1
    assert {path.name for path in (tmp_path / "echo").iterdir()} == {each.path.name for each in written}
    assert [path.name for path in tmp_path.iterdir()] == ["echo"]
