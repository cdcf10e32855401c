"""Mistral: a sliding window in every layer."""

from export.importing.huggingface.architectures.decoder import DecoderArchitecture, decoder_fields
from models.cards.taxonomy import Citation

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
)
