"""GPT-2."""

from limelight_export.importing.huggingface.architectures.decoder import DecoderArchitecture, decoder_fields
from limelight_export.importing.huggingface.fields import one_of
from limelight_models.cards.taxonomy import Citation

ARCHITECTURES = (
    DecoderArchitecture(
        model_type="gpt2",
        title="GPT-2",
        citation=Citation(
            "Radford, Wu, Child, Luan, Amodei, Sutskever",
            "Language Models are Unsupervised Multitask Learners",
            2019,
            "OpenAI",
        ),
        fields=decoder_fields(
            "n_embd n_layer n_head n_positions n_inner activation_function layer_norm_epsilon scale_attn_weights "
            "scale_attn_by_inverse_layer_idx",
            harmless="resid_pdrop embd_pdrop attn_pdrop n_ctx summary_type summary_use_proj summary_activation "
            "summary_proj_to_labels summary_first_dropout",
            # The eager attention of transformers has another order of rounding then; others ignore the field.
            only={"reorder_and_upcast_attn": one_of(False)},
        ),
    ),
)
