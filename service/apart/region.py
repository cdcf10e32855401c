"""Memory that two processes share, for what is too large to be written to a socket piece by piece."""

import ctypes
import mmap
import os
from bisect import insort
from contextlib import suppress

SIZE = 512 * 2**20  # addresses, and not memory
_PAGE = mmap.PAGESIZE

# Python's own way to make bytes that are filled afterwards, by whoever has made them and before anybody else has them.
_new_bytes = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t)(
    ("PyBytes_FromStringAndSize", ctypes.pythonapi)
)
_address_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object)(("PyBytes_AsString", ctypes.pythonapi))


class Region:
    """A piece of memory that one process writes to and the other reads from; the writer says what is where.

    Only what has been written to takes memory, until `trim`.
    """

    def __init__(self, descriptor: int) -> None:
        """Map it. descriptor: of `create`; it may be closed afterwards."""
        self._size = os.fstat(descriptor).st_size
        self._memory = mmap.mmap(descriptor, self._size)
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._used: list[tuple[int, int]] = []  # where each piece begins and ends, in order
        self._touched = 0

    @staticmethod
    def create(size: int) -> int | None:
        """Make one; gives its descriptor, None where this system has none."""
        if not hasattr(os, "memfd_create"):
            return None
        descriptor = os.memfd_create("limelight", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, size)
        return descriptor

    def put(self, data: bytes) -> int | None:
        """Write something where there is room; gives where, None where there is none. Other threads go on meanwhile."""
        place, need = 0, -(-len(data) // _PAGE) * _PAGE
        for begin, end in self._used:
            if begin - place >= need:
                break
            place = end
        if place + need > self._size:
            return None
        insort(self._used, (place, place + need))
        self._touched = max(self._touched, place + need)
        ctypes.memmove(self._address + place, data, len(data))
        return place

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
        self._used = [each for each in self._used if each[0] != place]

    def trim(self) -> None:
        """Give back the memory of what was written, where nothing waits to be read."""
        if self._touched and not self._used:
            with suppress(OSError):  # a system that cannot
                self._memory.madvise(mmap.MADV_REMOVE, 0, self._touched)
            self._touched = 0
