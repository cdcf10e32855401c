"""RoBERTa, and the models that have its modules."""

from limelight_export.importing.huggingface.architectures.architecture import (
    BERT_PACKING,
    EncoderArchitecture,
    encoder_fields,
    positions_after_padding,
)
from limelight_models.cards.taxonomy import Citation

_FIELDS = encoder_fields("type_vocab_size")

ARCHITECTURES = (
    EncoderArchitecture(
        model_type="roberta",
        title="RoBERTa",
        citation=Citation(
            "Liu, Ott, Goyal, Du, Joshi, Chen, Levy, Lewis, Zettlemoyer, Stoyanov",
            "RoBERTa: A Robustly Optimized BERT Pretraining Approach",
            2019,
            "arXiv:1907.11692",
        ),
        fields=_FIELDS,
        positions=positions_after_padding,
        packing=BERT_PACKING,
    ),
    EncoderArchitecture(
        model_type="xlm-roberta",
        title="XLM-RoBERTa",
        citation=Citation(
            "Conneau, Khandelwal, Goyal, Chaudhary, Wenzek, Guzmán, Grave, Ott, Zettlemoyer, Stoyanov",
            "Unsupervised Cross-lingual Representation Learning at Scale",
            2020,
            "ACL",
        ),
        fields=_FIELDS,
        positions=positions_after_padding,
        packing=BERT_PACKING,
    ),
    EncoderArchitecture(
        model_type="camembert",
        title="CamemBERT",
        citation=Citation(
            "Martin, Muller, Ortiz Suárez, Dupont, Romary, de la Clergerie, Seddah, Sagot",
            "CamemBERT: a Tasty French Language Model",
            2020,
            "ACL",
        ),
        fields=_FIELDS,
        positions=positions_after_padding,
        packing=BERT_PACKING,
    ),
)
