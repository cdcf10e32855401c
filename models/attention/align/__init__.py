"""Alignments, row C of the catalogue (BF: alignment, G and C: distribution function)."""

from models.attention.align.base import Align
from models.attention.align.hard import Hard
from models.attention.align.local import LocalMonotonic, LocalPredictive
from models.attention.align.soft import Sigmoid, Softmax
from models.attention.align.sparse import Sparsemax

__all__ = ["Align", "Hard", "LocalMonotonic", "LocalPredictive", "Sigmoid", "Softmax", "Sparsemax"]
