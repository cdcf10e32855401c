"""Encoder–decoders, of texts and of speech."""

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from limelight_export.importing.huggingface.architectures.architecture import (
    WRITES,
    EncoderDecoderArchitecture,
    Kind,
    Sizes,
    bart_fields,
    bart_sizes,
)
from limelight_export.importing.huggingface.fields import fields, one_of
from limelight_models.cards.taxonomy import Citation, Taxonomy

# Relative positions have no limit; the published models were trained on so many tokens.
_T5_POSITIONS = 512


def _t5_sizes(config: Any) -> Sizes:
    heads, layers = int(config.num_heads), int(config.num_layers)
    return Sizes(
        layers=layers,
        heads=heads,
        decoder_layers=int(config.num_decoder_layers or layers),
        decoder_heads=heads,
        head_size=int(config.d_kv),
        positions=_T5_POSITIONS,
    )


@dataclass(frozen=True, kw_only=True)
class SpeechArchitecture(EncoderDecoderArchitecture):
    """An encoder of a recording, of which every second frame of the spectrogram becomes one of its own, and a decoder.

    Attributes:
        joined: frames of the spectrogram in one of the encoder's.
    """

    kind: ClassVar[Kind] = "speech"
    joined: int = 2


ARCHITECTURES = (
    # T5: relative positions, whose bias is added to unscaled scores.
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
            only=WRITES,
        ),
        sizes=_t5_sizes,
    ),
    EncoderDecoderArchitecture(
        model_type="bart",
        title="BART",
        citation=Citation(
            "Lewis, Liu, Goyal, Ghazvininejad, Mohamed, Levy, Stoyanov, Zettlemoyer",
            "BART: Denoising Sequence-to-Sequence Pre-training for Natural Language Generation, Translation, and "
            "Comprehension",
            2020,
            "ACL",
        ),
        fields=bart_fields(harmless="gradient_checkpointing force_bos_token_to_be_generated"),
        sizes=bart_sizes,
    ),
    # Marian: translation with sinusoidal positions.
    EncoderDecoderArchitecture(
        model_type="marian",
        title="Marian",
        citation=Citation(
            "Junczys-Dowmunt, Grundkiewicz, Dwojak, Hoang, Heafield, Neckermann, Seide, Germann, Aji, Bogoychev, "
            "Martins, Birch",
            "Marian: Fast Neural Machine Translation in C++",
            2018,
            "ACL",
        ),
        fields=bart_fields(
            # Another vocabulary of the output would need another tokenizer.
            only={
                "share_encoder_decoder_embeddings": one_of(True),
                "static_position_embeddings": one_of(True),
                "normalize_embedding": one_of(False),
            },
            used="decoder_vocab_size",
        ),
        sizes=bart_sizes,
    ),
    # Whisper: speech to text.
    SpeechArchitecture(
        model_type="whisper",
        title="Whisper",
        citation=Citation(
            "Radford, Kim, Xu, Brockman, McLeavey, Sutskever",
            "Robust Speech Recognition via Large-Scale Weak Supervision",
            2022,
            "arXiv:2212.04356",
        ),
        fields=fields(
            """
            vocab_size num_mel_bins d_model encoder_layers encoder_attention_heads encoder_ffn_dim decoder_layers
            decoder_attention_heads decoder_ffn_dim activation_function max_source_positions max_target_positions
            scale_embedding pad_token_id tie_word_embeddings num_hidden_layers suppress_tokens begin_suppress_tokens
            """,
            # Of training, and of a head that is not imported.
            harmless="""
            dropout attention_dropout activation_dropout encoder_layerdrop decoder_layerdrop init_std
            classifier_proj_size apply_spec_augment mask_time_prob mask_time_length mask_time_min_masks
            mask_feature_prob mask_feature_length mask_feature_min_masks forced_decoder_ids max_length
            """,
            only={
                **WRITES,
                "use_weighted_layer_sum": one_of(False),
                # The client aligns words with the filter of the published models.
                "median_filter_width": one_of(7),
            },
        ),
        sizes=partial(bart_sizes, positions="max_target_positions"),
    ),
)
