"""Qwen 2 and 3."""

from limelight_export.importing.huggingface.architectures.decoder import DecoderArchitecture, decoder_fields
from limelight_models.cards.taxonomy import Citation

ARCHITECTURES = (
    DecoderArchitecture(
        model_type="qwen2",
        title="Qwen2",
        citation=Citation(
            "Yang, Yang, Hui, Zheng, Yu, Zhou, Li, Li, Liu, Huang, others",
            "Qwen2 Technical Report",
            2024,
            "arXiv:2407.10671",
        ),
        fields=decoder_fields("hidden_act use_sliding_window sliding_window max_window_layers"),
    ),
    DecoderArchitecture(
        model_type="qwen3",
        title="Qwen3",
        citation=Citation("Qwen Team", "Qwen3 Technical Report", 2025, "arXiv:2505.09388"),
        fields=decoder_fields("hidden_act attention_bias use_sliding_window sliding_window max_window_layers"),
    ),
)
