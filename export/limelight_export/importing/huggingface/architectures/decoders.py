"""Causal language models."""

from limelight_export.importing.huggingface.architectures.architecture import DecoderArchitecture, decoder_fields
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
    DecoderArchitecture(
        model_type="llama",
        title="Llama",
        citation=Citation(
            "Touvron, Lavril, Izacard, Martinet, Lachaux, Lacroix, Rozière, Goyal, Hambro, Azhar, Rodriguez, "
            "Joulin, Grave, Lample",
            "LLaMA: Open and Efficient Foundation Language Models",
            2023,
            "arXiv:2302.13971",
        ),
        fields=decoder_fields("hidden_act attention_bias mlp_bias"),
    ),
    # Mistral and Mixtral: a sliding window in every layer; Mixtral chooses among experts for each token.
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
    DecoderArchitecture(
        model_type="qwen2",
        title="Qwen2",
        citation=Citation(
            "Yang, Yang, Hui, Zheng, Yu, Zhou, Li, Li, Liu, Huang, others",
            "Qwen2 Technical Report",
            2024,
            "arXiv:2407.10671",
        ),
        fields=decoder_fields("hidden_act use_sliding_window sliding_window max_window_layers"),
    ),
    DecoderArchitecture(
        model_type="qwen3",
        title="Qwen3",
        citation=Citation("Qwen Team", "Qwen3 Technical Report", 2025, "arXiv:2505.09388"),
        fields=decoder_fields("hidden_act attention_bias use_sliding_window sliding_window max_window_layers"),
    ),
    # Gemma 2 and 3: layers with and without a window.
    DecoderArchitecture(
        model_type="gemma2",
        title="Gemma 2",
        citation=Citation(
            "Gemma Team", "Gemma 2: Improving Open Language Models at a Practical Size", 2024, "arXiv:2408.00118"
        ),
        fields=decoder_fields(
            "hidden_activation attention_bias query_pre_attn_scalar sliding_window final_logit_softcapping "
            "attn_logit_softcapping",
            harmless="hidden_act",
            only={"use_bidirectional_attention": one_of(None, False)},
        ),
    ),
    DecoderArchitecture(
        model_type="gemma3_text",
        title="Gemma 3",
        citation=Citation("Gemma Team", "Gemma 3 Technical Report", 2025, "arXiv:2503.19786"),
        fields=decoder_fields(
            "hidden_activation attention_bias query_pre_attn_scalar sliding_window sliding_window_pattern "
            "_sliding_window_pattern rope_local_base_freq final_logit_softcapping use_bidirectional_attention",
            # transformers reads it no more, and would compute scores without a cap.
            only={"attn_logit_softcapping": one_of(None)},
        ),
    ),
    # gpt-oss: sinks, and layers with and without a window.
    DecoderArchitecture(
        model_type="gpt_oss",
        title="gpt-oss",
        citation=Citation("OpenAI", "gpt-oss-120b & gpt-oss-20b Model Card", 2025, "arXiv:2508.10925"),
        fields=decoder_fields(
            "hidden_act attention_bias sliding_window num_local_experts num_experts_per_tok experts_per_token "
            "swiglu_alpha swiglu_limit initial_context_length",
            harmless="router_aux_loss_coef output_router_logits",
        ),
        has_sinks=True,
        # The weights of chosen experts are gathered; other implementations depend on how many tokens chose each.
        options={"experts_implementation": "batched_mm"},
    ),
)
