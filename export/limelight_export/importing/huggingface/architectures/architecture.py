"""The kinds of architectures that can be imported, and fields that their configurations share."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from limelight_export.importing.huggingface.fields import PLAIN, Condition, Fields, fields, one_of
from limelight_models.cards.taxonomy import Citation, Taxonomy

Kind = Literal[
    "encoder",
    "decoder",
    "encoder-decoder",
    "speech",
    "audio",
    "vision",
    "staged-vision",
    "two-tower",
    "detection",
    "token-detection",
]
# Kinds that find objects in pictures, and that read nothing else than pictures.
DETECTION: tuple[Kind, ...] = ("detection", "token-detection")
PICTURES: tuple[Kind, ...] = ("vision", "staged-vision", *DETECTION)

SELF_ATTENTION = Taxonomy(scoring="scaled multiplicative", query="self-attentive", multiplicity="multi-head")

# Fields of an encoder, by the names that most configurations use.
_ENCODER_FIELDS = """
    vocab_size hidden_size num_hidden_layers num_attention_heads intermediate_size hidden_act max_position_embeddings
    layer_norm_eps pad_token_id tie_word_embeddings
"""
_DROPOUT = """
    hidden_dropout_prob attention_probs_dropout_prob attention_dropout hidden_dropout classifier_dropout pooler_dropout
"""
# Of an encoder alone, and of an encoder with a decoder.
ENCODES: Mapping[str, Condition] = {**PLAIN, "is_decoder": one_of(False), "is_encoder_decoder": one_of(False)}
WRITES: Mapping[str, Condition] = {**ENCODES, "is_encoder_decoder": one_of(True)}
_ONLY: Mapping[str, Condition] = {
    **ENCODES,
    # transformers 5 does not read it, and computes absolute positions.
    "position_embedding_type": one_of("absolute"),
}


@dataclass(frozen=True)
class PackingPlaces:
    """Modules of an encoder by their names; regular expressions that match whole names below the base model.

    `{last}` in an expression stands for the number of the last layer.

    Attributes:
        packed: modules whose output is packed: embeddings.
        unpacked: modules whose output is unpacked: projections to queries, keys and values, and the last of the model.
        packed_inputs: modules whose first input is packed: what follows attention.
    """

    packed: str
    unpacked: str
    packed_inputs: str


# BERT and the models that have its modules.
BERT_PACKING = PackingPlaces(
    packed="embeddings",
    unpacked=r"encoder\.layer\.\d+\.attention\.self\.(query|key|value)|encoder",
    packed_inputs=r"encoder\.layer\.\d+\.attention\.output",
)


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """An architecture by its `model_type`.

    Attributes:
        fields: how each field of its configuration is classified.
    """

    kind: ClassVar[Kind]
    model_type: str
    title: str
    citation: Citation
    fields: Fields
    taxonomy: Taxonomy = SELF_ATTENTION

    def check(self, config: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the fields of a configuration that change nothing. Raises CheckpointError as of `Fields.check`."""
        return tuple(sorted({*self.fields.check(config), *self.check_parts(config)}))

    def check_parts(self, config: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the same of the configurations of a model's parts, which some architectures have. Raises likewise."""
        return ()


@dataclass(frozen=True, kw_only=True)
class EncoderArchitecture(Architecture):
    """An encoder whose positions attend to all positions of one sequence.

    Attributes:
        positions: the most tokens of a sequence, of a configuration.
        maps: number of maps, of a configuration.
        packing: where tokens are packed; None for modules that cannot be packed.
        mixed: a module that embeds tokens, whose neighbours are then mixed; padding is no neighbour. Empty for none.
        has_contacts: whether the base model has a head that predicts contacts of residues from all maps.
        returns_scores: whether the model returns scores where others return weights.
        has_segments: whether two texts are told apart, where the model embeds segments and no file says otherwise.
        options: arguments of the model's constructor.
    """

    kind: ClassVar[Kind] = "encoder"
    positions: Callable[[Any], int] = lambda config: int(config.max_position_embeddings)
    maps: Callable[[Any], int] = lambda config: int(config.num_hidden_layers)
    packing: PackingPlaces | None = None
    mixed: str = ""
    has_contacts: bool = False
    returns_scores: bool = False
    has_segments: bool = True
    options: Mapping[str, str] = field(default_factory=dict)


def encoder_fields(used: str = "", *, harmless: str = "", only: Mapping[str, Condition] | None = None) -> Fields:
    """Classify the fields of an encoder: the usual ones, and its own."""
    return fields(f"{_ENCODER_FIELDS} {used}", harmless=f"{_DROPOUT} {harmless}", only={**_ONLY, **(only or {})})


def positions_after_padding(config: Any) -> int:
    """Count the positions of a model that numbers tokens from behind its padding id."""
    return int(config.max_position_embeddings) - int(config.pad_token_id) - 1


@dataclass(frozen=True, kw_only=True)
class VisionArchitecture(Architecture):
    """An encoder of pictures of one size, cut into square patches.

    Attributes:
        leading: names of the tokens in front of the patches, registers apart.
        interpolates: whether positions are interpolated to pictures of another size than the configuration states.
        is_pooled: whether the vector of a picture is made by its pooler; else it is that of the first token.
        options: arguments of the constructor of a model without a head.
    """

    kind: ClassVar[Kind] = "vision"
    leading: tuple[str, ...] = ("class",)
    interpolates: bool = False
    is_pooled: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)


