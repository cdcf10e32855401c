"""An encoder–decoder of transformers that writes what a recording says."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from export.importing.huggingface.imported_encoder_decoder import ImportedEncoderDecoder, cross_map
from models.network import StepAnswer

ALIGNMENT_MAP = "alignment"
# Score of a token that is never put out: far below those of models, and within the range of float16.
NEVER = -1e4


class ImportedSpeech(ImportedEncoderDecoder):
    """Recording -> text, token by token.

    Args:
        model, layers, begin: as of `ImportedEncoderDecoder`.
        allowed: BOOL [position, token]: the tokens that may follow each of the first positions; the last row holds for
            all that come after.
        alignment: layer and head of the attention by which words are aligned with the recording.
    """

    def __init__(
        self, model: Any, layers: int, *, begin: int, allowed: Tensor, alignment: Sequence[tuple[int, int]]
    ) -> None:
        super().__init__(model, layers, begin=begin, padding=0, marked=True)
        self.allowed: Tensor
        self.register_buffer("allowed", allowed)
        self._alignment = tuple(alignment)

    def source(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        return {"input_features": tensors["features"]}

    def scores(self, logits: Tensor, position: Tensor) -> Tensor:
        return torch.where(self.allowed[position.clamp(max=len(self.allowed) - 1)], logits, NEVER)

    def step(self, token: Tensor, **tensors: Tensor) -> StepAnswer:
        answer = super().step(token, **tensors)
        if not self._alignment:
            return answer
        heads = [answer.maps[cross_map(layer)][:, head] for layer, head in self._alignment]
        return StepAnswer(answer.scores, answer.states, {**answer.maps, ALIGNMENT_MAP: torch.stack(heads, 1)})
