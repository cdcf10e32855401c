"""Causal language models."""

from limelight_export.importing.huggingface.architectures.architecture import (
    ENCODES,
    DecoderArchitecture,
    decoder_fields,
)
from limelight_export.importing.huggingface.fields import fields, one_of
from limelight_models.cards.taxonomy import Citation, Taxonomy

# Usual fields that most modules do not read.
_NOT_READ = "partial_rotary_factor layer_types"
# Of heads that classify.
_SUMMARY = "summary_type summary_use_proj summary_activation summary_proj_to_labels summary_first_dropout"

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
            harmless=f"resid_pdrop embd_pdrop attn_pdrop n_ctx {_SUMMARY}",
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
    DecoderArchitecture(
        model_type="phi3",
        title="Phi-3",
        citation=Citation(
            "Abdin, Aneja, Awadalla, Awadallah, others",
            "Phi-3 Technical Report: A Highly Capable Language Model Locally on Your Phone",
            2024,
            "arXiv:2404.14219",
        ),
        fields=decoder_fields(
            "hidden_act sliding_window original_max_position_embeddings",
            harmless="resid_pdrop embd_pdrop",
            # Of Phi-4, whose other values the modules do not compute.
            only={
                "attention_bias": one_of(False),
                "mlp_bias": one_of(False),
                "lm_head_bias": one_of(False),
                "full_attn_mod": one_of(1),
                "interpolate_factor": one_of(1),
            },
            without="layer_types",
        ),
    ),
    # A part of each head is turned; attention and the layer behind it may read the same vectors.
    DecoderArchitecture(
        model_type="gpt_neox",
        title="GPT-NeoX",
        citation=Citation(
            "Black, Biderman, Hallahan, Anthony, Gao, Golding, He, Leahy, McDonell, Phang, Pieler, Prashanth, Purohit, "
            "Reynolds, Tow, Wang, Weinbach",
            "GPT-NeoX-20B: An Open-Source Autoregressive Language Model",
            2022,
            "arXiv:2204.06745",
        ),
        fields=decoder_fields(
            "hidden_act attention_bias layer_norm_eps use_parallel_residual rotary_pct rotary_emb_base",
            harmless="hidden_dropout classifier_dropout hidden_dropout_prob attention_probs_dropout_prob",
            without="num_key_value_heads head_dim rms_norm_eps rope_theta partial_rotary_factor layer_types",
        ),
    ),
    DecoderArchitecture(
        model_type="olmo",
        title="OLMo",
        citation=Citation(
            "Groeneveld, Beltagy, Walsh, Bhagia, others",
            "OLMo: Accelerating the Science of Language Models",
            2024,
            "arXiv:2402.00838",
        ),
        fields=decoder_fields("hidden_act attention_bias clip_qkv", without=f"rms_norm_eps {_NOT_READ}"),
    ),
    DecoderArchitecture(
        model_type="olmo2",
        title="OLMo 2",
        citation=Citation("Walsh, Soldaini, Groeneveld, Lo, others", "2 OLMo 2 Furious", 2024, "arXiv:2501.00656"),
        fields=decoder_fields("hidden_act attention_bias", without=_NOT_READ),
    ),
    # Embeddings, scores, residuals and the head's scores have factors of their own.
    DecoderArchitecture(
        model_type="granite",
        title="Granite",
        citation=Citation(
            "Shen, Stallone, Mishra, Zhang, Tan, Prasad, Meza Soria, Cox, Panda",
            "Power Scheduler: A Batch Size and Token Number Agnostic Learning Rate Scheduler",
            2024,
            "arXiv:2408.13359",
        ),
        fields=decoder_fields(
            "hidden_act attention_bias mlp_bias embedding_multiplier attention_multiplier residual_multiplier "
            "logits_scaling",
            without=_NOT_READ,
        ),
    ),
    DecoderArchitecture(
        model_type="cohere",
        title="Command R",
        citation=Citation(
            "Cohere Team",
            "Command-R: Retrieval Augmented Generation at Production Scale",
            2024,
            "cohere.com/blog/command-r",
        ),
        fields=decoder_fields(
            "hidden_act attention_bias layer_norm_eps logit_scale use_qk_norm",
            harmless="model_max_length",  # of the tokenizer
            without=f"rms_norm_eps {_NOT_READ}",
        ),
    ),
    # Positions are counted from 2 on.
    DecoderArchitecture(
        model_type="opt",
        title="OPT",
        citation=Citation(
            "Zhang, Roller, Goyal, Artetxe, Chen, Chen, Dewan, Diab, Li, Lin, Mihaylov, Ott, Shleifer, Shuster, Simig, "
            "Koura, Sridhar, Wang, Zettlemoyer",
            "OPT: Open Pre-trained Transformer Language Models",
            2022,
            "arXiv:2205.01068",
        ),
        fields=decoder_fields(
            "hidden_size num_hidden_layers num_attention_heads ffn_dim max_position_embeddings activation_function "
            "do_layer_norm_before _remove_final_layer_norm word_embed_proj_dim enable_bias "
            "layer_norm_elementwise_affine",
            harmless="dropout activation_dropout layerdrop init_std",
            # Galactica states them; the modules do not read them.
            only={"learned_embeddings": one_of(True), "scale_embeddings": one_of(False)},
            usual="",
        ),
    ),
    # All queries of a layer have one head of keys, unless `multi_query` is false.
    DecoderArchitecture(
        model_type="gpt_bigcode",
        title="GPT-BigCode",
        citation=Citation(
            "Ben Allal, Li, Kocetkov, Mou, others", "SantaCoder: don't reach for the stars!", 2023, "arXiv:2301.03988"
        ),
        fields=decoder_fields(
            "n_embd n_layer n_head n_positions n_inner activation_function layer_norm_epsilon scale_attn_weights "
            "multi_query num_key_value_heads",
            harmless=f"resid_pdrop embd_pdrop attn_pdrop {_SUMMARY} attention_softmax_in_fp32 "
            "scale_attention_softmax_in_fp32 inference_runner max_batch_size max_sequence_length pad_key_length "
            "pre_allocate_kv_cache validate_runner_input",
            usual="",
        ),
    ),
    DecoderArchitecture(
        model_type="starcoder2",
        title="StarCoder2",
        citation=Citation(
            "Lozhkov, Li, Ben Allal, Cassano, others",
            "StarCoder 2 and The Stack v2: The Next Generation",
            2024,
            "arXiv:2402.19173",
        ),
        fields=decoder_fields(
            "hidden_act use_bias norm_epsilon sliding_window",
            # The last four say again, for other programs, what others say.
            harmless="residual_dropout embedding_dropout activation_function layer_norm_epsilon "
            "attention_softmax_in_fp32 scale_attention_softmax_in_fp32",
            only={
                "mlp_type": one_of("default"),
                "norm_type": one_of("layer_norm"),
                "scale_attn_weights": one_of(True),
            },
            without=f"rms_norm_eps {_NOT_READ}",
        ),
    ),
    # Some layers have no positions.
    DecoderArchitecture(
        model_type="smollm3",
        title="SmolLM3",
        citation=Citation(
            "Bakouch, Ben Allal, Lozhkov, Tazi, Tunstall, others",
            "SmolLM3: smol, multilingual, long-context reasoner",
            2025,
            "huggingface.co/blog/smollm3",
        ),
        fields=decoder_fields(
            "hidden_act attention_bias mlp_bias no_rope_layers no_rope_layer_interval use_sliding_window "
            "sliding_window",
            harmless="max_window_layers",
            without="partial_rotary_factor",
        ),
    ),
    DecoderArchitecture(
        model_type="glm",
        title="GLM-4",
        citation=Citation(
            "Zeng, Xu, Wang, Zhang, others",
            "ChatGLM: A Family of Large Language Models from GLM-130B to GLM-4 All Tools",
            2024,
            "arXiv:2406.12793",
        ),
        fields=decoder_fields("hidden_act attention_bias", without="layer_types"),
    ),
    DecoderArchitecture(
        model_type="nemotron",
        title="Nemotron-4",
        citation=Citation(
            "Parmar, Prabhumoye, Jennings, Patwary, others", "Nemotron-4 15B Technical Report", 2024, "arXiv:2402.16819"
        ),
        fields=decoder_fields("hidden_act attention_bias mlp_bias norm_eps", without="rms_norm_eps layer_types"),
    ),
    DecoderArchitecture(
        model_type="biogpt",
        title="BioGPT",
        citation=Citation(
            "Luo, Sun, Xia, Qin, Zhang, Poon, Liu",
            "BioGPT: generative pre-trained transformer for biomedical text generation and mining",
            2022,
            "Briefings in Bioinformatics",
        ),
        fields=decoder_fields(
            "hidden_size num_hidden_layers num_attention_heads intermediate_size max_position_embeddings hidden_act "
            "scale_embedding",
            # Its norms have PyTorch's own epsilon, whatever is stated.
            harmless="layer_norm_eps hidden_dropout_prob attention_probs_dropout_prob activation_dropout layerdrop",
            usual="",
        ),
    ),
    # Latent attention: keys and values of all heads are made of one short vector. Caches hold what is made.
    DecoderArchitecture(
        model_type="deepseek_v3",
        title="DeepSeek-V3",
        citation=Citation("DeepSeek-AI", "DeepSeek-V3 Technical Report", 2024, "arXiv:2412.19437"),
        fields=decoder_fields(
            "hidden_act attention_bias q_lora_rank kv_lora_rank qk_rope_head_dim qk_nope_head_dim qk_head_dim "
            "v_head_dim rope_interleave moe_intermediate_size first_k_dense_replace n_routed_experts num_local_experts "
            "n_shared_experts num_experts_per_tok n_group topk_group norm_topk_prob routed_scaling_factor",
            # Layers behind the last write drafts of more tokens.
            harmless="num_nextn_predict_layers num_mtp_layers output_router_logits router_aux_loss_coef aux_loss_alpha "
            "seq_aux ep_size",
            only={
                "moe_layer_freq": one_of(1),
                "scoring_func": one_of("sigmoid"),
                "topk_method": one_of("noaux_tc"),
            },
            without=_NOT_READ,
        ),
        options={"experts_implementation": "batched_mm"},
    ),
    # The others compute attention by themselves (`decoder_modules`).
    # GPT-Neo: scores are not scaled; layers with and without a window.
    DecoderArchitecture(
        model_type="gpt_neo",
        title="GPT-Neo",
        citation=Citation(
            "Black, Gao, Wang, Leahy, Biderman",
            "GPT-Neo: Large Scale Autoregressive Language Modeling with Mesh-Tensorflow",
            2021,
            "Zenodo",
        ),
        fields=decoder_fields(
            "hidden_size num_layers num_heads intermediate_size max_position_embeddings activation_function "
            "layer_norm_epsilon attention_types attention_layers window_size",
            harmless=f"resid_dropout embed_dropout classifier_dropout {_SUMMARY}",
            usual="",
        ),
        taxonomy=Taxonomy(scoring="multiplicative", query="self-attentive", multiplicity="multi-head"),
    ),
    DecoderArchitecture(
        model_type="gptj",
        title="GPT-J",
        citation=Citation(
            "Wang, Komatsuzaki", "GPT-J-6B: A 6 Billion Parameter Autoregressive Language Model", 2021, "EleutherAI"
        ),
        fields=decoder_fields(
            "n_embd n_layer n_head n_positions n_inner rotary_dim activation_function layer_norm_epsilon",
            harmless=f"resid_pdrop embd_pdrop attn_pdrop {_SUMMARY}",
            only={"rotary": one_of(True), "scale_attn_weights": one_of(True)},
            usual="",
        ),
    ),
    # Bloom and MPT: no positions; scores fall with the distance. Their limit is the length that they were trained with.
    DecoderArchitecture(
        model_type="bloom",
        title="BLOOM",
        citation=Citation(
            "Le Scao, Fan, Akiki, Pavlick, others",
            "BLOOM: A 176B-Parameter Open-Access Multilingual Language Model",
            2022,
            "arXiv:2211.05100",
        ),
        fields=decoder_fields(
            "hidden_size n_embed n_layer num_hidden_layers n_head num_attention_heads layer_norm_epsilon "
            "apply_residual_connection_post_layernorm seq_length",
            harmless="hidden_dropout pretraining_pp bias_dropout_fusion masked_softmax_fusion skip_bias_add "
            "attention_softmax_in_fp32 offset_alibi",
            only={
                "slow_but_exact": one_of(False),  # leaves a bias out where the model was trained in several parts
                "n_inner": one_of(None),
                "skip_bias_add_qkv": one_of(False),
            },
            usual="",
        ),
        positions=lambda config: int(getattr(config, "seq_length", None) or 2048),
    ),
    DecoderArchitecture(
        model_type="xglm",
        title="XGLM",
        citation=Citation(
            "Lin, Mihaylov, Artetxe, Wang, others",
            "Few-shot Learning with Multilingual Generative Language Models",
            2022,
            "EMNLP",
        ),
        fields=decoder_fields(
            "d_model num_layers attention_heads ffn_dim max_position_embeddings activation_function scale_embedding",
            harmless="dropout activation_dropout layerdrop init_std",
            usual="",
        ),
    ),
    DecoderArchitecture(
        model_type="mpt",
        title="MPT",
        citation=Citation(
            "MosaicML NLP Team",
            "Introducing MPT-7B: A New Standard for Open-Source, Commercially Usable LLMs",
            2023,
            "mosaicml.com/blog/mpt-7b",
        ),
        fields=decoder_fields(
            "d_model n_layers n_heads max_seq_len layer_norm_epsilon attn_config",
            harmless="resid_pdrop emb_pdrop learned_pos_emb embedding_fraction init_config init_device verbose "
            "tokenizer_name",
            # Of the program that it was trained with; the modules do not read them.
            only={
                "expansion_ratio": one_of(4),
                "logit_scale": one_of(None),
                "no_bias": one_of(True),
                "norm_type": one_of("low_precision_layernorm", "layernorm"),
            },
            usual="",
        ),
        parts={
            "attn_config": fields(
                "clip_qkv softmax_scale",
                harmless="attn_pdrop attn_impl",
                only={
                    **ENCODES,
                    "attn_type": one_of("multihead_attention"),
                    "prefix_lm": one_of(False),
                    "qk_ln": one_of(False),
                    "attn_uses_sequence_id": one_of(False),
                    "alibi": one_of(True),
                    "alibi_bias_max": one_of(8),
                },
            )
        },
        positions=lambda config: int(config.max_seq_len),
    ),
)
