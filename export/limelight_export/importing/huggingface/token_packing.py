"""Padding in modules of transformers: token packing, of which they know nothing, by hooks while a model is exported.

Between the embeddings and the last layer, layers that treat each token by itself see real tokens alone
(`limelight_models.attention.token_packing`); projections are unpacked for attention, and what attention returns is
packed again.
"""

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

from torch import Tensor, nn

from limelight_export.importing.huggingface.architectures.architecture import PackingPlaces
from limelight_models.attention.export_markers import is_marking
from limelight_models.attention.token_packing import Packing

# From the hidden states of a model's output to those of its tokens, [batch, token, feature].
UnpackStates = Callable[[Sequence[Tensor]], list[Tensor]]


@contextlib.contextmanager
def packing_tokens(model: nn.Module, places: PackingPlaces | None, mask: Tensor) -> Iterator[UnpackStates]:
    """Pack the tokens of a batch while a model runs in an export; otherwise do nothing.

    Args:
        model: a model of transformers.
        places: None for a model without packing.
        mask: BOOL [batch, token], an input of the graph.
    Yields: what unpacks the hidden states.
    """
    if places is None or not is_marking():
        yield list
        return
    packing = Packing(mask)
    base: Any = getattr(model, str(model.base_model_prefix), model)
    unpacked = places.unpacked.replace("{last}", str(int(base.config.num_hidden_layers) - 1))
    # What the modules between embeddings and last layer put out is packed. The last hidden state is so only in models
    # whose last layers collect it themselves, before the hook unpacks what they return.
    collected: list[Tensor] = []
    with ExitStack() as hooks:
        for name, module in base.named_modules():
            if re.fullmatch(places.packed, name):
                hooks.callback(module.register_forward_hook(_after(packing.pack)).remove)
            if re.fullmatch(unpacked, name):
                hooks.callback(module.register_forward_hook(_after(packing.unpack, collected)).remove)
            if re.fullmatch(places.packed_inputs, name):
                hooks.callback(module.register_forward_pre_hook(_before(packing.pack)).remove)
        yield lambda states: [*map(packing.unpack, states[:-1]), *(collected or states[-1:])]


@contextlib.contextmanager
def clearing_padding(model: nn.Module, name: str, mask: Tensor) -> Iterator[None]:
    """Zero what a module embeds at padding while a model runs, as if the text ended there.

    Args:
        name: of the module below the base model; empty for none.
        mask: BOOL [batch, token].
    """
    if not name:
        yield
        return
    base = getattr(model, str(model.base_model_prefix), model)
    hook = base.get_submodule(name).register_forward_hook(_after(lambda embedded: embedded * mask[:, :, None]))
    try:
        yield
    finally:
        hook.remove()


def _after(
    change: Callable[[Tensor], Tensor], collected: list[Tensor] | None = None
) -> Callable[[nn.Module, Any, Any], Any]:
    """Make a hook that changes what a module returns. collected: gets the last hidden state if it returns them all."""

    def hook(module: nn.Module, given: Any, output: Any) -> Any:
        if isinstance(output, Tensor):
            return change(output)
        output.last_hidden_state = change(output.last_hidden_state)
        if collected is not None and getattr(output, "hidden_states", None):
            collected[:] = [output.last_hidden_state]
        return output

    return hook


def _before(change: Callable[[Tensor], Tensor]) -> Callable[[nn.Module, Any], Any]:
    return lambda module, given: (change(given[0]), *given[1:])
