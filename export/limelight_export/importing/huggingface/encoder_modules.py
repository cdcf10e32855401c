"""Attention of text encoders' modules that compute it by themselves, for `module_attention`.

Each function takes the place of a method of transformers' class, and gets the module and the mask of the tokens first.
"""

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from limelight_models.attention.export_markers import marked_attention


def _attend_bert(
    module: Any, _mask: Tensor | None, hidden_states: Tensor, attention_mask: Tensor | None = None, *_: Any, **__: Any
) -> tuple[Tensor, Tensor]:
    """Attend as BERT, one product and softmax.

    Shapes: hidden_states [batch, token, feature], attention_mask bool, broadcastable to [batch, head, query, key] ->
        context vectors [batch, query, feature], weights [batch, head, query, key].
    """
    return _attended(module, *_projected(module, hidden_states), attention_mask)


def _attend_roformer(
    module: Any,
    _mask: Tensor | None,
    hidden_states: Tensor,
    attention_mask: Tensor | None = None,
    sinusoidal_pos: Tensor | None = None,
    *_: Any,
    **__: Any,
) -> tuple[Tensor, Tensor]:
    """Attend as `RoFormerSelfAttention`, whose queries and keys are turned by their positions, and values if stated."""
    query, key, value = _projected(module, hidden_states)
    query, key, turned = module.apply_rotary_position_embeddings(sinusoidal_pos, query, key, value)
    return _attended(module, query, key, turned if module.rotary_value else value, attention_mask)


def _attend_luke(
    module: Any, mask: Tensor | None, hidden_states: Tensor, _entities: None, attention_mask: Tensor | None, *_: Any
) -> tuple[Tensor, None, Tensor]:
    """Attend as `LukeSelfAttention` does among words: no entity is sent."""
    context, weights = _attend_bert(module, mask, hidden_states, attention_mask)
    return context, None, weights


def _attend_squeezebert(
    module: Any, _mask: Tensor | None, hidden_states: Tensor, attention_mask: Tensor | None, _: bool
) -> dict[str, Tensor]:
    """Attend as `SqueezeBertSelfAttention`, but return weights: its features stand first, [batch, feature, token]."""
    query, key, value = (
        projection(hidden_states).unflatten(1, (module.num_attention_heads, -1)).transpose(2, 3)
        for projection in (module.query, module.key, module.value)
    )
    context, weights = _attended(module, query, key, value, attention_mask)
    return {"context_layer": context.transpose(1, 2), "attention_score": weights}


def _attend_deberta(
    module: Any,
    _mask: Tensor | None,
    hidden_states: Tensor,
    attention_mask: Tensor,
    *_: Any,
    relative_pos: Tensor | None = None,
    rel_embeddings: Tensor | None = None,
    **__: Any,
) -> tuple[Tensor, Tensor]:
    """Attend as DeBERTa's first `DisentangledSelfAttention`: one projection, and scores of content and position.

    Shapes: relative_pos [1, query, key], rel_embeddings [2 · most, feature] for distances from -most to most - 1.
    """
    heads, most = module.num_attention_heads, getattr(module, "max_relative_positions", 0)
    query, key, value = module.in_proj(hidden_states).unflatten(-1, (heads, -1)).transpose(1, 2).chunk(3, -1)
    query = query + module.q_bias.unflatten(0, (heads, 1, -1))
    value = value + module.v_bias.unflatten(0, (heads, 1, -1))
    scale = (query.shape[-1] * (1 + len(module.pos_att_type))) ** -0.5

    def by_distance(projection: Any, states: Tensor, distances: Tensor) -> Tensor:
        """Score states [batch, head, one, d] by their distances [1, one, other]: [batch, head, one, other]."""
        rows = projection(rel_embeddings).unflatten(-1, (heads, -1)).permute(1, 2, 0)
        scores: Tensor = states @ rows * scale
        place = (distances + most).clamp(0, 2 * most - 1)[:, None]
        return scores.gather(-1, place.expand(*scores.shape[:3], -1))

    terms = []
    if relative_pos is not None and "c2p" in module.pos_att_type:
        terms.append(by_distance(module.pos_proj, query, relative_pos))
    if relative_pos is not None and "p2c" in module.pos_att_type:
        terms.append(by_distance(module.pos_q_proj, key, -relative_pos).transpose(-1, -2))
    bias = sum(terms[1:], start=terms[0]) if terms else None
    context, weights = marked_attention(query, key, value, attention_mask.bool(), scale, bias=bias)
    return context.transpose(1, 2).flatten(2), weights


def _projected(module: Any, hidden_states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Project to queries, keys and values, [batch, head, token, d] each."""
    query, key, value = (
        projection(hidden_states).unflatten(-1, (module.num_attention_heads, -1)).transpose(1, 2)
        for projection in (module.query, module.key, module.value)
    )
    return query, key, value


def _attended(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Mark attention, and join the heads' context vectors."""
    context, weights = marked_attention(query, key, value, attention_mask, module.attention_head_size**-0.5)
    return context.transpose(1, 2).flatten(2), weights


def _encode_xmod(
    module: Any, _mask: Tensor | None, hidden_states: Tensor, lang_ids: Tensor, *arguments: Any, **options: Any
) -> Any:
    """Encode as `XmodEncoder`, with the name of the default language in the place of numbers [batch]."""
    language = module.config.default_language
    return type(module).forward(module, hidden_states, language, *arguments, **options)


def _adapt_xmod(module: Any, _mask: Tensor | None, language: str, hidden_states: Tensor) -> Tensor:
    """Adapt as `XmodOutput`, by the adapter of one language alone: others would gather no row, but stand in a graph."""
    residual = hidden_states
    if module.adapter_layer_norm is not None:
        hidden_states = module.adapter_layer_norm(hidden_states)
    elif module.adapter_reuse_layer_norm:
        hidden_states = module.LayerNorm(hidden_states)
    if module.ln_before_adapter:
        residual = hidden_states
    adapted: Tensor = module.adapter_modules[language](hidden_states)
    return adapted + residual


# As of `module_attention`.
FORWARD: Mapping[str, tuple[str, Callable[..., Any]]] = {
    "RoFormerSelfAttention": ("forward", _attend_roformer),
    "MegatronBertSelfAttention": ("forward", _attend_bert),
    "RemBertSelfAttention": ("forward", _attend_bert),
    "BigBirdSelfAttention": ("forward", _attend_bert),
    "LukeSelfAttention": ("forward", _attend_luke),
    "SqueezeBertSelfAttention": ("forward", _attend_squeezebert),
    "deberta.DisentangledSelfAttention": ("forward", _attend_deberta),
    "XmodEncoder": ("forward", _encode_xmod),
    "XmodOutput": ("lang_adapter", _adapt_xmod),
}
