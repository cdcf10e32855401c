"""ELECTRA."""

from limelight_export.importing.huggingface.architectures.architecture import (
    BERT_PACKING,
    EncoderArchitecture,
    encoder_fields,
)
from limelight_models.cards.taxonomy import Citation

ARCHITECTURES = (
    EncoderArchitecture(
        model_type="electra",
        title="ELECTRA",
        citation=Citation(
            "Clark, Luong, Le, Manning",
            "ELECTRA: Pre-training Text Encoders as Discriminators Rather Than Generators",
            2020,
            "ICLR",
        ),
        fields=encoder_fields(
            "type_vocab_size embedding_size",
            # Of the head for multiple choice.
            harmless="summary_type summary_use_proj summary_activation",
        ),
        packing=BERT_PACKING,
    ),
)
