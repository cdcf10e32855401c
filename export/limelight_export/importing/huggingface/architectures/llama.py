"""Llama."""

from limelight_export.importing.huggingface.architectures.decoder import DecoderArchitecture, decoder_fields
from limelight_models.cards.taxonomy import Citation

ARCHITECTURES = (
    DecoderArchitecture(
        model_type="llama",
        title="Llama",
        citation=Citation(
            "Touvron, Lavril, Izacard, Martinet, Lachaux, Lacroix, Rozière, Goyal, Hambro, Azhar, Rodriguez, "
            "Joulin, Grave, Lample",
            "LLaMA: Open and Efficient Foundation Language Models",
            2023,
            "arXiv:2302.13971",
        ),
        fields=decoder_fields("hidden_act attention_bias mlp_bias"),
    ),
)
