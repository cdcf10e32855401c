"""Attention of transformers' decoders that compute it by themselves: GPT-Neo, GPT-J, Bloom, XGLM and MPT.

A function takes the place of the method that makes weights: the module's own projections, and an *attend* in the place
of products and softmax. `decoder_attention` has an attend that reads a cache; `module_attention` takes
`MARKED_DECODERS` in, whose attend is the export marker.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from limelight_models.attention.export_markers import marked_attention

# The method that is replaced, by the name of the module's class, and the function in its place, whose first arguments
# are the module and the mask of the tokens.
Methods = Mapping[str, tuple[str, Callable[..., Any]]]
# Attends from a module, queries, keys, values [batch, head, token, d] and a mask: context vectors
# [batch, query, head, d], and weights. Options: scaling, sliding_window, and slopes [head] of `linear_bias`.
Attend = Callable[..., tuple[Tensor, Tensor]]


def linear_bias(slopes: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """Make what is added to scores of queries and keys at places (ALiBi, Press, Smith and Lewis 2022).

    slope · (key - query): a softmax is the same for a place of the query that every model counts in its own way.

    Shapes: slopes [head], query [batch, query], key [key] -> [batch, head, query, key].
    """
    return slopes[:, None, None] * (key - query[:, None, :, None])


def _attend_marked(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor,
    scaling: float,
    sliding_window: int | None = None,
    slopes: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Mark attention to a whole text, whose padding stands behind it. mask: true where a query may attend."""
    places = torch.arange(key.shape[2])
    if sliding_window is not None:
        mask = mask & (places > places[:, None] - sliding_window)
    bias = None if slopes is None else linear_bias(slopes, places[None], places)
    context, weights = marked_attention(query, key, value, mask, scaling, bias=bias)
    return context.transpose(1, 2), weights


def _gpt_neo(
    attend: Attend, module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Attend as `GPTNeoSelfAttention`: scores are not scaled, and local layers have a window."""
    window = module.config.window_size if module.attention_type == "local" else None
    context, weights = attend(module, query, key, value, mask, scaling=1.0, sliding_window=window)
    return context.transpose(1, 2), weights


def _gptj(
    attend: Attend, module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Attend as `GPTJAttention`, which turns queries and keys before."""
    context, weights = attend(module, query, key, value, mask, scaling=module.head_dim**-0.5)
    return context.transpose(1, 2), weights


def _bloom(
    attend: Attend, module: Any, hidden_states: Tensor, residual: Tensor, *_: Any, attention_mask: Any, **__: Any
) -> tuple[Tensor, Tensor]:
    """Attend as `BloomAttention`: a bias falls with the distance."""
    from transformers.models.bloom.modeling_bloom import _get_alibi_slopes

    query, key, value = module._reshape(module.query_key_value(hidden_states))
    slopes = _get_alibi_slopes(module.num_heads, hidden_states.device)
    context, weights = attend(module, query, key, value, attention_mask, scaling=module.inv_norm_factor, slopes=slopes)
    return module.dense(context.flatten(2)) + residual, weights


def _mpt(
    attend: Attend, module: Any, hidden_states: Tensor, position_bias: Tensor, *_: Any, attention_mask: Any, **__: Any
) -> tuple[Tensor, Tensor]:
    """Attend as `MptAttention`: a bias falls with the distance. position_bias: [head, 1, place], 0 at the last."""
    projected = module.Wqkv(hidden_states)
    if module.clip_qkv:
        projected = projected.clamp(min=-module.clip_qkv, max=module.clip_qkv)
    query, key, value = (
        each.unflatten(-1, (module.n_heads, module.head_dim)).transpose(1, 2) for each in projected.chunk(3, dim=-1)
    )
    slopes = -position_bias[:, 0, -2]
    context, weights = attend(module, query, key, value, attention_mask, scaling=module.softmax_scale, slopes=slopes)
    return module.out_proj(context.flatten(2)), weights


def _xglm(
    attend: Attend, module: Any, hidden_states: Tensor, *_: Any, attention_mask: Any, **__: Any
) -> tuple[Tensor, Tensor]:
    """Attend as `XGLMAttention`."""
    query, key, value = (
        projection(hidden_states).unflatten(-1, (module.num_heads, module.head_dim)).transpose(1, 2)
        for projection in (module.q_proj, module.k_proj, module.v_proj)
    )
    context, weights = attend(module, query, key, value, attention_mask, scaling=module.scaling)
    return module.out_proj(context.flatten(2)), weights


# The same with functions whose first arguments are an attend and the module.
_METHODS: Methods = {
    "GPTNeoSelfAttention": ("_attn", _gpt_neo),
    "GPTJAttention": ("_attn", _gptj),
    "BloomAttention": ("forward", _bloom),
    "MptAttention": ("forward", _mpt),
    "XGLMAttention": ("forward", _xglm),
}


def decoder_methods(attend: Attend) -> Methods:
    """Return the methods that compute attention by an attend."""

    def method(function: Callable[..., Any], module: Any, _mask: Tensor | None, *given: Any, **named: Any) -> Any:
        return function(attend, module, *given, **named)

    return {name: (replaced, partial(method, function)) for name, (replaced, function) in _METHODS.items()}


MARKED_DECODERS = decoder_methods(_attend_marked)
