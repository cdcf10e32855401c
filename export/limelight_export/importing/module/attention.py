"""Finds attention inside a PyTorch module while it runs, and marks it during an export.

`F.scaled_dot_product_attention` is intercepted however it is imported, and so is `nn.MultiheadAttention`, on which
`nn.TransformerEncoder` and `nn.TransformerDecoder` are built. Their fast paths, which hold no weights, are off
meanwhile, and so is `torch.compile`, which sees nothing of an interception.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules import transformer
from torch.overrides import TorchFunctionMode

from limelight_models.attention.export_markers import can_be_marked, is_marking, marked_attention

# The name of attention that no submodule computes.
ROOT = "attention"
# What torch.compile puts into the path of a module.
_COMPILED = "._orig_mod"
_MHA = inspect.signature(F.multi_head_attention_forward)


class FoundAttention:
    """The attention of one call of a module.

    Attributes:
        weights: [batch, head, query, key], by the path of the submodule that computes them; the second call of a
            submodule is `<path>.2`.
    """

    def __init__(self) -> None:
        self.weights: dict[str, Tensor] = {}


@contextmanager
def finding_attention(module: nn.Module) -> Iterator[FoundAttention]:
    """Record the attention of the calls of a module in this block."""
    found, path = FoundAttention(), _ModulePath()
    with ExitStack() as stack:
        stack.enter_context(torch.compiler.set_stance("force_eager"))
        hooked = set()  # an export shows a submodule of several names as several, which share their hooks
        for name, each in module.named_modules():
            if id(each._forward_hooks) in hooked:
                continue
            hooked.add(id(each._forward_hooks))
            entered = each.register_forward_pre_hook(path.entering(f".{name}".replace(_COMPILED, "")[1:]))
            left = each.register_forward_hook(path.leaving, always_call=True)
            stack.callback(entered.remove)
            stack.callback(left.remove)
        stack.enter_context(_causal_masks_unread())
        stack.enter_context(_Interception(found, path))
        yield found


@contextmanager
def _causal_masks_unread() -> Iterator[None]:
    """Keep `nn.TransformerEncoder` and `nn.TransformerDecoder` from reading their masks to find out if they are causal.

    An export cannot read values. The finding is a hint only: the mask is applied in any case.
    """
    original = transformer._detect_is_causal_mask
    transformer._detect_is_causal_mask = lambda mask, is_causal=None, size=None: is_causal is True
    try:
        yield
    finally:
        transformer._detect_is_causal_mask = original


class _ModulePath:
    """The path of the module that runs."""

    def __init__(self) -> None:
        self._names: list[str] = []

    @property
    def current(self) -> str:
        return (self._names[-1] if self._names else "") or ROOT

    def entering(self, name: str) -> Callable[[nn.Module, Any], None]:
        return lambda module, arguments: self._names.append(name)

    def leaving(self, module: nn.Module, arguments: Any, output: Any) -> None:
        self._names.pop()


class _Interception(TorchFunctionMode):
    """Computes attention by functions that also return its weights."""

    def __init__(self, found: FoundAttention, path: _ModulePath) -> None:
        super().__init__()
        self._found, self._path = found, path

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function is F.scaled_dot_product_attention:
            return self._attend(function, *args, **kwargs)[0]
        if function is F.multi_head_attention_forward:
            return self._multi_head(function, *args, **kwargs)
        return function(*args, **kwargs)

    def _multi_head(self, function: Any, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor | None]:
        """Compute multi-head attention by its own code, whose inner attention is intercepted."""
        bound = _MHA.bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        needs_weights, averages = given["need_weights"], given["average_attn_weights"]
        is_batched = given["query"].dim() == 3
        original = F.scaled_dot_product_attention
        weights: list[Tensor | None] = []

        def attend(*args: Any, **kwargs: Any) -> Tensor:
            context, made = self._attend(original, *args, **kwargs)
            weights.append(made)
            return context

        # The function looks its inner attention up here; modes do not see calls inside a function that they handle.
        F.scaled_dot_product_attention = attend
        try:
            output, _ = function(**{**given, "need_weights": False})
        finally:
            F.scaled_dot_product_attention = original
        if not needs_weights or not weights or weights[0] is None:
            return output, None
        shown = weights[0].mean(1) if averages else weights[0]
        return output, shown if is_batched else shown.squeeze(0)

    def _attend(
        self,
        function: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return context vectors, and weights where the tensors are [batch, (head,) position, feature]."""
        given = partial(function, query, key, value, attn_mask, dropout_p, is_causal)
        original: Callable[[], Tensor] = partial(given, scale=scale, enable_gqa=enable_gqa)
        if query.dim() not in (3, 4) or {key.dim(), value.dim()} != {query.dim()}:
            return original(), None
        name, heads = self._name(), query.dim() == 4
        queries, keys, values = (each if heads else each.unsqueeze(1) for each in (query, key, value))
        if enable_gqa:
            keys, values = (each.repeat_interleave(queries.shape[1] // each.shape[1], 1) for each in (keys, values))
        scale = queries.shape[-1] ** -0.5 if scale is None else scale
        mask = attn_mask if heads or attn_mask is None or attn_mask.dim() < 3 else attn_mask.unsqueeze(1)
        if is_causal:
            places = torch.arange(queries.shape[-2], device=query.device).unsqueeze(-1)
            mask = places >= torch.arange(keys.shape[-2], device=query.device)
        if not is_marking():
            context, weights = original(), _weights(queries, keys, mask, scale)
            self._found.weights[name] = weights
            return context, weights
        if can_be_marked(queries, keys, values):
            # A mask of numbers is added to scores: surgery finds those that the graph proves to be boolean.
            allowed, bias = (mask, None) if mask is None or mask.dtype == torch.bool else (None, mask)
            bias = None if bias is None else bias[(None,) * (4 - bias.dim())]
            context, weights = marked_attention(queries, keys, values, allowed, scale, bias=bias)
        else:
            weights = _weights(queries, keys, mask, scale)
            context = weights @ values
        self._found.weights[name] = weights
        return context if heads else context.squeeze(1), weights

    def _name(self) -> str:
        path = name = self._path.current
        number = 1
        while name in self._found.weights:
            number += 1
            name = f"{path}.{number}"
        return name


def _weights(query: Tensor, key: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """Compute softmax(scale · q kᵀ + mask); zeros for a query that the mask leaves no key, as PyTorch's context has."""
    scores = query @ key.transpose(-1, -2) * scale
    if mask is None:
        return scores.softmax(-1)
    if mask.dtype != torch.bool:
        attends = mask.amax(-1, keepdim=True) > -torch.inf
        return (scores + torch.where(attends, mask, 0)).softmax(-1) * attends
    return scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(-1) * mask
