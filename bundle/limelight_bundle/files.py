"""Files of a bundle on disk: regular files, hashed, and unchanged afterwards."""

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from limelight_bundle.errors import BundleError
from limelight_bundle.names import check_file_name
from limelight_bundle.v1 import bundle_pb2

# Identity and change times of a file: device, inode, size, mtime and ctime in nanoseconds.
Stamp = tuple[int, int, int, int, int]


def plain_file(folder: Path, name: str) -> Path:
    """Return the path of a regular file that is not a link.

    Raises:
        BundleError: the file is missing, or a link.
    """
    path = folder
    for part in name.split("/"):
        path = path / part
        if path.is_symlink():
            raise BundleError(f"{name} is a symbolic link, which a bundle must not contain")
    if not path.is_file():
        raise BundleError(f"{name} is missing")
    return path


def read_stamped(folder: Path, name: str, max_bytes: int) -> tuple[bytes, Stamp]:
    """Read a whole file, and return its content and stamp.

    Raises:
        BundleError: the file has more than `max_bytes` bytes.
    """
    with plain_file(folder, name).open("rb") as opened:
        stamp = stamp_of(os.fstat(opened.fileno()))
        data = opened.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise BundleError(f"{name} is larger than {max_bytes} bytes")
    return data, stamp


def check_sizes(folder: Path, files: Iterable[bundle_pb2.File], largest: int | None) -> None:
    """Check names and sizes before anything is read: a sparse file can have any size.

    Args:
        largest: maximum total size in bytes; None for no limit.
    Raises:
        BundleError: a name is invalid, or the total is too large.
    """
    total = 0
    for file in files:
        check_file_name(file.path)
        total += plain_file(folder, file.path).stat().st_size
    if largest is not None and total > largest:
        raise BundleError(f"its files have {total} bytes, more than this server's limit of {largest}")


def check_hashes(folder: Path, files: Iterable[bundle_pb2.File]) -> dict[str, Stamp]:
    """Hash every file, and return the stamp of each at the time.

    Raises:
        BundleError: a file differs from the bundle's SHA-256.
    """
    stamps = {}
    for file in files:
        with plain_file(folder, file.path).open("rb") as opened:
            stamps[file.path] = stamp_of(os.fstat(opened.fileno()))
            found = hashlib.file_digest(opened, "sha256").hexdigest()
        if found != file.sha256:
            raise BundleError(f"{file.path} is not the exported file: its SHA-256 differs")
    return stamps


def check_stamps(folder: Path, stamps: Mapping[str, Stamp]) -> None:
    """Check that files have not changed.

    Raises:
        BundleError: a file was written, replaced or removed.
    """
    for name, stamp in stamps.items():
        try:
            found = stamp_of(os.stat(folder / name, follow_symlinks=False))
        except OSError:
            found = None
        if found != stamp:
            raise BundleError(
                f"{name} changed while the bundle was loaded; write it elsewhere, then move it into the repository"
            )


def stamp_of(status: os.stat_result) -> Stamp:
    """Return the fields of a file's status that change with the file."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