def vision_fields(used: str = "", *, harmless: str = "") -> Fields:
    """Classify the fields of an encoder of pictures: the usual ones, and its own."""
    return fields(
        f"""
        hidden_size num_hidden_layers num_attention_heads intermediate_size hidden_act layer_norm_eps image_size
        patch_size num_channels qkv_bias {used}
        """,
        # Of heads that are not imported.
        harmless=f"encoder_stride pooler_output_size pooler_act pad_token_id tie_word_embeddings {_DROPOUT} {harmless}",
        only=ENCODES,
    )


def _rotary_positions(config: Any) -> int:
    """Count the positions within which rotary frequencies do not depend on the length of a sequence."""
    stated = getattr(config, "rope_parameters", None) or {}
    kinds = [stated] if "rope_type" in stated else [each for each in stated.values() if isinstance(each, dict)]
    limits = [
        int(each.get("original_max_position_embeddings") or config.max_position_embeddings)
        for each in kinds
        if each.get("rope_type") in ("dynamic", "longrope")
    ]
    return min([int(config.max_position_embeddings), *limits])


@dataclass(frozen=True, kw_only=True)
class DecoderArchitecture(Architecture):
    """A causal language model: each token attends to itself and to tokens before it.

    Attributes:
        positions: the most tokens of a sequence, of a configuration.
        has_sinks: whether a part of each row's weight goes to no token, so that rows sum to less than 1.
        options: arguments of the model's constructor.
        parts: fields of the objects within its configuration, by their names.
    """

    kind: ClassVar[Kind] = "decoder"
    positions: Callable[[Any], int] = _rotary_positions
    has_sinks: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    parts: Mapping[str, Fields] = field(default_factory=dict)

    def check_parts(self, config: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the fields of those objects that change nothing. Raises CheckpointError as of `Fields.check`."""
        stated = ((part, config[name]) for name, part in self.parts.items() if isinstance(config.get(name), Mapping))
        return tuple(name for part, given in stated for name in part.check({"model_type": self.model_type, **given}))


# Fields of a decoder, and of those with rotary positions, by the names that most configurations use.
_DECODER_FIELDS = "vocab_size pad_token_id tie_word_embeddings"
_ROTARY_FIELDS = """
    hidden_size num_hidden_layers num_attention_heads num_key_value_heads head_dim intermediate_size
    max_position_embeddings rms_norm_eps rope_theta rope_scaling rope_parameters partial_rotary_factor layer_types
"""


def decoder_fields(
    used: str = "",
    *,
    harmless: str = "",
    only: Mapping[str, Condition] | None = None,
    usual: str = _ROTARY_FIELDS,
    without: str = "",
) -> Fields:
    """Classify the fields of a decoder: the usual ones, and its own.

    Args:
        usual: what is read beside the vocabulary; empty for a configuration with names of its own.
        without: usual fields that its modules do not read.
    """
    read = " ".join({*usual.split()} - {*without.split()})
    return fields(
        f"{_DECODER_FIELDS} {read} {used}",
        harmless=f"attention_dropout cache_implementation pretraining_tp {harmless}",
        only={
            **ENCODES,
            "is_decoder": one_of(True, False),
            **(only or {}),
        },
    )


_ATTENTION = Taxonomy(
    scoring="scaled multiplicative", query=("self-attentive", "basic"), multiplicity=("multi-head", "multi-hop")
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
    taxonomy: Taxonomy = _ATTENTION


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
            **WRITES,
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
