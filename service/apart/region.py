"""Memory that two processes share, for what is too large to be written to a socket piece by piece."""

import ctypes
import logging
import mmap
import os
import resource
from bisect import insort
from contextlib import suppress
from functools import cache
from threading import RLock

logger = logging.getLogger(__name__)

SIZE = 512 * 2**20  # addresses, and not memory
_SMALLEST = 16 * 2**20  # below which it would hold too few answers to be worth it
_PAGE = mmap.PAGESIZE

# Python's own way to make bytes that are filled afterwards, by whoever has made them and before anybody else has them.
_new_bytes = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t)(
    ("PyBytes_FromStringAndSize", ctypes.pythonapi)
)
_address_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object)(("PyBytes_AsString", ctypes.pythonapi))


class Region:
    """A piece of memory that one process writes to and the other reads from; the writer says what is where.

    Only what has been written to takes memory, until `trim`. Thread-safe.
    """

    def __init__(self, descriptor: int) -> None:
        """Map it. descriptor: of `create`; it may be closed afterwards."""
        self._size = os.fstat(descriptor).st_size
        self._memory = mmap.mmap(descriptor, self._size)
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._lock = RLock()  # a piece may go, and be freed, in the midst of anything
        self._used: list[tuple[int, int]] = []  # where each piece begins and ends, in order
        self._touched = 0

    @staticmethod
    def create(size: int) -> int | None:
        """Make one, smaller where files may not be as large; gives its descriptor, None where this process may have
        none: on an old kernel, under a filter of system calls, or where files may hardly have a size.
        """
        most = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
        if most != resource.RLIM_INFINITY and most < size:
            if most < _SMALLEST:
                return _none(f"files may have {most} bytes at most")
            size = most // _PAGE * _PAGE
        if not hasattr(os, "memfd_create"):
            return _none("this system has no memfd_create")
        try:
            descriptor = os.memfd_create("limelight", os.MFD_CLOEXEC)
        except OSError as error:
            return _none(f"memfd_create: {error.strerror}")
        try:
            os.ftruncate(descriptor, size)
        except OSError as error:
            os.close(descriptor)
            return _none(f"{size} bytes: {error.strerror}")
        return descriptor

    @property
    def is_touched(self) -> bool:
        """True where it has been written to since it was trimmed."""
        return self._touched > 0

    def take(self, size: int) -> "Piece | None":
        """Take a place for so many bytes, where there is room."""
        with self._lock:
            place, need = 0, -(-size // _PAGE) * _PAGE
            for begin, end in self._used:
                if begin - place >= need:
                    break
                place = end
            if place + need > self._size:
                return None
            insort(self._used, (place, place + need))
            self._touched = max(self._touched, place + need)
        return Piece(self, memoryview(self._memory)[place : place + size], place)

    def put(self, data: bytes) -> "Piece | None":
        """Write something where there is room. Other threads go on meanwhile."""
        piece = self.take(len(data))
        if piece is not None:
            ctypes.memmove(self._address + piece.place, data, len(data))
        return piece

    def get(self, place: int, size: int) -> bytes:
        """Read what the other process has written. Other threads go on meanwhile.

        Raises: ValueError for what is not within it.
        """
        if not 0 <= place <= place + size <= self._size:
            raise ValueError(f"{size} bytes at {place} are not within {self._size}")
        data: bytes = _new_bytes(None, size)
        ctypes.memmove(_address_of(data), self._address + place, size)
        return data

    def free(self, place: int) -> None:
        """Forget what is at a place: it has been read."""
        with self._lock:
            self._used = [each for each in self._used if each[0] != place]

    def trim(self) -> None:
        """Give back the memory of what was written, where nothing waits to be read."""
        with self._lock:
            if self._touched and not self._used:
                with suppress(OSError):  # a system that cannot
                    self._memory.madvise(mmap.MADV_REMOVE, 0, self._touched)
                self._touched = 0


@cache
def _none(reason: str) -> None:
    """Say, once for each reason, that there is no shared memory."""
    logger.warning("large answers go through a socket, since there is no memory to share: %s", reason)


class Piece:
    """A part of a region, from when it is taken until it is free again: once nobody has this any more, or once the
    reader says so of one that was handed on. view: its bytes, to be written. place: where the reader finds it.
    """

    def __init__(self, region: Region, view: memoryview, place: int) -> None:
        self._region: Region | None = region
        self.view = view
        self.place = place

    def __len__(self) -> int:
        return len(self.view)

    def hand_on(self) -> int:
        """Leave it to the reader; gives its place."""
        self._region = None
        return self.place

    def __del__(self) -> None:
        if self._region is not None:
            self._region.free(self.place)
