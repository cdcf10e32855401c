"""Encoders of texts."""

from collections.abc import Mapping
from typing import Any

from limelight_export.importing.huggingface.architectures.architecture import (
    BERT_PACKING,
    EncoderArchitecture,
    PackingPlaces,
    encoder_fields,
    positions_after_padding,
)
from limelight_export.importing.huggingface.fields import Condition, one_of
from limelight_models.cards.taxonomy import Citation

_ROBERTA = encoder_fields("type_vocab_size")
_DEBERTA = Citation("He, Liu, Gao, Chen", "DeBERTa: Decoding-enhanced BERT with Disentangled Attention", 2021, "ICLR")


def _albert_maps(config: Any) -> int:
    return int(config.num_hidden_layers) * int(config.inner_group_num)


_MPNET_PADDING = 1  # the modules number positions from behind this id, whatever the configuration states


def _mpnet_positions(config: Any) -> int:
    return int(config.max_position_embeddings) - _MPNET_PADDING - 1


def _esm_positions(config: Any) -> int:
    """Count the positions that were trained: those of rotary models are as many as the configuration states."""
    is_rotary = config.position_embedding_type == "rotary"
    return int(config.max_position_embeddings) if is_rotary else positions_after_padding(config)


def _big_bird_positions(config: Any) -> int:
    """Count the tokens up to which transformers computes full attention, whatever the configuration states."""
    sparse_from = (5 + 2 * int(config.num_random_blocks)) * int(config.block_size)
    positions = int(config.max_position_embeddings)
    return min(positions, sparse_from) if config.attention_type == "block_sparse" else positions


# Kinds of rotary frequencies that are the same for every length; a trace would keep those of its own length.
_FIXED = ("default", "linear", "llama3", "yarn")


def _is_fixed(rotary: Any) -> bool:
    """Whether rotary frequencies are of these kinds, of all layers or of each kind of layer."""
    if not isinstance(rotary, dict):
        return rotary is None
    kinds = [each for each in rotary.values() if isinstance(each, dict)] or [rotary]
    return all(each.get("rope_type", each.get("type", "default")) in _FIXED for each in kinds)


