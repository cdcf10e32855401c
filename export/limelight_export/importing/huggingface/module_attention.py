"""Attention of transformers' modules that compute it by themselves: relative positions in MPNet and DeBERTa 2.

Those of decoders stand in `decoder_modules`, of other encoders in `encoder_modules`.

The third module that uses parts of transformers which change between its versions (see `attention`). While a model is
exported, another function takes the place of their `forward`: the same projections and scores, with the export marker
in the place of softmax and products.
"""

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from torch import Tensor, nn

from limelight_export.importing.huggingface import encoder_modules
from limelight_export.importing.huggingface.decoder_modules import MARKED_DECODERS, Methods
from limelight_models.attention.export_markers import marked_attention


@contextlib.contextmanager
def marking_modules(model: nn.Module, mask: Tensor | None, methods: Methods | None = None) -> Iterator[None]:
    """Mark attention in modules that are known to compute it by themselves, as long as the block runs.

    Args:
        mask: of the tokens [batch, token]; None for a model of something else.
        methods: what else their attention is computed by than the export marker.
    """
    methods = _FORWARD if methods is None else methods
    changed = [(each, *found) for each in model.modules() if (found := _replaced(type(each), methods))]
    try:
        for module, name, function in changed:
            setattr(module, name, partial(function, module, mask))
        yield
    finally:
        for module, name, _ in changed:
            delattr(module, name)


def _replaced(kind: type[nn.Module], methods: Methods) -> tuple[str, Callable[..., Any]] | None:
    """Find what is replaced in a class: by its name, behind that of its folder where several have the name."""
    folder = kind.__module__.rpartition(".")[0].rpartition(".")[2]
    return methods.get(f"{folder}.{kind.__name__}") or methods.get(kind.__name__)


def _attend_mpnet(
    module: Any,
    _mask: Tensor | None,
    hidden_states: Tensor,
    attention_mask: Tensor,
    position_bias: Tensor,
    *_: Any,
    **__: Any,
) -> tuple[Tensor, Tensor]:
    """Attend as `MPNetSelfAttention`: a bias by relative position, which all layers share, is added to scores.

    Shapes: projections of hidden_states [batch, token, feature], attention_mask bool and position_bias broadcastable to
        [batch, head, query, key].
    """
    size = module.attention_head_size
    query, key, value = (
        projection(hidden_states).unflatten(-1, (-1, size)).transpose(1, 2)
        for projection in (module.q, module.k, module.v)
    )
    context, weights = marked_attention(query, key, value, attention_mask, size**-0.5, bias=position_bias)
    return module.o(context.transpose(1, 2).flatten(2)), weights


def _position_bias(module: Any, mask: Tensor, *_: Any, **__: Any) -> Tensor:
    """Make the bias of `MPNetEncoder` once for all rows of a batch, [1, head, query, key]. Tokens may be packed."""
    bias: Tensor = type(module).compute_position_bias(module, mask[:1])  # of which only the sizes are read
    return bias


def _attend_disentangled(
    module: Any,
    _mask: Tensor | None,
    hidden_states: Tensor,
    attention_mask: Tensor,
    *_: Any,
    query_states: Tensor | None = None,
    relative_pos: Tensor | None = None,
    rel_embeddings: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Attend as `DisentangledSelfAttention`: scores of content and position are added to those of contents.

    Shapes: hidden_states [batch, token, feature], attention_mask [batch, 1, query, key], true where a query may attend.
    """
    given = (hidden_states if query_states is None else query_states, hidden_states, hidden_states)
    projections = (module.query_proj, module.key_proj, module.value_proj)
    heads = module.num_attention_heads
    query, key, value = (
        projection(states).unflatten(-1, (heads, -1)).transpose(1, 2)
        for projection, states in zip(projections, given, strict=True)
    )
    terms = 1 + ("c2p" in module.pos_att_type) + ("p2c" in module.pos_att_type)
    bias = None
    if module.relative_attention and terms > 1:
        scores = module.disentangled_attention_bias(
            query.flatten(0, 1), key.flatten(0, 1), relative_pos, rel_embeddings, terms
        )
        bias = scores.unflatten(0, (-1, heads))
    scale = (query.shape[-1] * terms) ** -0.5
    context, weights = marked_attention(query, key, value, attention_mask.bool(), scale, bias=bias)
    return context.transpose(1, 2).flatten(2), weights


_FORWARD: Methods = {
    "MPNetSelfAttention": ("forward", _attend_mpnet),
    "MPNetEncoder": ("compute_position_bias", _position_bias),
    "DisentangledSelfAttention": ("forward", _attend_disentangled),
    **MARKED_DECODERS,
    **encoder_modules.FORWARD,
}
