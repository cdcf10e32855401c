"""gpt-oss: sinks, and layers with and without a window."""

from limelight_export.importing.huggingface.architectures.decoder import DecoderArchitecture, decoder_fields
from limelight_models.cards.taxonomy import Citation

ARCHITECTURES = (
    DecoderArchitecture(
        model_type="gpt_oss",
        title="gpt-oss",
        citation=Citation("OpenAI", "gpt-oss-120b & gpt-oss-20b Model Card", 2025, "arXiv:2508.10925"),
        fields=decoder_fields(
            "hidden_act attention_bias sliding_window num_local_experts num_experts_per_tok experts_per_token "
            "swiglu_alpha swiglu_limit initial_context_length",
            harmless="router_aux_loss_coef output_router_logits",
        ),
        has_sinks=True,
        # The weights of chosen experts are gathered; other implementations depend on how many tokens chose each.
        options={"experts_implementation": "batched_mm"},
    ),
)
