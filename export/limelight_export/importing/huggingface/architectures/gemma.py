"""Gemma 2 and 3: layers with and without a window."""

from limelight_export.importing.huggingface.architectures.decoder import DecoderArchitecture, decoder_fields
from limelight_export.importing.huggingface.fields import one_of
from limelight_models.cards.taxonomy import Citation

ARCHITECTURES = (
    DecoderArchitecture(
        model_type="gemma2",
        title="Gemma 2",
        citation=Citation(
            "Gemma Team", "Gemma 2: Improving Open Language Models at a Practical Size", 2024, "arXiv:2408.00118"
        ),
        fields=decoder_fields(
            "hidden_activation attention_bias query_pre_attn_scalar sliding_window final_logit_softcapping "
            "attn_logit_softcapping",
            harmless="hidden_act",
            only={"use_bidirectional_attention": one_of(None, False)},
        ),
    ),
    DecoderArchitecture(
        model_type="gemma3_text",
        title="Gemma 3",
        citation=Citation("Gemma Team", "Gemma 3 Technical Report", 2025, "arXiv:2503.19786"),
        fields=decoder_fields(
            "hidden_activation attention_bias query_pre_attn_scalar sliding_window sliding_window_pattern "
            "_sliding_window_pattern rope_local_base_freq final_logit_softcapping",
            # transformers reads it no more, and would compute scores without a cap.
            only={"use_bidirectional_attention": one_of(None, False), "attn_logit_softcapping": one_of(None)},
        ),
    ),
)
