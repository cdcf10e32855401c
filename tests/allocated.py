"""Bytes that the GNU C library has given out in this process; it alone knows them."""

import ctypes
import platform

IS_KNOWN = platform.libc_ver()[0] == "glibc"


class Allocated(ctypes.Structure):
    """`struct mallinfo2`. uordblks: bytes in use. hblks: blocks that are memory of their own."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
    ]


def allocated() -> Allocated:
    """Ask the library."""
    ask = ctypes.CDLL(None).mallinfo2
    ask.restype = Allocated
    found: Allocated = ask()
    return found
