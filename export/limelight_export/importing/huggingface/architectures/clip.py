"""CLIP: an encoder of pictures and one of texts, whose vectors are compared."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from limelight_export.errors import CheckpointError
from limelight_export.importing.huggingface.architectures.architecture import (
    Architecture,
    EncoderArchitecture,
    Kind,
    VisionArchitecture,
)
from limelight_export.importing.huggingface.fields import PLAIN, Fields, fields, one_of
from limelight_models.cards.taxonomy import Citation

_CITATION = Citation(
    "Radford, Kim, Hallacy, Ramesh, Goh, Agarwal, Sastry, Askell, Mishkin, Clark, Krueger, Sutskever",
    "Learning Transferable Visual Models From Natural Language Supervision",
    2021,
    "ICML",
)
_SHARED = """
    hidden_size intermediate_size projection_dim num_hidden_layers num_attention_heads hidden_act layer_norm_eps
"""
_HARMLESS = "attention_dropout dropout"
_ONLY = {**PLAIN, "is_decoder": one_of(False), "is_encoder_decoder": one_of(False)}


@dataclass(frozen=True, kw_only=True)
class TwoTowerArchitecture(Architecture):
    """An encoder of pictures and one of texts; each has fields of its own."""

    kind: ClassVar[Kind] = "two-tower"
    text: EncoderArchitecture
    vision: VisionArchitecture

    def check_parts(self, config: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the fields of both towers that change nothing. Raises CheckpointError as of `Fields.check`."""
        towers = {"text_config": self.text, "vision_config": self.vision}
        found: set[str] = set()
        for name, tower in towers.items():
            # transformers takes the fields of the second in place of the first.
            for stated in (config.get(name) or {}, config.get(f"{name}_dict") or {}):
                if not isinstance(stated, Mapping):
                    raise CheckpointError(f"config.json states a {name} that is not an object")
                found.update(tower.fields.check({"model_type": tower.model_type, **stated}))
        return tuple(sorted(found))


def _fields(used: str) -> Fields:
    return fields(f"{_SHARED} {used}", harmless=_HARMLESS, only=_ONLY)


ARCHITECTURES = (
    TwoTowerArchitecture(
        model_type="clip",
        title="CLIP",
        citation=_CITATION,
        fields=fields(
            "text_config vision_config text_config_dict vision_config_dict projection_dim logit_scale_init_value",
            harmless="tie_word_embeddings",
            only=_ONLY,
        ),
        text=EncoderArchitecture(
            model_type="clip_text_model",
            title="CLIP",
            citation=_CITATION,
            fields=_fields("vocab_size max_position_embeddings pad_token_id tie_word_embeddings"),
        ),
        vision=VisionArchitecture(
            model_type="clip_vision_model",
            title="CLIP",
            citation=_CITATION,
            fields=_fields("num_channels image_size patch_size tie_word_embeddings"),
            leading=("class",),
        ),
    ),
)
