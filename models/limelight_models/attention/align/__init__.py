"""Alignments, row C of the catalogue (BF: alignment, G and C: distribution function)."""

from limelight_models.attention.align.constrained import ConstrainedSoftmax, ConstrainedSparsemax
from limelight_models.attention.align.distance import DistanceAware
from limelight_models.attention.align.entmax import Entmax, Entmax15
from limelight_models.attention.align.grid import GaussianGrid
from limelight_models.attention.align.hard import Hard
from limelight_models.attention.align.kernel import KernelRatio, KernelWeights
from limelight_models.attention.align.local import LocalMonotonic, LocalPredictive
from limelight_models.attention.align.monotonic import HardMonotonic, MonotonicChunkwise
from limelight_models.attention.align.positional import PositionalMask
from limelight_models.attention.align.reinforced import Reinforced, Selector
from limelight_models.attention.align.signed import DeAttention, Tanh
from limelight_models.attention.align.soft import Sigmoid, Softmax
from limelight_models.attention.align.span import AdaptiveSpan
from limelight_models.attention.align.sparse import Sparsemax
from limelight_models.attention.align.temperature import SelfAdaptiveTemperature
from limelight_models.attention.alignment import Align

__all__ = [
    "AdaptiveSpan",
    "Align",
    "ConstrainedSoftmax",
    "ConstrainedSparsemax",
    "DeAttention",
    "DistanceAware",
    "Entmax",
    "Entmax15",
    "GaussianGrid",
    "Hard",
    "HardMonotonic",
    "KernelRatio",
    "KernelWeights",
    "LocalMonotonic",
    "LocalPredictive",
    "MonotonicChunkwise",
    "PositionalMask",
    "Reinforced",
    "Selector",
    "SelfAdaptiveTemperature",
    "Sigmoid",
    "Softmax",
    "Sparsemax",
    "Tanh",
]
