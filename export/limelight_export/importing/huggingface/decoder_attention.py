"""Attention of transformers' decoders: from a whole prompt or from what a KV cache keeps, and to an encoder's memory.

The second module that uses transformers' interfaces of attention, masks and caches (see `attention`). A decoder runs
under a *pass*: its attention reads the cache of the pass, and leaves its new keys and values and its weights there.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import softmax

from limelight_export.errors import ExportError
from limelight_export.importing.huggingface.attention import repeat_heads, using_attention
from limelight_export.importing.huggingface.decoder_modules import decoder_methods, linear_bias
from limelight_export.importing.huggingface.module_attention import marking_modules
from limelight_models.attention.export_markers import is_marking, marked_attention, marked_weights

_DECODING = "limelight-decoding"
# Arguments that change nothing at inference.
_HARMLESS_ARGUMENTS = frozenset(
    """
    dropout is_causal position_ids cache_position use_cache output_attentions output_hidden_states output_router_logits
    return_dict
    """.split()
)


KeysAndValues = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class DecoderPass:
    """One pass of a decoder over tokens.

    Attributes:
        cache: for a step, keys and values of each layer, [batch, key head, entry, d]; None for a whole prompt.
        position: for a step, INT64 [batch]: place of the token, below the number of entries. What the cache holds from
            there on is not read.
        memory: for a step, keys and values of each layer that attends to an encoder's memory, [batch, head, key, d].
        memory_mask: for a step with a memory, BOOL [batch, key].
        kept: new keys and values of each layer, [batch, key head, token, d].
        maps: weights of each layer: [batch, head, token, token] of a prompt, [batch, head, 1, entry] of a step.
        projected: keys and values that each layer makes of the memory, [batch, head, key, d].
        memory_maps: weights over the memory of each layer, [batch, head, 1, key] of a step.
        bias: for a step of a model with relative positions, what is added to its scores, [batch, head, 1, entry].
    """

    cache: Mapping[int, KeysAndValues] | None = None
    position: Tensor | None = None
    memory: Mapping[int, KeysAndValues] = field(default_factory=dict)
    memory_mask: Tensor | None = None
    kept: dict[int, KeysAndValues] = field(default_factory=dict)
    maps: dict[int, Tensor] = field(default_factory=dict)
    projected: dict[int, KeysAndValues] = field(default_factory=dict)
    memory_maps: dict[int, Tensor] = field(default_factory=dict)
    bias: list[Tensor] = field(default_factory=list)


_PASS: ContextVar[DecoderPass | None] = ContextVar("decoder pass", default=None)


def run_decoder(model: nn.Module, run: DecoderPass, **arguments: Any) -> Any:
    """Run a decoder, or a model with one, within a pass; its output has the hidden states.

    Raises:
        ExportError: a module computes attention with something that is not supported.
    """
    _register()
    own = marking_modules(model, None, decoder_methods(_attend))
    with using_attention(model, _DECODING), own, _within(run):
        return model(
            **arguments, past_key_values=_new_cache(), use_cache=True, output_hidden_states=True, return_dict=True
        )


class PositionsOfPass(nn.Module):
    """Embeds the position of the current step; other tokens as the embedding that it stands for.

    Args:
        embedding: of positions, from `embedding.offset` on.
    """

    def __init__(self, embedding: nn.Embedding) -> None:
        super().__init__()
        self.embedding = embedding
        self._offset = int(getattr(embedding, "offset", 0))

    def forward(self, *arguments: Any, **options: Any) -> Tensor:
        run = _PASS.get()
        if run is None or run.position is None:
            whole: Tensor = self.embedding(*arguments, **options)
            return whole
        return nn.functional.embedding(run.position[:, None] + self._offset, self.embedding.weight)


def _register() -> None:
    from transformers.masking_utils import AttentionMaskInterface
    from transformers.modeling_utils import AttentionInterface

    AttentionInterface.register(_DECODING, _attend)
    AttentionMaskInterface.register(_DECODING, _mask)


def _mask(*_: Any, config: Any, **__: Any) -> Tensor | None:
    """Make no mask (a mask function of transformers): MPT converts it, so that it gets a single number."""
    return torch.ones(()) if config.model_type == "mpt" else None


def fix_rotary_frequencies(model: nn.Module) -> None:
    """Keep rotary frequencies as they are for sequences within the length that the model was trained for first.

    Two scalings, `dynamic` and `longrope`, have others for longer sequences: a cache would hold keys that were turned
    by frequencies of another length.
    """
    modules: Iterable[Any] = model.modules()
    for each in modules:
        kinds = getattr(each, "rope_type", None)
        if isinstance(kinds, str):
            each.rope_type = "default"
        elif isinstance(kinds, dict):
            each.rope_type = dict.fromkeys(kinds, "default")


@contextlib.contextmanager
def _within(run: DecoderPass) -> Iterator[None]:
    token = _PASS.set(run)
    try:
        yield
    finally:
        _PASS.reset(token)


def _new_cache() -> Any:
    """Make a cache of transformers that keeps nothing: attention of this module has its own."""
    from transformers.cache_utils import Cache

    class PassingCache(Cache):  # type: ignore[misc]
        """Hands new keys and values through."""

        is_compileable = False

        def __init__(self) -> None:
            super().__init__(layers=[])

        def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
            return key_states, value_states

        def get_seq_length(self, *_: Any, **__: Any) -> int:
            return 0

    return PassingCache()


def _attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    softcap: float | None = None,
    sliding_window: int | None = None,
    s_aux: Tensor | None = None,
    position_bias: Tensor | None = None,
    slopes: Tensor | None = None,
    **arguments: Any,
) -> tuple[Tensor, Tensor]:
    """Attend within the current pass (an attention function of transformers).

    Args:
        position_bias: added to scores, for tokens from the first on; a step makes its own.
        slopes: of `linear_bias`, [head].
        softcap: scores s become softcap · tanh(s / softcap).
        sliding_window: a token attends to itself and to this many - 1 before it.
        s_aux: a sink for each head, [head]: a score beside those of the keys, whose weight goes to no value.
    """
    unknown = sorted(name for name, given in arguments.items() if given is not None and name not in _HARMLESS_ARGUMENTS)
    if unknown or (attention_mask is not None and attention_mask.dim()):
        raise ExportError(
            f"{type(module).__name__} computes attention with {', '.join(unknown) or 'a mask of its own'}, "
            "which is not supported"
        )
    run, layer = _PASS.get(), int(module.layer_id if hasattr(module, "layer_id") else module.layer_idx)
    assert run is not None
    scaling = query.shape[-1] ** -0.5 if scaling is None else float(scaling)
    if not getattr(module, "is_causal", True):
        context, weights = _attend_memory(run, layer, _Scores(scaling, softcap, s_aux), query, key, value)
        return context.transpose(1, 2).contiguous(), weights
    run.kept[layer] = (key, value)
    entries = query.shape[2] if run.cache is None else run.cache[layer][0].shape[2]
    if slopes is not None:
        places = torch.arange(entries, device=query.device)
        position_bias = linear_bias(slopes, places[None] if run.position is None else run.position[:, None], places)
    elif position_bias is not None and run.position is not None:
        if not run.bias:  # the first layer's, which all layers share
            run.bias.append(_relative_bias(module, entries, run.position))
        position_bias = run.bias[0]
    scores = _Scores(scaling, softcap, s_aux, position_bias)
    if run.cache is None:
        context, weights = _attend_whole(scores, query, key, value, sliding_window)
    else:
        assert run.position is not None
        context, weights = _attend_step(scores, query, key, value, run.cache[layer], run.position, sliding_window)
    run.maps[layer] = weights
    return context.transpose(1, 2).contiguous(), weights


@dataclass(frozen=True)
class _Scores:
    """Steps between products and weights: scaling, soft cap, sinks, bias."""

    scaling: float
    softcap: float | None
    sinks: Tensor | None
    bias: Tensor | None = None

    @property
    def is_plain(self) -> bool:
        """Whether weights are a softmax of scaled scores and a bias, as the export marker has them."""
        return self.softcap is None and self.sinks is None

    def weights(self, products: Tensor, mask: Tensor) -> Tensor:
        """Make weights [batch, head, query, key] of the products of queries and keys."""
        scores = products * self.scaling
        if self.bias is not None:
            scores = scores + self.bias
        if self.softcap is not None:
            scores = torch.tanh(scores / self.softcap) * self.softcap
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        if self.sinks is None:
            return softmax(scores, dim=-1) * mask
        sinks = self.sinks.reshape(1, -1, 1, 1).expand(*scores.shape[:3], 1)
        return softmax(torch.cat([scores, sinks], dim=-1), dim=-1)[..., :-1] * mask


def _attend_whole(
    scores: _Scores, query: Tensor, key: Tensor, value: Tensor, window: int | None
) -> tuple[Tensor, Tensor]:
    """Attend within a whole prompt. Padding stands behind it, where no token looks."""
    groups = query.shape[1] // key.shape[1]
    key, value = repeat_heads(key, groups), repeat_heads(value, groups)
    places = torch.arange(query.shape[2], device=query.device)
    mask = _seen(places[:, None], places, window)[None, None]
    if scores.is_plain and is_marking():
        return marked_attention(query, key, value, mask, scores.scaling, bias=scores.bias)
    weights = scores.weights(query @ key.transpose(-1, -2), mask)
    return _attend_changed(weights, mask, lambda changed: changed @ value)


def _attend_changed(weights: Tensor, mask: Tensor, attend: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    """Attend with weights [batch, head, query, key], which interventions change in an export.

    Returns: context vectors [batch, head, query, d], and the weights as they are changed.
    """
    if not is_marking():
        return attend(weights), weights
    changed, factor = marked_weights(weights, mask)
    return attend(changed) * factor, changed


def _attend_step(
    scores: _Scores,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cache: KeysAndValues,
    position: Tensor,
    window: int | None,
) -> tuple[Tensor, Tensor]:
    """Attend from one token. The cache is neither copied nor changed, and its key heads are not repeated.

    The new key's score takes its place among the scores, and its value is added by itself.
    """
    keys, values = cache
    places = torch.arange(keys.shape[2], device=keys.device)
    position = position[:, None, None, None]
    is_new = places == position
    key_heads, groups = keys.shape[1], query.shape[1] // keys.shape[1]
    grouped = query.reshape(-1, key_heads, groups, query.shape[-1])  # [batch, key head, group, d]
    products = torch.where(is_new, grouped @ key.transpose(-1, -2), grouped @ keys.transpose(-1, -2))
    mask = _seen(position, places, window)

    def attend(weights: Tensor) -> Tensor:
        of_groups = weights.reshape(-1, key_heads, groups, keys.shape[2])
        own = (of_groups * is_new).sum(-1, keepdim=True) * value
        context = (of_groups * ~is_new) @ values + own
        return context.flatten(1, 2).unsqueeze(2)

    return _attend_changed(scores.weights(products.flatten(1, 2).unsqueeze(2), mask), mask, attend)


def _attend_memory(
    run: DecoderPass, layer: int, scores: _Scores, query: Tensor, key: Tensor, value: Tensor
) -> KeysAndValues:
    """Attend to an encoder's memory: keys and values of this pass, or those that an earlier one made."""
    run.projected[layer] = (key, value)
    keys, values = run.memory.get(layer, (key, value))
    mask = torch.ones((1, 1), dtype=torch.bool) if run.memory_mask is None else run.memory_mask
    allowed = mask[:, None, None, :]
    weights = scores.weights(query @ keys.transpose(-1, -2), allowed)
    context, run.memory_maps[layer] = _attend_changed(weights, allowed, lambda changed: changed @ values)
    return context, run.memory_maps[layer]


def _relative_bias(module: Any, entries: int, position: Tensor) -> Tensor:
    """Make what T5's first layer adds to the scores of a token at a place, [batch, head, 1, entry]."""
    distance = torch.arange(entries, device=position.device) - position[:, None]
    buckets = module._relative_position_bucket(
        distance,
        bidirectional=False,
        num_buckets=module.relative_attention_num_buckets,
        max_distance=module.relative_attention_max_distance,
    )
    bias: Tensor = module.relative_attention_bias(buckets)
    return bias.permute(0, 2, 1).unsqueeze(2)


def _seen(query: Tensor, key: Tensor, window: int | None) -> Tensor:
    """Tell whether a query at a place sees the key at another."""
    seen = key <= query
    return seen if window is None else seen & (key > query - window)
