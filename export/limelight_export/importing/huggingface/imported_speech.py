"""An encoder–decoder of transformers that writes what a recording says."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from limelight_export.importing.huggingface.imported_encoder_decoder import ImportedEncoderDecoder, cross_map
from limelight_models.network import StepAnswer

ALIGNMENT_MAP = "alignment"


class ImportedSpeech(ImportedEncoderDecoder):
    """Recording -> text, token by token.

    Args:
        model, layers, begin, allowed: as of `ImportedEncoderDecoder`.
        alignment: layer and head of the attention by which words are aligned with the recording.
    """

    def __init__(
        self, model: Any, layers: int, *, begin: int, allowed: Tensor | None, alignment: Sequence[tuple[int, int]]
    ) -> None:
        super().__init__(model, layers, begin=begin, padding=0, allowed=allowed)
        self._alignment = tuple(alignment)

    def source(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        return {"input_features": tensors["features"]}

    def step(self, token: Tensor, **tensors: Tensor) -> StepAnswer:
        answer = super().step(token, **tensors)
        if not self._alignment:
            return answer
        heads = [answer.maps[cross_map(layer)][:, head] for layer, head in self._alignment]
        return replace(answer, maps={**answer.maps, ALIGNMENT_MAP: torch.stack(heads, 1)})
