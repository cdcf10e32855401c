"""MPNet, whose scores have a bias by relative position."""

from typing import Any

from limelight_export.importing.huggingface.architectures.architecture import (
    EncoderArchitecture,
    PackingPlaces,
    encoder_fields,
)
from limelight_export.importing.huggingface.fields import one_of
from limelight_models.cards.taxonomy import Citation

_PADDING = 1  # the modules number positions from behind this id, whatever the configuration states


def _positions(config: Any) -> int:
    return int(config.max_position_embeddings) - _PADDING - 1


ARCHITECTURES = (
    EncoderArchitecture(
        model_type="mpnet",
        title="MPNet",
        citation=Citation(
            "Song, Tan, Qin, Lu, Liu",
            "MPNet: Masked and Permuted Pre-training for Language Understanding",
            2020,
            "NeurIPS",
        ),
        fields=encoder_fields(
            # The modules always use 32 buckets.
            only={"relative_attention_num_buckets": one_of(32), "pad_token_id": one_of(_PADDING)},
        ),
        positions=_positions,
        packing=PackingPlaces(
            packed="embeddings",
            unpacked=r"encoder\.layer\.\d+\.attention\.attn\.[qkv]|encoder",
            packed_inputs=r"encoder\.layer\.\d+\.attention\.attn\.o",
        ),
    ),
)
