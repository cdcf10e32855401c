"""Tells whether a run failed for want of memory: then a smaller one may not.

The runtime raises the same classes for everything, so that only its messages tell:
an arena that cannot grow  "Failed to allocate memory for requested buffer of size 14400000000" (CPU and CUDA)
an arena at its own limit  "Available memory of 1024 is smaller than requested bytes of 4096"
without an arena           "std::bad_alloc"
CUDA, cuBLAS, cuDNN        "CUDA failure 2: out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED"
"""

from limelight_service.errors import MemoryShortError

_SAID = (
    "failed to allocate memory",
    "is smaller than requested bytes",
    "bad_alloc",
    "bad allocation",
    "out of memory",
    "_status_alloc_failed",
    "cudaerrormemoryallocation",
)


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether memory ran out, in the runtime, on the device or in NumPy."""
    if isinstance(error, MemoryError | MemoryShortError):
        return True
    said = str(error).lower()
    return any(each in said for each in _SAID)


def memory_short_error() -> MemoryShortError:
    """Make the error of an instance that ran alone and was too much."""
    return MemoryShortError(
        "this instance needs more memory than the server has for it, alone as well: make it shorter, or ask for fewer "
        "maps, heads or queries at once"
    )
