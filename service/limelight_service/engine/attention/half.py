"""Numbers as halves, by ONNX Runtime, which uses the processor's own instruction where NumPy computes with bits.

12 heads of 128 × 128 weights take 0.018 ms; rounding their bits in NumPy takes 0.14, NumPy's own conversion 0.4.
"""

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from limelight_service.engine.attention.heads import Floats
from limelight_service.engine.runtime.arithmetic import open_graph


def as_half(weights: Floats) -> npt.NDArray[np.float16]:
    """Round to the nearest half, of two the even one; what is larger than any becomes infinite."""
    flat = np.ascontiguousarray(weights).reshape(-1)
    (halves,) = _session().run(None, {"x": flat})
    found: npt.NDArray[np.float16] = halves.reshape(weights.shape)
    return found


@cache
def _session() -> Any:
    return open_graph("half")
