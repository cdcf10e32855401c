"""A decoder of transformers as a network of this repository."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from limelight_export.errors import CheckpointError
from limelight_export.importing.huggingface.decoder_attention import (
    DecoderPass,
    KeysAndValues,
    fix_rotary_frequencies,
    run_decoder,
)
from limelight_models.cards.hidden import named_states
from limelight_models.cards.results import State
from limelight_models.network import Answer, PromptedNetwork, StepAnswer


def prompt_map(layer: int) -> str:
    """Name the map of a layer over the tokens of the prompt."""
    return f"prompt.{layer}.self"


def output_map(layer: int) -> str:
    """Name the map of a layer from the output tokens."""
    return f"decoder.{layer}.self"


class ImportedDecoder(PromptedNetwork):
    """Prompt -> text, token by token, by a causal language model of transformers.

    Args:
        model: a decoder with its head.
        tokens: number of tokens that the lens reads from a vector.
    Raises:
        CheckpointError: its hidden states have different sizes.
    """

    def __init__(self, model: Any, tokens: int) -> None:
        super().__init__()
        fix_rotary_frequencies(model)
        self.model: Any = model
        self._tokens = tokens
        run = DecoderPass()
        self._norm, hidden = _try(model.get_decoder(), run)
        if len(sizes := {each.shape[-1] for each in hidden}) > 1:
            raise CheckpointError(
                f"vectors of {' and '.join(map(str, sorted(sizes)))} features follow one another in the decoder, "
                "which is not supported"
            )
        self._layers = len(run.kept)
        self.states = cache_states((key.shape[1], key.shape[3], value.shape[3]) for key, value in run.kept.values())

    def prefill(self, token: Tensor, position: Tensor) -> Mapping[str, Tensor]:
        """Read a prompt: its keys and values, its maps and its hidden states."""
        run, position = DecoderPass(), position.contiguous()  # XGLM looks at it as one row
        output = run_decoder(self.model.get_decoder(), run, input_ids=token, position_ids=position)
        maps = {prompt_map(layer): weights for layer, weights in run.maps.items()}
        return kept_states(run) | maps | named_states("prompt", output.hidden_states)

    def step(self, token: Tensor, **tensors: Tensor) -> StepAnswer:
        position = tensors["position"]
        cache = cached(tensors, self._layers)
        run = DecoderPass(cache, position)
        output = run_decoder(self.model, run, input_ids=token[:, None], position_ids=position[:, None])
        maps = {output_map(layer): weights[:, :, 0] for layer, weights in run.maps.items()}
        states = named_states("decoder", (each[:, 0] for each in output.hidden_states))
        return StepAnswer(output.logits[:, 0], kept_states(run), maps, states)

    def lens(self, vectors: Tensor, is_last: Tensor) -> tuple[Tensor, Tensor]:
        decoder = self.model.get_decoder()
        if self._norm:
            vectors = torch.where(is_last[:, None], vectors, decoder.get_submodule(self._norm)(vectors))
        with _returning(decoder, vectors[:, None]):  # so that the head is the library's own, with its scales and caps
            scores = self.model(input_ids=torch.zeros_like(is_last, dtype=torch.int64)[:, None], use_cache=False).logits
        best = scores[:, 0].log_softmax(-1).topk(self._tokens)
        return best.indices, best.values

    def forward(self, **tensors: Tensor) -> Answer:
        """Give scores after each token of a prompt, [batch, token, vocabulary], and the maps over it."""
        token = tensors["prompt_ids"]
        places = (tensors["prompt_mask"].cumsum(1) - 1).clamp(min=0)
        run = DecoderPass()
        output = run_decoder(self.model, run, input_ids=token, position_ids=places)
        return Answer({"scores": output.logits}, {prompt_map(layer): each for layer, each in run.maps.items()})


def _try(decoder: Any, run: DecoderPass) -> tuple[str, tuple[Tensor, ...]]:
    """Run a decoder over two tokens.

    Returns: the name of the norm behind its last layer, found by what it returns, empty for none; and hidden states.
    """
    made: list[tuple[str, Tensor]] = []
    hooks = [
        module.register_forward_hook(lambda _, __, output, name=name: made.append((name, output)))
        for name, module in decoder.named_children()
        if "Norm" in type(module).__name__
    ]
    places = torch.arange(2)[None]
    try:
        with torch.no_grad():
            output = run_decoder(decoder, run, input_ids=torch.zeros_like(places), position_ids=places)
    finally:
        for each in hooks:
            each.remove()
    last = output.last_hidden_state.reshape(-1)
    of_last = (name for name, each in reversed(made) if torch.equal(each.reshape(-1), last))
    return next(of_last, ""), output.hidden_states


class _Decoded:
    """What a decoder returns, of which heads read the vectors; everything else is None."""

    def __init__(self, vectors: Tensor) -> None:
        self.last_hidden_state = vectors

    def __getattr__(self, name: str) -> None:
        return None

    def __getitem__(self, place: int | slice) -> Any:
        return (self.last_hidden_state,)[place]


@contextlib.contextmanager
def _returning(decoder: Any, vectors: Tensor) -> Iterator[None]:
    """Let a decoder return vectors, as long as the block runs."""
    decoder.forward = lambda *_, **__: _Decoded(vectors)
    try:
        yield
    finally:
        del decoder.forward


def cache_states(sizes: Iterable[tuple[int, int, int]]) -> list[State]:
    """Describe the KV caches of a decoder. sizes: of each layer, heads of keys, and features of a key and a value."""
    return [
        State(input=f"{kind}.{layer}", output=f"next_{kind}.{layer}", cache=(heads, size))
        for layer, (heads, *of_both) in enumerate(sizes)
        for kind, size in zip(("keys", "values"), of_both, strict=True)
    ]


def kept_states(run: DecoderPass) -> dict[str, Tensor]:
    """Name the new keys and values of a pass as the outputs of its states."""
    return {
        f"next_{kind}.{layer}": each
        for layer, both in run.kept.items()
        for kind, each in zip(("keys", "values"), both, strict=True)
    }


def cached(tensors: Mapping[str, Tensor], layers: int, prefix: str = "") -> dict[int, KeysAndValues]:
    """Find the keys and values of each layer among the inputs of a step."""
    return {layer: (tensors[f"{prefix}keys.{layer}"], tensors[f"{prefix}values.{layer}"]) for layer in range(layers)}
