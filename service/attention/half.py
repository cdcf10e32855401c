"""Numbers as halves, by ONNX Runtime, which uses the processor's own instruction where NumPy computes with bits.

12 heads of 128 × 128 weights take 0.018 ms; rounding their bits in NumPy takes 0.14, NumPy's own conversion 0.4.
"""

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from service.arithmetic import open_graph
from service.attention.heads import Floats

# An ONNX model, half(float[n] x) => (float16[n] y) { y = Cast<to = 10>(x) } of IR version 8 and operator set 20.
GRAPH = (
    b'\x08\x08:E\n\x19\n\x01x\x12\x01y"\x04Cast*\t\n\x02to\x18\n\xa0\x01\x02:\x00\x12\x04half'
    b"Z\x10\n\x01x\x12\x0b\n\t\x08\x01\x12\x05\n\x03\x12\x01n"
    b"b\x10\n\x01y\x12\x0b\n\t\x08\n\x12\x05\n\x03\x12\x01nB\x04\n\x00\x10\x14"
)


def as_half(weights: Floats) -> npt.NDArray[np.float16]:
    """Round to the nearest half, of two the even one; what is larger than any becomes infinite."""
    flat = np.ascontiguousarray(weights).reshape(-1)
    (halves,) = _session().run(None, {"x": flat})
    found: npt.NDArray[np.float16] = halves.reshape(weights.shape)
    return found


@cache
def _session() -> Any:
    return open_graph(GRAPH)
