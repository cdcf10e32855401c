"""Every attention without a matrix, small, for `test_effective`: a line each."""

from collections.abc import Callable, Mapping
from typing import Any

from limelight_models.attention.controls import EqualSums
from limelight_models.attention.effective.core import Effective
from limelight_models.zoo.long.linear_transformer import LinearAttention
from limelight_models.zoo.long.linformer import LinformerAttention
from limelight_models.zoo.long.nystromformer import NystromAttention
from limelight_models.zoo.long.skyformer import SkyAttention
from limelight_models.zoo.long.soft import SoftAttention

D = 6  # features of a head
HEADS = 2

# Makes one; a chunk of 4 lets short sequences have several.
CASES: Mapping[str, Callable[[], Effective[Any]]] = {
    "equal": lambda: EqualSums(LinearAttention()),
    "linear": LinearAttention,
    "linear, causal": lambda: LinearAttention(causal=True, chunk=4),
    "linformer": lambda: LinformerAttention(places=40, k=4),
    "linformer, shared": lambda: LinformerAttention(places=40, k=4, shared=True),
    "nystrom": lambda: NystromAttention(heads=HEADS, landmarks=5),
    "nystrom, convolved": lambda: NystromAttention(heads=HEADS, landmarks=5, kernel=3),
    "sky": lambda: SkyAttention(landmarks=6),
    "soft": lambda: SoftAttention(landmarks=5),
}
