"""A small configuration of every encoder that can be imported, and of their options that change attention."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.importing.huggingface.checkpoints import BERT, HEADS, ROBERTA, TOKENS, sizes, write_checkpoint


@dataclass(frozen=True)
class Encoder:
    """An encoder: its name in transformers' classes, its configuration, and its special tokens."""

    library_name: str
    config: Callable[[], dict[str, Any]]
    special: tuple[str, ...] = BERT
    files: dict[str, str] = field(default_factory=dict)

    def write(self, folder: Path, head: str = "ForSequenceClassification", **changes: Any) -> Path:
        """Write a checkpoint with random weights."""
        import transformers

        config = getattr(transformers, f"{self.library_name}Config")(**(self.config() | changes))
        model_class = getattr(transformers, f"{self.library_name}{head}")
        return write_checkpoint(folder, model_class, config, special=self.special)


_ROBERTA_IDS = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "max_position_embeddings": TOKENS + 2}
_MODERN_IDS = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3}
_YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 32}
_DISTILBERT = {"dim": 32, "n_layers": 2, "n_heads": HEADS, "hidden_dim": 48}


def _distilbert(**changes: Any) -> dict[str, Any]:
    usual = sizes(**_DISTILBERT, **changes)
    return {
        name: value for name, value in usual.items() if not name.startswith(("hidden_size", "num_h", "num_a", "int"))
    }


def eager_maps(model: Any, output: Any) -> list[Any]:
    """The maps that a model of transformers put out; SqueezeBERT puts scores out."""
    are_scores = model.config.model_type == "squeezebert"
    return [each.softmax(-1) if are_scores else each for each in output.attentions]


ENCODERS = {
    "bert": Encoder("Bert", sizes),
    "roberta": Encoder("Roberta", lambda: sizes(type_vocab_size=1, **_ROBERTA_IDS), ROBERTA),
    "xlm-roberta": Encoder("XLMRoberta", lambda: sizes(type_vocab_size=1, **_ROBERTA_IDS), ROBERTA),
    "roberta-prelayernorm": Encoder("RobertaPreLayerNorm", lambda: sizes(type_vocab_size=1, **_ROBERTA_IDS), ROBERTA),
    "camembert": Encoder("Camembert", lambda: sizes(type_vocab_size=1, **_ROBERTA_IDS), ROBERTA),
    "distilbert": Encoder("DistilBert", _distilbert),
    "distilbert-sinusoidal": Encoder("DistilBert", lambda: _distilbert(sinusoidal_pos_embds=True)),
    "albert": Encoder("Albert", lambda: sizes(embedding_size=16)),
    "albert-groups": Encoder(
        "Albert", lambda: sizes(embedding_size=16, num_hidden_groups=2, inner_group_num=2, num_hidden_layers=4)
    ),
    "electra": Encoder("Electra", lambda: sizes(embedding_size=16)),
    "mpnet": Encoder("MPNet", lambda: sizes(**_ROBERTA_IDS), ROBERTA),
    "deberta": Encoder(
        "Deberta",
        lambda: sizes(
            relative_attention=True,
            pos_att_type=["c2p", "p2c"],
            max_relative_positions=24,
            position_biased_input=False,
            type_vocab_size=2,
        ),
    ),
    "deberta-absolute": Encoder("Deberta", lambda: sizes(pos_att_type=["c2p"])),
    "deberta-v2": Encoder(
        "DebertaV2",
        lambda: sizes(
            relative_attention=True,
            pos_att_type=["p2c", "c2p"],
            position_buckets=16,
            share_att_key=True,
            position_biased_input=False,
            norm_rel_ebd="layer_norm",
        ),
    ),
    "deberta-v2-conv": Encoder(
        "DebertaV2",
        lambda: sizes(
            relative_attention=True,
            pos_att_type=["c2p"],
            max_relative_positions=24,
            conv_kernel_size=3,
            conv_act="gelu",
            type_vocab_size=2,
        ),
    ),
    "modernbert": Encoder(
        "ModernBert", lambda: sizes(**_MODERN_IDS, num_hidden_layers=4, local_attention=8, initializer_range=1.0)
    ),
    "modernbert-mean": Encoder(
        "ModernBert",
        lambda: sizes(
            **_MODERN_IDS,
            classifier_pooling="mean",
            layer_types=["sliding_attention", "full_attention"],
            local_attention=5,
            attention_bias=True,
            initializer_range=1.0,
        ),
    ),
    "ernie": Encoder("Ernie", lambda: sizes(use_task_id=True)),
    "data2vec-text": Encoder("Data2VecText", lambda: sizes(type_vocab_size=1, **_ROBERTA_IDS), ROBERTA),
    "xlm-roberta-xl": Encoder("XLMRobertaXL", lambda: sizes(type_vocab_size=1, **_ROBERTA_IDS), ROBERTA),
    "xmod": Encoder(
        "Xmod", lambda: sizes(**_ROBERTA_IDS, languages=["en_XX", "de_DE"], default_language="de_DE"), ROBERTA
    ),
    "xmod-pre-norm": Encoder(
        "Xmod",
        lambda: sizes(
            **_ROBERTA_IDS, default_language="en_XX", pre_norm=True, ln_before_adapter=False, adapter_layer_norm=True
        ),
        ROBERTA,
    ),
    "roformer": Encoder("RoFormer", lambda: sizes(embedding_size=16)),
    "roformer-values": Encoder("RoFormer", lambda: sizes(rotary_value=True)),
    "megatron-bert": Encoder("MegatronBert", sizes),
    "rembert": Encoder("RemBert", lambda: sizes(input_embedding_size=16, output_embedding_size=24)),
    "luke": Encoder("Luke", lambda: sizes(entity_vocab_size=9, entity_emb_size=8, **_ROBERTA_IDS), ROBERTA),
    "squeezebert": Encoder("SqueezeBert", lambda: sizes(embedding_size=32)),
    "big_bird": Encoder("BigBird", lambda: sizes(attention_type="original_full", sep_token_id=3)),
    "mobilebert": Encoder(
        "MobileBert", lambda: sizes(embedding_size=16, intra_bottleneck_size=16, initializer_range=0.2)
    ),
    "nomic_bert": Encoder("NomicBert", sizes),
    "gte": Encoder("Gte", lambda: sizes(type_vocab_size=0, rope_parameters=_YARN, **_ROBERTA_IDS), ROBERTA),
    "jina_embeddings_v3": Encoder("JinaEmbeddingsV3", lambda: sizes(**_ROBERTA_IDS), ROBERTA),
    "eurobert": Encoder(
        "EuroBert", lambda: sizes(**_MODERN_IDS, num_key_value_heads=2, mask_token_id=4, attention_bias=True)
    ),
}
