"""A decoder of transformers as a network of this repository."""

from collections.abc import Iterable, Mapping

from torch import Tensor, nn

from limelight_export.importing.huggingface.decoder_attention import (
    DecoderPass,
    KeysAndValues,
    fix_rotary_frequencies,
    run_decoder,
)
from limelight_models.cards.results import State
from limelight_models.network import Answer, PromptedNetwork, StepAnswer


def prompt_map(layer: int) -> str:
    """Name the map of a layer over the tokens of the prompt."""
    return f"prompt.{layer}.self"


def output_map(layer: int) -> str:
    """Name the map of a layer from the output tokens."""
    return f"decoder.{layer}.self"


def named_states(stack: str, states: Iterable[Tensor]) -> dict[str, Tensor]:
    """Name the hidden states of a stack, the embeddings' first, as `HiddenStates` does."""
    return {f"{stack}.hidden.{layer}": each for layer, each in enumerate(states)}


class ImportedDecoder(PromptedNetwork):
    """Prompt -> text, token by token, by a causal language model of transformers.

    Args:
        model: a decoder with its head, whose `base_model` is the decoder.
        layers: number of its layers.
    """

    def __init__(self, model: nn.Module, layers: int) -> None:
        super().__init__()
        fix_rotary_frequencies(model)
        self.model = model
        self._layers = layers

    def prefill(self, token: Tensor, position: Tensor) -> Mapping[str, Tensor]:
        """Read a prompt: its keys and values, its maps and its hidden states."""
        run, decoder = DecoderPass(), self.model.base_model
        output = run_decoder(decoder, run, input_ids=token, position_ids=position)  # type: ignore[arg-type]
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

    def forward(self, **tensors: Tensor) -> Answer:
        """Give scores after each token of a prompt, [batch, token, vocabulary], and the maps over it."""
        token = tensors["prompt_ids"]
        places = (tensors["prompt_mask"].cumsum(1) - 1).clamp(min=0)
        run = DecoderPass()
        output = run_decoder(self.model, run, input_ids=token, position_ids=places)
        return Answer({"scores": output.logits}, {prompt_map(layer): each for layer, each in run.maps.items()})


def cache_states(layers: int, heads: int, head_size: int) -> list[State]:
    """Describe the KV caches of a decoder. heads: of keys; head_size: of each."""
    return [
        State(input=f"{kind}.{layer}", output=f"next_{kind}.{layer}", cache=(heads, head_size))
        for layer in range(layers)
        for kind in ("keys", "values")
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
