"""BERT."""

from limelight_export.importing.huggingface.architectures.architecture import (
    BERT_PACKING,
    EncoderArchitecture,
    encoder_fields,
)
from limelight_models.cards.taxonomy import Citation

ARCHITECTURES = (
    EncoderArchitecture(
        model_type="bert",
        title="BERT",
        citation=Citation(
            "Devlin, Chang, Lee, Toutanova",
            "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding",
            2019,
            "NAACL",
        ),
        fields=encoder_fields(
            "type_vocab_size",
            # Of the multilingual checkpoints, whose pooler no released class reads.
            harmless="directionality pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers "
            "pooler_size_per_head pooler_type",
        ),
        packing=BERT_PACKING,
    ),
)
