"""BART."""

from limelight_export.importing.huggingface.architectures.encoder_decoder import (
    EncoderDecoderArchitecture,
    bart_fields,
    bart_sizes,
)
from limelight_models.cards.taxonomy import Citation

ARCHITECTURES = (
    EncoderDecoderArchitecture(
        model_type="bart",
        title="BART",
        citation=Citation(
            "Lewis, Liu, Goyal, Ghazvininejad, Mohamed, Levy, Stoyanov, Zettlemoyer",
            "BART: Denoising Sequence-to-Sequence Pre-training for Natural Language Generation, Translation, and "
            "Comprehension",
            2020,
            "ACL",
        ),
        fields=bart_fields(harmless="gradient_checkpointing force_bos_token_to_be_generated"),
        sizes=bart_sizes,
    ),
)
