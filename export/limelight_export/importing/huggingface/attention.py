"""The one module that uses transformers' interfaces of attention and masks, which change between its versions.

Most modules of transformers compute attention through a function that is looked up by name. While a model is exported,
that function is the export marker (`limelight_models.attention.export_markers`), so that gates, row probes and
projections work as for models of this repository. Modules that compute attention by themselves (`module_attention`)
get another forward function for that time. Otherwise both are transformers' own: what an exported graph is compared
with is the library itself.
"""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from limelight_export.errors import ExportError
from limelight_export.importing.huggingface.module_attention import marking_modules
from limelight_models.attention.export_markers import is_marking, marked_attention

_MARKED = "limelight"
_EAGER = "eager"
# Arguments that change nothing at inference, or that the mask holds already.
_HARMLESS_ARGUMENTS = frozenset(
    """
    dropout sliding_window is_causal deterministic position_ids cache_position use_cache output_attentions
    output_hidden_states return_dict
    """.split()
)


def run_with_maps(model: nn.Module, **arguments: Any) -> tuple[Any, tuple[Tensor, ...]]:
    """Run a transformers model, and return its output and its self-attention maps. An export marks its attention.

    Returns: the model's output, hidden states among it, and a map [batch, head, query, key] for each layer in order.
    Raises:
        ExportError: a module returns no weights, or computes attention with something that a marker cannot hold.
    """
    marked = is_marking()
    modules = marking_modules(model, arguments.get("attention_mask")) if marked else nullcontext()
    with using_attention(model, _MARKED if marked else _EAGER), modules:
        output = model(**arguments, output_attentions=True, output_hidden_states=True, return_dict=True)
    maps = output.attentions
    if not maps or any(each is None for each in maps):
        raise ExportError(f"{type(model).__name__} returns no attention weights")
    return output, tuple(maps)


def run_eager(model: nn.Module, **arguments: Any) -> Any:
    """Run a transformers model with its own eager attention; its output has every layer's weights and hidden states."""
    with using_attention(model, _EAGER):
        return model(**arguments, output_attentions=True, output_hidden_states=True, return_dict=True)


@contextlib.contextmanager
def using_attention(model: nn.Module, name: str) -> Iterator[None]:
    """Make every module of a model compute attention by a function; parts of a model have configurations of their own.

    The asked implementation is set directly: transformers' own setter accepts no name for modules that it does not
    know to look it up.
    """
    _register()
    found: list[Any] = [each.config for each in model.modules() if hasattr(each, "config")]
    configs = {id(each): each for each in found}.values()
    before = [each._attn_implementation for each in configs]
    try:
        for each in configs:
            each._attn_implementation = name
        yield
    finally:
        for each, implementation in zip(configs, before, strict=True):
            each._attn_implementation = implementation


def _register() -> None:
    from transformers.masking_utils import AttentionMaskInterface
    from transformers.modeling_utils import AttentionInterface

    AttentionInterface.register(_MARKED, _attend)
    AttentionMaskInterface.register(_MARKED, _mask)


def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    position_bias: Tensor | None = None,
    **arguments: Any,
) -> tuple[Tensor, Tensor]:
    """Mark attention (an attention function of transformers).

    Shapes: query [batch, head, query, d], key and value [batch, key head, key, d], attention_mask bool and
        position_bias, which is added to scores, both broadcastable to [batch, head, query, key]; a mask of numbers is
        such a bias -> context vectors [batch, query, head, d], weights [batch, head, query, key].
    """
    if attention_mask is not None and attention_mask.is_floating_point():
        position_bias = attention_mask if position_bias is None else position_bias + attention_mask
        attention_mask = None
    unknown = sorted(name for name, given in arguments.items() if given is not None and name not in _HARMLESS_ARGUMENTS)
    if unknown:
        raise ExportError(
            f"{type(module).__name__} computes attention with {', '.join(unknown)}, which is not supported"
        )
    groups = query.shape[1] // key.shape[1]
    context, weights = marked_attention(
        query,
        repeat_heads(key, groups),
        repeat_heads(value, groups),
        attention_mask,
        query.shape[-1] ** -0.5 if scaling is None else float(scaling),
        bias=position_bias,
    )
    return context.transpose(1, 2).contiguous(), weights


def repeat_heads(features: Tensor, groups: int) -> Tensor:
    """Give each of `groups` consecutive query heads its key head: [batch, head, …] -> [batch, head · groups, …]."""
    if groups == 1:
        return features
    return features[:, :, None].expand(-1, -1, groups, -1, -1).flatten(1, 2)


def _mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    mask_function: Callable[..., Any],
    attention_mask: Tensor | None = None,
    **arguments: Any,
) -> Tensor | None:
    """Make a boolean mask, True where a query may attend to a key (a mask function of transformers).

    A mask of keys alone stays [batch, 1, 1, key]; others are [batch, 1, query, key].
    """
    from transformers.masking_utils import bidirectional_mask_function, sdpa_mask

    if mask_function is bidirectional_mask_function:
        return None if attention_mask is None else attention_mask[:, None, None, :].to(torch.bool)
    arguments |= {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
    mask: Tensor | None = sdpa_mask(
        batch_size=batch_size,
        q_length=q_length,
        kv_length=kv_length,
        mask_function=mask_function,
        attention_mask=attention_mask,
        **arguments,
    )
    return mask
