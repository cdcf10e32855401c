"""The files of a bundle as they lie on a disk: plain ones, hashed, and the same afterwards."""

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from bundle.errors import BundleError
from bundle.names import check_file_name
from bundle.v1 import bundle_pb2

# Which file it is, and when it was last written: device, inode, size, times of the last change to it and of it (ns).
Stamp = tuple[int, int, int, int, int]


def plain_file(folder: Path, name: str) -> Path:
    """Give the path of a file that is one itself, and no link to another.

    Raises: BundleError.
    """
    path = folder
    for part in name.split("/"):
        path = path / part
        if path.is_symlink():
            raise BundleError(f"{name} is a symbolic link, which a bundle may not hold")
    if not path.is_file():
        raise BundleError(f"{name} is missing")
    return path


def read_stamped(folder: Path, name: str, max_bytes: int) -> tuple[bytes, Stamp]:
    """Read a file whole.

    Raises: BundleError where it has more than `max_bytes` bytes.
    """
    with plain_file(folder, name).open("rb") as opened:
        stamp = stamp_of(os.fstat(opened.fileno()))
        data = opened.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise BundleError(f"{name} is larger than {max_bytes} bytes")
    return data, stamp


def check_sizes(folder: Path, files: Iterable[bundle_pb2.File], largest: int | None) -> None:
    """Check names and sizes before anything is read: a file without content can be as large as anybody says.

    largest: bytes that all of them may have together; None for any number.
    Raises: BundleError.
    """
    total = 0
    for file in files:
        check_file_name(file.path)
        total += plain_file(folder, file.path).stat().st_size
    if largest is not None and total > largest:
        raise BundleError(f"its files have {total} bytes, more than the {largest} that a bundle may have here")


def check_hashes(folder: Path, files: Iterable[bundle_pb2.File]) -> dict[str, Stamp]:
    """Hash every file; gives what each was while it was read.

    Raises: BundleError where one is not the file that the bundle states.
    """
    stamps = {}
    for file in files:
        with plain_file(folder, file.path).open("rb") as opened:
            stamps[file.path] = stamp_of(os.fstat(opened.fileno()))
            found = hashlib.file_digest(opened, "sha256").hexdigest()
        if found != file.sha256:
            raise BundleError(f"{file.path} is not the file that was exported: its SHA-256 differs")
    return stamps


def check_stamps(folder: Path, stamps: Mapping[str, Stamp]) -> None:
    """Check that files are those that they were.

    Raises: BundleError where one was written, replaced or removed.
    """
    for name, stamp in stamps.items():
        try:
            found = stamp_of(os.stat(folder / name, follow_symlinks=False))
        except OSError:
            found = None
        if found != stamp:
            raise BundleError(f"{name} changed while the bundle was loaded; write a version first, then move it in")


def stamp_of(status: os.stat_result) -> Stamp:
    """Take from a file's status what changes whenever it does."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
