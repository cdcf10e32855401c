"""DistilBERT."""

from limelight_export.importing.huggingface.architectures.architecture import (
    EncoderArchitecture,
    PackingPlaces,
    encoder_fields,
)
from limelight_models.cards.taxonomy import Citation

ARCHITECTURES = (
    EncoderArchitecture(
        model_type="distilbert",
        title="DistilBERT",
        citation=Citation(
            "Sanh, Debut, Chaumond, Wolf",
            "DistilBERT, a distilled version of BERT: smaller, faster, cheaper and lighter",
            2019,
            "arXiv:1910.01108",
        ),
        fields=encoder_fields(
            # The weights of sinusoidal positions are in the checkpoint like any others.
            "n_layers n_heads dim hidden_dim activation sinusoidal_pos_embds",
            harmless="dropout qa_dropout seq_classif_dropout tie_weights_",
        ),
        packing=PackingPlaces(
            packed="embeddings",
            unpacked=r"transformer\.layer\.\d+\.attention\.[qkv]_lin|transformer",
            packed_inputs=r"transformer\.layer\.\d+\.attention\.out_lin",
        ),
    ),
)
