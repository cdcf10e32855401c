"""Pooling of a picture by attention, as SigLIP's `SiglipMultiheadAttentionPoolingHead` does with one learned query.

transformers' module drops the weights. They are those of PyTorch's `nn.MultiheadAttention`; in an export its
projections are the same, with the export marker behind them.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from limelight_models.attention.export_markers import is_marking, marked_attention

POOLING = "pooling"


def pool_by_attention(head: Any, features: Tensor) -> tuple[Tensor, Tensor]:
    """Pool the features of patches.

    Shapes: features [batch, patch, feature] -> vector [batch, feature], weights [batch, head, 1, patch].
    """
    attention, probe = head.attention, head.probe.expand(features.shape[0], -1, -1)
    if is_marking():
        matrices, biases = attention.in_proj_weight.chunk(3), attention.in_proj_bias.chunk(3)
        projected: list[Any] = [
            linear(each, matrix, bias)
            for each, matrix, bias in zip((probe, features, features), matrices, biases, strict=True)
        ]
        query, key, value = (each.unflatten(-1, (attention.num_heads, -1)).transpose(1, 2) for each in projected)
        context, weights = marked_attention(query, key, value, None, query.shape[-1] ** -0.5)
        pooled = attention.out_proj(context.transpose(1, 2).flatten(2))
    else:
        pooled, weights = attention(probe, features, features, average_attn_weights=False)
    vector: Tensor = (pooled + head.mlp(head.layernorm(pooled)))[:, 0]
    return vector, torch.as_tensor(weights)
