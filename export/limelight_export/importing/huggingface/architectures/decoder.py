"""Description of a causal language model that can be imported."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from limelight_export.importing.huggingface.architectures.architecture import Architecture, Kind
from limelight_export.importing.huggingface.fields import PLAIN, Condition, Fields, fields, one_of


def _rotary_positions(config: Any) -> int:
    """Count the positions within which rotary frequencies do not depend on the length of a sequence."""
    stated = getattr(config, "rope_parameters", None) or {}
    kinds = [stated] if "rope_type" in stated else [each for each in stated.values() if isinstance(each, dict)]
    limits = [
        int(each.get("original_max_position_embeddings") or config.max_position_embeddings)
        for each in kinds
        if each.get("rope_type") in ("dynamic", "longrope")
    ]
    return min([int(config.max_position_embeddings), *limits])


@dataclass(frozen=True, kw_only=True)
class DecoderArchitecture(Architecture):
    """A causal language model: each token attends to itself and to tokens before it.

    Attributes:
        positions: the most tokens of a sequence, of a configuration.
        has_sinks: whether a part of each row's weight goes to no token, so that rows sum to less than 1.
        options: arguments of the model's constructor.
    """

    kind: ClassVar[Kind] = "decoder"
    positions: Callable[[Any], int] = _rotary_positions
    has_sinks: bool = False
    options: Mapping[str, str] = field(default_factory=dict)


# Fields of a decoder with rotary positions, by the names that most configurations use.
_DECODER_FIELDS = """
    vocab_size hidden_size num_hidden_layers num_attention_heads num_key_value_heads head_dim intermediate_size
    max_position_embeddings rms_norm_eps pad_token_id tie_word_embeddings rope_theta rope_scaling rope_parameters
    partial_rotary_factor layer_types
"""


def decoder_fields(used: str = "", *, harmless: str = "", only: Mapping[str, Condition] | None = None) -> Fields:
    """Classify the fields of a decoder: the usual ones, and its own."""
    return fields(
        f"{_DECODER_FIELDS} {used}",
        harmless=f"attention_dropout cache_implementation pretraining_tp {harmless}",
        only={
            **PLAIN,
            "is_decoder": one_of(True, False),
            "is_encoder_decoder": one_of(False),
            **(only or {}),
        },
    )
