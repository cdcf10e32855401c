"""Marian: translation with sinusoidal positions."""

from limelight_export.importing.huggingface.architectures.encoder_decoder import (
    EncoderDecoderArchitecture,
    bart_fields,
    bart_sizes,
)
from limelight_export.importing.huggingface.fields import one_of
from limelight_models.cards.taxonomy import Citation

ARCHITECTURES = (
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
)
