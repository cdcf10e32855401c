"""Several levels of one input (BF §3.1.2): attention via attention, hierarchies, target objects.

Single-level attention is `Attention` itself.
"""

from limelight_models.attention.levels.hierarchical import Hierarchical, HierarchicalWeights
from limelight_models.attention.levels.target_object import TargetObject, TargetObjectWeights
from limelight_models.attention.levels.via_attention import AttentionViaAttention, ViaWeights

__all__ = [
    "AttentionViaAttention",
    "Hierarchical",
    "HierarchicalWeights",
    "TargetObject",
    "TargetObjectWeights",
    "ViaWeights",
]