_ROTARY: Mapping[str, Condition] = dict.fromkeys(
    ("rope_parameters", "rope_scaling"), Condition(f"of rope_type {' or '.join(_FIXED)}", _is_fixed)
)
_ROTARY_PACKING = PackingPlaces(
    packed="embeddings",
    unpacked=r"layers\.\d+\.self_attn\.[qkv]_proj|layers\.{last}",
    packed_inputs=r"layers\.\d+\.self_attn\.o_proj",
)

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
    # RoBERTa, and the models that have its modules.
    EncoderArchitecture(
        model_type="roberta",
        title="RoBERTa",
        citation=Citation(
            "Liu, Ott, Goyal, Du, Joshi, Chen, Levy, Lewis, Zettlemoyer, Stoyanov",
            "RoBERTa: A Robustly Optimized BERT Pretraining Approach",
            2019,
            "arXiv:1907.11692",
        ),
        fields=_ROBERTA,
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
        fields=_ROBERTA,
        positions=positions_after_padding,
        packing=BERT_PACKING,
    ),
    EncoderArchitecture(
        model_type="roberta-prelayernorm",
        title="RoBERTa-PreLayerNorm",
        citation=Citation(
            "Ott, Edunov, Baevski, Fan, Gross, Ng, Grangier, Auli",
            "fairseq: A Fast, Extensible Toolkit for Sequence Modeling",
            2019,
            "NAACL",
        ),
        fields=_ROBERTA,
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
        fields=_ROBERTA,
        positions=positions_after_padding,
        packing=BERT_PACKING,
    ),
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
    # ALBERT, whose layers share weights.
    EncoderArchitecture(
        model_type="albert",
        title="ALBERT",
        citation=Citation(
            "Lan, Chen, Goodman, Gimpel, Sharma, Soricut",
            "ALBERT: A Lite BERT for Self-supervised Learning of Language Representations",
            2020,
            "ICLR",
        ),
        fields=encoder_fields(
            "type_vocab_size embedding_size num_hidden_groups inner_group_num",
            harmless="classifier_dropout_prob",
            # Read by no released class; other values are models of another structure.
            only={
                "gap_size": one_of(0),
                "net_structure_type": one_of(0),
                "num_memory_blocks": one_of(0),
                "down_scale_factor": one_of(1),
                "layers_to_keep": one_of([]),
            },
        ),
        maps=_albert_maps,
        packing=PackingPlaces(
            packed="embeddings",
            unpacked=r"encoder\..*\.attention\.(query|key|value)|encoder",
            packed_inputs=r"encoder\..*\.attention\.dense",
        ),
    ),
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
    # MPNet, whose scores have a bias by relative position.
    EncoderArchitecture(
        model_type="mpnet",
        title="MPNet",
        citation=Citation(
            "Song, Tan, Qin, Lu, Liu",
            "MPNet: Masked and Permuted Pre-training for Language Understanding",
            2020,
            "NeurIPS",
        ),
        fields=encoder_fields(
            # The modules always use 32 buckets.
            only={"relative_attention_num_buckets": one_of(32), "pad_token_id": one_of(_MPNET_PADDING)},
        ),
        positions=_mpnet_positions,
        packing=PackingPlaces(
            packed="embeddings",
            unpacked=r"encoder\.layer\.\d+\.attention\.attn\.[qkv]|encoder",
            packed_inputs=r"encoder\.layer\.\d+\.attention\.attn\.o",
        ),
    ),
    # DeBERTa, versions 1 to 3: scores of content to position and of position to content.
    EncoderArchitecture(
        model_type="deberta",
        title="DeBERTa",
        citation=_DEBERTA,
        fields=encoder_fields(
            "type_vocab_size embedding_size relative_attention max_relative_positions pos_att_type "
            "position_biased_input pooler_hidden_size pooler_hidden_act legacy",
            # Heads that exchange scores and weights, so that a row is no softmax.
            only={"talking_head": one_of(False)},
        ),
    ),
    EncoderArchitecture(
        model_type="deberta-v2",
        title="DeBERTa",
        citation=_DEBERTA,
        fields=encoder_fields(
            "type_vocab_size embedding_size relative_attention max_relative_positions position_buckets pos_att_type "
            "share_att_key position_biased_input norm_rel_ebd conv_kernel_size conv_groups conv_act "
            "attention_head_size pooler_hidden_size pooler_hidden_act legacy",
            harmless="conv_dropout cls_dropout",
            only={"z_steps": one_of(0, 1)},  # read by no released class
        ),
    ),
    # ModernBERT: rotary positions, and windows in most layers.
    EncoderArchitecture(
        model_type="modernbert",
        title="ModernBERT",
        citation=Citation(
            "Warner, Chaffin, Clavié, Weller, Hallström, Taghadouini, Gallagher, Biswas, Ladhak, Aarsen, Cooper, "
            "Adams, Howard, Poli",
            "Smarter, Better, Faster, Longer: A Modern Bidirectional Encoder",
            2024,
            "arXiv:2412.13663",
        ),
        fields=encoder_fields(
            "hidden_activation norm_eps norm_bias attention_bias layer_types "
            "global_rope_theta local_rope_theta global_attn_every_n_layers local_attention sliding_window mlp_bias "
            "decoder_bias classifier_pooling classifier_bias classifier_activation",
            harmless="initializer_cutoff_factor embedding_dropout mlp_dropout deterministic_flash_attn "
            "sparse_prediction sparse_pred_ignore_index reference_compile repad_logits_with_grad",
            only={**_ROTARY, "rope_scaling": one_of(None)},
        ),
        packing=PackingPlaces(
            packed="embeddings",
            unpacked=r"layers\.\d+\.attn\.Wqkv|final_norm",
            packed_inputs=r"layers\.\d+\.attn\.Wo",
        ),
    ),
    # ERNIE, Data2Vec, XLM-RoBERTa-XL and X-MOD have the modules of BERT and RoBERTa, with other norms and adapters.
    EncoderArchitecture(
        model_type="ernie",
        title="ERNIE",
        citation=Citation(
            "Sun, Wang, Li, Feng, Chen, Zhang, Tian, Zhu, Tian, Wu",
            "ERNIE: Enhanced Representation through Knowledge Integration",
            2019,
            "arXiv:1904.09223",
        ),
        # Every token is of task 0.
        fields=encoder_fields("type_vocab_size task_type_vocab_size use_task_id"),
        packing=BERT_PACKING,
    ),
    EncoderArchitecture(
        model_type="data2vec-text",
        title="Data2Vec",
        citation=Citation(
            "Baevski, Hsu, Xu, Babu, Gu, Auli",
            "data2vec: A General Framework for Self-supervised Learning in Speech, Vision and Language",
            2022,
            "ICML",
        ),
        fields=_ROBERTA,
        positions=positions_after_padding,
        packing=BERT_PACKING,
    ),
    EncoderArchitecture(
        model_type="xlm-roberta-xl",
        title="XLM-RoBERTa-XL",
        citation=Citation(
            "Goyal, Du, Ott, Anantharaman, Conneau",
            "Larger-Scale Transformers for Multilingual Masked Language Modeling",
            2021,
            "RepL4NLP",
        ),
        fields=_ROBERTA,
        positions=positions_after_padding,
        packing=BERT_PACKING,
    ),
    EncoderArchitecture(
        model_type="xmod",
        title="X-MOD",
        citation=Citation(
            "Pfeiffer, Goyal, Lin, Li, Cross, Riedel, Artetxe",
            "Lifting the Curse of Multilinguality by Pre-training Modular Transformers",
            2022,
            "NAACL",
        ),
        fields=encoder_fields(
            "type_vocab_size pre_norm adapter_reduction_factor adapter_layer_norm adapter_reuse_layer_norm "
            "ln_before_adapter languages",
            only={"default_language": Condition("one of the languages", lambda value: isinstance(value, str))},
        ),
        positions=positions_after_padding,
        packing=BERT_PACKING,
    ),
    # Encoders that compute attention by themselves (`encoder_modules`).
    EncoderArchitecture(
        model_type="roformer",
        title="RoFormer",
        citation=Citation(
            "Su, Lu, Pan, Murtadha, Wen, Liu",
            "RoFormer: Enhanced Transformer with Rotary Position Embedding",
            2021,
            "arXiv:2104.09864",
        ),
        fields=encoder_fields("type_vocab_size embedding_size rotary_value"),
        packing=BERT_PACKING,
    ),
    EncoderArchitecture(
        model_type="megatron-bert",
        title="Megatron-BERT",
        citation=Citation(
            "Shoeybi, Patwary, Puri, LeGresley, Casper, Catanzaro",
            "Megatron-LM: Training Multi-Billion Parameter Language Models Using Model Parallelism",
            2019,
            "arXiv:1909.08053",
        ),
        fields=encoder_fields("type_vocab_size"),
        packing=BERT_PACKING,
    ),
    EncoderArchitecture(
        model_type="rembert",
        title="RemBERT",
        citation=Citation(
            "Chung, Févry, Tsai, Johnson, Ruder",
            "Rethinking Embedding Coupling in Pre-trained Language Models",
            2021,
            "ICLR",
        ),
        fields=encoder_fields(
            "type_vocab_size input_embedding_size output_embedding_size", harmless="classifier_dropout_prob"
        ),
        packing=BERT_PACKING,
    ),
    # LUKE, of texts without entities.
    EncoderArchitecture(
        model_type="luke",
        title="LUKE",
        citation=Citation(
            "Yamada, Asai, Shindo, Takeda, Matsumoto",
            "LUKE: Deep Contextualized Entity Representations with Entity-aware Self-attention",
            2020,
            "EMNLP",
        ),
        fields=encoder_fields(
            "type_vocab_size",
            harmless="entity_vocab_size entity_emb_size use_entity_aware_attention cls_entity_prediction",
        ),
        positions=positions_after_padding,
        has_segments=False,
    ),
    EncoderArchitecture(
        model_type="squeezebert",
        title="SqueezeBERT",
        citation=Citation(
            "Iandola, Shaw, Krishna, Keutzer",
            "SqueezeBERT: What can computer vision teach NLP about efficient neural networks?",
            2020,
            "SustaiNLP",
        ),
        fields=encoder_fields(
            "type_vocab_size embedding_size q_groups k_groups v_groups post_attention_groups intermediate_groups "
            "output_groups"
        ),
        returns_scores=True,
    ),
    EncoderArchitecture(
        model_type="big_bird",
        title="BigBird",
        citation=Citation(
            "Zaheer, Guruganesh, Dubey, Ainslie, Alberti, Ontañón, Pham, Ravula, Wang, Yang, Ahmed",
            "Big Bird: Transformers for Longer Sequences",
            2020,
            "NeurIPS",
        ),
        fields=encoder_fields(
            "type_vocab_size use_bias rescale_embeddings block_size num_random_blocks",
            only={"attention_type": one_of("original_full", "block_sparse")},
        ),
        positions=_big_bird_positions,
        packing=BERT_PACKING,
        has_segments=False,
        options={"attention_type": "original_full"},
    ),
    EncoderArchitecture(
        model_type="mobilebert",
        title="MobileBERT",
        citation=Citation(
            "Sun, Yu, Song, Liu, Yang, Zhou",
            "MobileBERT: a Compact Task-Agnostic BERT for Resource-Limited Devices",
            2020,
            "ACL",
        ),
        fields=encoder_fields(
            "type_vocab_size embedding_size trigram_input use_bottleneck intra_bottleneck_size true_hidden_size "
            "use_bottleneck_attention key_query_shared_bottleneck num_feedforward_networks normalization_type "
            "classifier_activation"
        ),
        packing=BERT_PACKING,
        mixed="embeddings.word_embeddings",
    ),
    # Nomic BERT, GTE and Jina's third: rotary positions, and the names of decoders' modules.
    EncoderArchitecture(
        model_type="nomic_bert",
        title="Nomic BERT",
        citation=Citation(
            "Nussbaum, Morris, Duderstadt, Mulyar",
            "Nomic Embed: Training a Reproducible Long Context Text Embedder",
            2024,
            "arXiv:2402.01613",
        ),
        fields=encoder_fields("type_vocab_size head_dim rope_theta", only=_ROTARY),
        packing=_ROTARY_PACKING,
    ),
    EncoderArchitecture(
        model_type="gte",
        title="GTE",
        citation=Citation(
            "Zhang, Zhang, Long, Xie, Dai, Tang, Lin, Yang, Xie, Huang, Zhang, Li, Zhang",
            "mGTE: Generalized Long-Context Text Representation and Reranking Models for Multilingual Text Retrieval",
            2024,
            "EMNLP Industry Track",
        ),
        fields=encoder_fields("type_vocab_size rope_theta", only=_ROTARY),
        packing=_ROTARY_PACKING,
    ),
    EncoderArchitecture(
        model_type="jina_embeddings_v3",
        title="Jina Embeddings 3",
        citation=Citation(
            "Sturua, Mohr, Akram, Günther, Wang, Krimmel, Wang, Mastrapas, Koukounas, Wang, Xiao",
            "jina-embeddings-v3: Multilingual Embeddings With Task LoRA",
            2024,
            "arXiv:2409.10173",
        ),
        fields=encoder_fields("type_vocab_size rope_theta", only=_ROTARY),
        packing=_ROTARY_PACKING,
    ),
    EncoderArchitecture(
        model_type="eurobert",
        title="EuroBERT",
        citation=Citation(
            "Boizard, Gisserot-Boukhlef, Alves, Martins, Hammal, Corro, Hudelot, Malherbe, Malaboeuf, Jourdan, "
            "Hautreux, Alves, El-Haddad, Faysse, Peyrard, Guerreiro, Fernandes, Rei, Colombo",
            "EuroBERT: Scaling Multilingual Encoders for European Languages",
            2025,
            "arXiv:2503.05500",
        ),
        fields=encoder_fields(
            "num_key_value_heads head_dim rms_norm_eps rope_theta attention_bias mlp_bias",
            harmless="pretraining_tp",
            only={**_ROTARY, "classifier_pooling": one_of("late", "mean", "bos")},
        ),
        packing=PackingPlaces(
            packed="embed_tokens",
            unpacked=r"layers\.\d+\.self_attn\.[qkv]_proj|norm",
            packed_inputs=r"layers\.\d+\.self_attn\.o_proj",
        ),
    ),
    # ESM, of proteins: a token is a residue, and a regression over all maps tells which residues touch.
    EncoderArchitecture(
        model_type="esm",
        title="ESM",
        citation=Citation(
            "Lin, Akin, Rao, Hie, Zhu, Lu, Smetanin, Verkuil, Kabeli, Shmueli, dos Santos Costa, Fazel-Zarandi, Sercu, "
            "Candido, Rives",
            "Evolutionary-scale prediction of atomic-level protein structure with a language model",
            2023,
            "Science",
        ),
        fields=encoder_fields(
            "rope_theta emb_layer_norm_before token_dropout mask_token_id",
            only={
                "position_embedding_type": one_of("absolute", "rotary"),
                "add_cross_attention": one_of(False),
                "is_folding_model": one_of(False),
                "esmfold_config": one_of(None),
                "vocab_list": one_of(None),
            },
        ),
        positions=_esm_positions,
        packing=BERT_PACKING,
        has_contacts=True,
    ),
)
