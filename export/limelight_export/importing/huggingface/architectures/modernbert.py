"""ModernBERT: rotary positions, and windows in most layers."""

from typing import Any

from limelight_export.importing.huggingface.architectures.architecture import (
    EncoderArchitecture,
    PackingPlaces,
    encoder_fields,
)
from limelight_export.importing.huggingface.fields import Condition, one_of
from limelight_models.cards.taxonomy import Citation


def _is_plain(rotary: Any) -> bool:
    """Whether rotary frequencies are the same for every length; a trace would keep those of its own length."""
    kinds = rotary.values() if isinstance(rotary, dict) else ()
    return rotary is None or all(isinstance(each, dict) and each.get("rope_type") == "default" for each in kinds)


ARCHITECTURES = (
    EncoderArchitecture(
        model_type="modernbert",
        title="ModernBERT",
        citation=Citation(
            "Warner, Chaffin, Clavié, Weller, Hallström, Taghadouini, Gallagher, Biswas, Ladhak, Aarsen, Cooper, "
            "Adams, Howard, Poli",
            "Smarter, Better, Faster, Longer: A Modern Bidirectional Encoder",
            2024,
            "arXiv:2412.13663",
        ),
        fields=encoder_fields(
            "hidden_activation norm_eps norm_bias attention_bias layer_types "
            "global_rope_theta local_rope_theta global_attn_every_n_layers local_attention sliding_window mlp_bias "
            "decoder_bias classifier_pooling classifier_bias classifier_activation",
            harmless="initializer_cutoff_factor embedding_dropout mlp_dropout deterministic_flash_attn "
            "sparse_prediction sparse_pred_ignore_index reference_compile repad_logits_with_grad",
            only={"rope_parameters": Condition("of rope_type 'default'", _is_plain), "rope_scaling": one_of(None)},
        ),
        packing=PackingPlaces(
            packed="embeddings",
            unpacked=r"layers\.\d+\.attn\.Wqkv|final_norm",
            packed_inputs=r"layers\.\d+\.attn\.Wo",
        ),
    ),
)
