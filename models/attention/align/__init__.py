"""Alignments, row C of the catalogue (BF: alignment, G and C: distribution function)."""

from models.attention.align.base import Align
from models.attention.align.constrained import ConstrainedSoftmax, ConstrainedSparsemax
from models.attention.align.distance import DistanceAware
from models.attention.align.entmax import Entmax, Entmax15
from models.attention.align.grid import GaussianGrid
from models.attention.align.hard import Hard
from models.attention.align.kernel import KernelRatio, KernelWeights
from models.attention.align.local import LocalMonotonic, LocalPredictive
from models.attention.align.monotonic import HardMonotonic, MonotonicChunkwise
from models.attention.align.positional import PositionalMask
from models.attention.align.reinforced import Reinforced, Selector
from models.attention.align.signed import DeAttention, Tanh
from models.attention.align.soft import Sigmoid, Softmax
from models.attention.align.span import AdaptiveSpan
from models.attention.align.sparse import Sparsemax
from models.attention.align.temperature import SelfAdaptiveTemperature

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
