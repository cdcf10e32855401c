"""T5: relative positions, whose bias is added to unscaled scores."""

from typing import Any

from limelight_export.importing.huggingface.architectures.encoder_decoder import EncoderDecoderArchitecture, Sizes
from limelight_export.importing.huggingface.fields import PLAIN, fields, one_of
from limelight_models.cards.taxonomy import Citation, Taxonomy

# Relative positions have no limit; the published models were trained on so many tokens.
_POSITIONS = 512


def _sizes(config: Any) -> Sizes:
    heads, layers = int(config.num_heads), int(config.num_layers)
    return Sizes(
        layers=layers,
        heads=heads,
        decoder_layers=int(config.num_decoder_layers or layers),
        decoder_heads=heads,
        head_size=int(config.d_kv),
        positions=_POSITIONS,
    )


ARCHITECTURES = (
    EncoderDecoderArchitecture(
        model_type="t5",
        title="T5",
        citation=Citation(
            "Raffel, Shazeer, Roberts, Lee, Narang, Matena, Zhou, Li, Liu",
            "Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer",
            2020,
            "JMLR",
        ),
        taxonomy=Taxonomy(
            scoring="multiplicative", query=("self-attentive", "basic"), multiplicity=("multi-head", "multi-hop")
        ),
        fields=fields(
            """
            vocab_size d_model d_kv d_ff num_layers num_decoder_layers num_heads relative_attention_num_buckets
            relative_attention_max_distance layer_norm_epsilon feed_forward_proj dense_act_fn is_gated_act pad_token_id
            tie_word_embeddings scale_decoder_outputs forced_bos_token_id bad_words_ids
            """,
            harmless="dropout_rate classifier_dropout n_positions max_length min_length num_beams",
            only={
                **PLAIN,
                "is_decoder": one_of(False),
                "is_encoder_decoder": one_of(True),
            },
        ),
        sizes=_sizes,
    ),
)
