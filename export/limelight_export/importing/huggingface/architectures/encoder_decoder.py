"""Description of an encoder–decoder that can be imported."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from limelight_export.importing.huggingface.architectures.architecture import Architecture, Kind
from limelight_export.importing.huggingface.fields import PLAIN, Condition, Fields, fields, one_of
from limelight_models.cards.taxonomy import Taxonomy

ATTENTION = Taxonomy(
    scoring="scaled multiplicative",
    query=("self-attentive", "basic"),
    multiplicity=("multi-head", "multi-hop"),
)


@dataclass(frozen=True)
class Sizes:
    """Sizes of an encoder–decoder. positions: most tokens of a source, and of an output."""

    layers: int
    heads: int
    decoder_layers: int
    decoder_heads: int
    head_size: int
    positions: int


@dataclass(frozen=True, kw_only=True)
class EncoderDecoderArchitecture(Architecture):
    """An encoder of a source, and a decoder whose tokens attend to those before them and to the source.

    Attributes:
        sizes: of a configuration.
    """

    kind: ClassVar[Kind] = "encoder-decoder"
    sizes: Callable[[Any], Sizes]
    taxonomy: Taxonomy = ATTENTION


def bart_sizes(config: Any, positions: str = "max_position_embeddings") -> Sizes:
    """Read the sizes of a configuration with the names of BART's. positions: the field of the most output tokens."""
    return Sizes(
        layers=int(config.encoder_layers),
        heads=int(config.encoder_attention_heads),
        decoder_layers=int(config.decoder_layers),
        decoder_heads=int(config.decoder_attention_heads),
        head_size=int(config.d_model) // int(config.decoder_attention_heads),
        positions=int(getattr(config, positions)),
    )


def bart_fields(used: str = "", *, harmless: str = "", only: Mapping[str, Condition] | None = None) -> Fields:
    """Classify the fields of a configuration with the names of BART's, and its own."""
    return fields(
        f"""
        vocab_size d_model encoder_layers encoder_attention_heads encoder_ffn_dim decoder_layers decoder_attention_heads
        decoder_ffn_dim activation_function max_position_embeddings scale_embedding pad_token_id tie_word_embeddings
        num_hidden_layers forced_bos_token_id bad_words_ids {used}
        """,
        # Fields of how a text is searched, which callers decide.
        harmless=f"""
        dropout attention_dropout activation_dropout encoder_layerdrop decoder_layerdrop init_std classifier_dropout
        classif_dropout forced_eos_token_id max_length min_length num_beams length_penalty early_stopping
        no_repeat_ngram_size {harmless}
        """,
        only={
            **PLAIN,
            "is_decoder": one_of(False),
            "is_encoder_decoder": one_of(True),
            # Of other versions, with other layers.
            "normalize_before": one_of(False),
            "normalize_embedding": one_of(True),
            "add_final_layer_norm": one_of(False),
            "add_bias_logits": one_of(False),
            "extra_pos_embeddings": one_of(2),
            "static_position_embeddings": one_of(False),
            **(only or {}),
        },
    )
