"""DeBERTa, versions 2 and 3: scores of content to position and of position to content."""

from limelight_export.importing.huggingface.architectures.architecture import EncoderArchitecture, encoder_fields
from limelight_export.importing.huggingface.fields import one_of
from limelight_models.cards.taxonomy import Citation

ARCHITECTURES = (
    EncoderArchitecture(
        model_type="deberta-v2",
        title="DeBERTa",
        citation=Citation(
            "He, Liu, Gao, Chen", "DeBERTa: Decoding-enhanced BERT with Disentangled Attention", 2021, "ICLR"
        ),
        fields=encoder_fields(
            "type_vocab_size embedding_size relative_attention max_relative_positions position_buckets pos_att_type "
            "share_att_key position_biased_input norm_rel_ebd conv_kernel_size conv_groups conv_act "
            "attention_head_size pooler_hidden_size pooler_hidden_act legacy",
            harmless="conv_dropout cls_dropout",
            only={"z_steps": one_of(0, 1)},  # read by no released class
        ),
    ),
)
