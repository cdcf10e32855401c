"""An encoder–decoder of transformers as a network of this repository."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from limelight_export.importing.huggingface.attention import run_with_maps
from limelight_export.importing.huggingface.decoder_attention import DecoderPass, PositionsOfPass, run_decoder
from limelight_export.importing.huggingface.imported_decoder import cached, kept_states, output_map
from limelight_models.cards.hidden import named_states
from limelight_models.cards.results import NEVER
from limelight_models.network import Answer, GeneratingNetwork, StepAnswer

_MEMORY = "memory_"


def source_map(layer: int) -> str:
    """Name the map of a layer over the tokens of the source."""
    return f"encoder.{layer}.self"


def cross_map(layer: int) -> str:
    """Name the map of a layer from the output tokens over those of the source."""
    return f"decoder.{layer}.cross"


class ImportedEncoderDecoder(GeneratingNetwork):
    """Source -> text, token by token, by an encoder–decoder of transformers.

    Args:
        model: a model with its head.
        layers: number of layers of its decoder.
        begin: token that the decoder starts with.
        padding: token id of padding.
        allowed: BOOL [position, token]: the tokens that may follow each of the first positions; the last row holds for
            all that come after. None where every token may follow.
    """

    def __init__(self, model: Any, layers: int, *, begin: int, padding: int, allowed: Tensor | None = None) -> None:
        super().__init__()
        self.model: Any = model
        self.allowed: Tensor | None
        self.register_buffer("allowed", allowed)
        self._layers, self._begin, self._padding = layers, begin, padding
        decoder = model.get_decoder()
        if isinstance(getattr(decoder, "embed_positions", None), nn.Embedding):
            decoder.embed_positions = PositionsOfPass(decoder.embed_positions)

    def encode(self, **tensors: Tensor) -> Mapping[str, Tensor]:
        """Give the encoder's maps and hidden states, and what each layer of the decoder makes of its result."""
        output, maps = run_with_maps(self.model.get_encoder(), **self.source(tensors))
        run, memory = DecoderPass(), output.last_hidden_state
        begin = torch.full((memory.shape[0], 1), self._begin)
        run_decoder(self.model.get_decoder(), run, input_ids=begin, encoder_hidden_states=memory)
        projected = {
            f"{_MEMORY}{kind}.{layer}": each
            for layer, both in run.projected.items()
            for kind, each in zip(("keys", "values"), both, strict=True)
        }
        named = {source_map(layer): weights for layer, weights in enumerate(maps)}
        return named | named_states("encoder", output.hidden_states) | projected

    def source(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return the arguments of the library's encoder."""
        mask = tensors["token_mask"]
        return {
            "input_ids": torch.where(mask, tensors["token_ids"], self._padding),
            "attention_mask": mask.to(torch.int64),
        }

    def scores(self, logits: Tensor, position: Tensor) -> Tensor:
        """Return the scores of the token behind a position of what the library gives, both [batch, token]."""
        if self.allowed is None:
            return logits
        return torch.where(self.allowed[position.clamp(max=len(self.allowed) - 1)], logits, NEVER)

    def step(self, token: Tensor, **tensors: Tensor) -> StepAnswer:
        run = DecoderPass(
            cached(tensors, self._layers),
            tensors["position"],
            memory=cached(tensors, self._layers, _MEMORY),
            memory_mask=tensors.get("token_mask"),
        )
        # The layers take the memory of the pass; what is given here is projected in vain, and pruned.
        unread = self.model.get_input_embeddings()(token[:, None])
        output = run_decoder(self.model, run, decoder_input_ids=token[:, None], encoder_outputs=(unread,))
        maps = {output_map(layer): weights[:, :, 0] for layer, weights in run.maps.items()}
        maps |= {cross_map(layer): weights[:, :, 0] for layer, weights in run.memory_maps.items()}
        states = named_states("decoder", (each[:, 0] for each in output.decoder_hidden_states))
        return StepAnswer(self.scores(output.logits[:, 0], tensors["position"]), kept_states(run), maps, states)

    def forward(self, **tensors: Tensor) -> Answer:
        """Give the encoder's maps."""
        encoded = self.encode(**tensors)
        return Answer({}, {name: tensor for name, tensor in encoded.items() if name.endswith(".self")})
