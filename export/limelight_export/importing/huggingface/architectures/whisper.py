"""Whisper: speech to text."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from limelight_export.importing.huggingface.architectures.architecture import Kind
from limelight_export.importing.huggingface.architectures.encoder_decoder import EncoderDecoderArchitecture, bart_sizes
from limelight_export.importing.huggingface.fields import PLAIN, fields, one_of
from limelight_models.cards.taxonomy import Citation


@dataclass(frozen=True, kw_only=True)
class SpeechArchitecture(EncoderDecoderArchitecture):
    """An encoder of a recording, of which every second frame of the spectrogram becomes one of its own, and a decoder.

    Attributes:
        joined: frames of the spectrogram in one of the encoder's.
    """

    kind: ClassVar[Kind] = "speech"
    joined: int = 2


ARCHITECTURES = (
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
                **PLAIN,
                "is_decoder": one_of(False),
                "is_encoder_decoder": one_of(True),
                "use_weighted_layer_sum": one_of(False),
                # The client aligns words with the filter of the published models.
                "median_filter_width": one_of(7),
            },
        ),
        sizes=partial(bart_sizes, positions="max_target_positions"),
    ),
)
