"""Mistral and Mixtral: a sliding window in every layer; Mixtral chooses among experts for each token."""

from limelight_export.importing.huggingface.architectures.decoder import DecoderArchitecture, decoder_fields
from limelight_models.cards.taxonomy import Citation

ARCHITECTURES = (
    DecoderArchitecture(
        model_type="mistral",
        title="Mistral",
        citation=Citation(
            "Jiang, Sablayrolles, Mensch, Bamford, Chaplot, de las Casas, Bressand, Lengyel, "
            "Lample, Saulnier, Lavaud, Lachaux, Stock, Le Scao, Lavril, Wang, Lacroix, El Sayed",
            "Mistral 7B",
            2023,
            "arXiv:2310.06825",
        ),
        fields=decoder_fields("hidden_act sliding_window"),
    ),
    DecoderArchitecture(
        model_type="mixtral",
        title="Mixtral",
        citation=Citation("Jiang, Sablayrolles, Roux, Mensch, others", "Mixtral of Experts", 2024, "arXiv:2401.04088"),
        fields=decoder_fields(
            "hidden_act sliding_window num_local_experts num_experts_per_tok",
            harmless="output_router_logits router_aux_loss_coef router_jitter_noise",
        ),
        # The only one of transformers' ways to run experts that can be exported.
        options={"experts_implementation": "batched_mm"},
    ),
)
