"""Description of an architecture that can be imported."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from limelight_export.importing.huggingface.fields import PLAIN, Condition, Fields, fields, one_of
from limelight_models.cards.taxonomy import Citation, Taxonomy

Kind = Literal["encoder", "decoder", "encoder-decoder", "speech", "vision", "two-tower", "detection"]

SELF_ATTENTION = Taxonomy(scoring="scaled multiplicative", query="self-attentive", multiplicity="multi-head")

# Fields of an encoder, by the names that most configurations use.
_ENCODER_FIELDS = """
    vocab_size hidden_size num_hidden_layers num_attention_heads intermediate_size hidden_act max_position_embeddings
    layer_norm_eps pad_token_id tie_word_embeddings
"""
_DROPOUT = """
    hidden_dropout_prob attention_probs_dropout_prob attention_dropout hidden_dropout classifier_dropout pooler_dropout
"""
_ONLY: Mapping[str, Condition] = {
    **PLAIN,
    "is_decoder": one_of(False),
    "is_encoder_decoder": one_of(False),
    # transformers 5 does not read it, and computes absolute positions.
    "position_embedding_type": one_of("absolute"),
}


@dataclass(frozen=True)
class PackingPlaces:
    """Modules of an encoder by their names; regular expressions that match whole names below the base model.

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
    """

    kind: ClassVar[Kind] = "encoder"
    positions: Callable[[Any], int] = lambda config: int(config.max_position_embeddings)
    maps: Callable[[Any], int] = lambda config: int(config.num_hidden_layers)
    packing: PackingPlaces | None = None


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
        leading: names of the tokens in front of the patches.
    """

    kind: ClassVar[Kind] = "vision"
    leading: tuple[str, ...]


def vision_fields() -> Fields:
    """Classify the fields of an encoder of pictures."""
    return fields(
        """
        hidden_size num_hidden_layers num_attention_heads intermediate_size hidden_act layer_norm_eps image_size
        patch_size num_channels qkv_bias
        """,
        # Of heads that are not imported.
        harmless=f"encoder_stride pooler_output_size pooler_act pad_token_id tie_word_embeddings {_DROPOUT}",
        only={"is_decoder": one_of(False), "is_encoder_decoder": one_of(False), "pruned_heads": one_of({}, None)},
    )
