"""Large arrays between processes: written to a memory file once, and mapped by the receiver without another copy.

The file has no name, and the kernel frees it with its last descriptor and mapping: nothing is left of a process that
was killed. It is sealed: nobody can change or shrink it under its reader, whom that would end.
"""

import fcntl
import logging
import mmap
import os
from functools import cache

import numpy as np

from limelight_bundle.values import Array

logger = logging.getLogger(__name__)

_ALIGNMENT = 64
_SEALS = (fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_WRITE) if hasattr(fcntl, "F_SEAL_WRITE") else 0


class SharedArrays:
    """Arrays on their way into one memory file. size: bytes so far."""

    def __init__(self) -> None:
        self._arrays: list[Array] = []
        self.size = 0

    def add(self, data: Array) -> int:
        """Take in an array; gives where its bytes begin in the file."""
        place = self.size
        self._arrays.append(np.ascontiguousarray(data))
        self.size += -(-data.nbytes // _ALIGNMENT) * _ALIGNMENT
        return place

    def write(self) -> int | None:
        """Write the file; gives its descriptor, or None where this process may have none."""
        if not hasattr(os, "memfd_create"):
            return _unavailable("this system has no memfd_create")
        try:
            descriptor = os.memfd_create("limelight", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        except OSError as error:
            return _unavailable(f"memfd_create: {error.strerror}")
        try:
            place = 0
            for each in self._arrays:
                _write(descriptor, each.reshape(-1).view(np.uint8).data, place)
                place += -(-each.nbytes // _ALIGNMENT) * _ALIGNMENT
            os.ftruncate(descriptor, self.size)
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
        except OSError as error:
            os.close(descriptor)
            return _unavailable(f"{self.size} bytes: {error.strerror}")
        return descriptor


def mapped(descriptor: int) -> mmap.mmap:
    """Map a memory file for reading. It is unmapped with the last array that views it.

    Raises: OSError or ValueError where it is empty, not sealed, or no memory file.
    """
    if fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & _SEALS != _SEALS:
        raise ValueError("the file is not sealed")
    return mmap.mmap(descriptor, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)


def _write(descriptor: int, data: bytes | memoryview, place: int) -> None:
    view = memoryview(data)
    while len(view):
        written = os.pwrite(descriptor, view, place)
        view, place = view[written:], place + written


@cache
def _unavailable(reason: str) -> None:
    """Log once for each reason that large arrays travel through the socket."""
    logger.warning("large answers go through a socket, since processes cannot share memory: %s", reason)
