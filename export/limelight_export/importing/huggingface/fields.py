"""The tripwire: every field of a configuration is known, so that none changes a model without being seen.

transformers keeps fields that it does not read, and some that older versions read. A model would then be computed in
another way than it was trained, and answer with plausible numbers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from limelight_export.errors import CheckpointError

# What every configuration may state, and no forward pass reads.
_RECORDS = frozenset(
    """
    _name_or_path _commit_hash _attn_implementation attn_implementation architectures model_type transformers_version
    torch_dtype dtype tokenizer_class output_attentions output_hidden_states return_dict output_past use_cache
    gradient_checkpointing use_bfloat16 torchscript finetuning_task task_specific_params label2id id2label num_labels
    problem_type initializer_range initializer_factor name_or_path language license sentence_transformers prefix
    sbert_ce_default_activation_function _num_labels name
    bos_token_id eos_token_id sep_token_id cls_token_id mask_token_id decoder_start_token_id unk_token_id
    keys_to_ignore_at_inference is_composition summary_last_dropout model_name tie_encoder_decoder
    tf_legacy_loss _attn_implementation_autoset transformers.js_config
    unsloth_version unsloth_fixed
    """.split()
)
# Largest number of a configuration; and of layers, each of which is made before a weight is read.
_LARGEST, _MOST_LAYERS = 2**31 - 1, 2**12
# Defaults of generation, which older versions wrote into every configuration. No forward pass reads them.
_GENERATION = frozenset(
    """
    do_sample early_stopping eos_token_ids length_penalty max_length min_length num_beams num_beam_groups
    diversity_penalty num_return_sequences repetition_penalty temperature top_k top_p typical_p no_repeat_ngram_size
    encoder_no_repeat_ngram_size bad_words_ids forced_bos_token_id forced_eos_token_id remove_invalid_values
    exponential_decay_length_penalty suppress_tokens begin_suppress_tokens output_scores return_dict_in_generate
    """.split()
)


@dataclass(frozen=True)
class Condition:
    """Values of a field that are computed as they were trained; `described` completes "it can be"."""

    described: str
    holds: Callable[[Any], bool]


def one_of(*values: Any) -> Condition:
    """Allow these values."""
    return Condition(" or ".join(map(repr, values)), lambda value: value in values)


# Fields that transformers gives to every configuration, and whose other values change what is computed.
PLAIN: Mapping[str, Condition] = {
    "add_cross_attention": one_of(False),
    "cross_attention_hidden_size": one_of(None),
    "chunk_size_feed_forward": one_of(0),
    "pruned_heads": one_of({}, None),
}


@dataclass(frozen=True)
class Fields:
    """The fields of one architecture's configuration.

    Attributes:
        used: read by the modules, whatever the value.
        harmless: read in training or generation only.
        only: read by the modules, or by those of other versions, of which some values are refused.
    """

    used: frozenset[str]
    harmless: frozenset[str] = frozenset()
    only: Mapping[str, Condition] = field(default_factory=dict)

    def check(self, config: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the fields of a configuration that change nothing.

        Raises:
            CheckpointError: a field is not classified, or has a value that the modules do not compute.
        """
        for name, value in config.items():
            if name in self.only:
                if not self.only[name].holds(value):
                    raise CheckpointError(
                        f"config.json states {name} {short(value)}, which is not computed; "
                        f"it can be {self.only[name].described}"
                    )
            elif isinstance(value, int) and abs(value) > (_MOST_LAYERS if name.endswith("layers") else _LARGEST):
                raise CheckpointError(f"config.json states {name} {short(value)}, which no model has")
            elif value is not None and name not in self.used | self.harmless | _RECORDS | _GENERATION:
                raise CheckpointError(
                    f"config.json states {name} {short(value)}, which is not classified for "
                    f"{config.get('model_type')}: it could change the attention unseen; "
                    "remove it where it is no more than a note of a tool"
                )
        return tuple(sorted(name for name in config if name in self.harmless))


def fields(used: str, *, harmless: str = "", only: Mapping[str, Condition] | None = None) -> Fields:
    """Make the fields of an architecture from names in a text."""
    return Fields(frozenset(used.split()), frozenset(harmless.split()), dict(only or {}))


def short(value: Any) -> str:
    """Return a value as it is written in Python, in at most 40 characters."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}…"
