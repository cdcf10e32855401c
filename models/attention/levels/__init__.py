"""Several levels of one input (BF §3.1.2): attention via attention, hierarchies, target objects.

Single-level attention is `Attention` itself.
"""

from models.attention.levels.hierarchical import Hierarchical, HierarchicalWeights
from models.attention.levels.target_object import TargetObject, TargetObjectWeights
from models.attention.levels.via_attention import AttentionViaAttention, ViaWeights

__all__ = [
    "AttentionViaAttention",
    "Hierarchical",
    "HierarchicalWeights",
    "TargetObject",
    "TargetObjectWeights",
    "ViaWeights",
]
