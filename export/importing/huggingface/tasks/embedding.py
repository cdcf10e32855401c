"""A vector of a text, pooled and normalised as sentence-transformers' files state."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from export.errors import CheckpointError
from export.importing.huggingface.checkpoint import Checkpoint
from export.importing.huggingface.tasks.encoder import EncoderSource, encoder_model, load_encoder, text_input
from models.cards.card import TrainedModel
from models.cards.results import Vector

MODULES = "modules.json"
_TINY = 1e-9  # as in sentence-transformers


def _mean(features: Tensor, mask: Tensor) -> Tensor:
    real = mask.unsqueeze(-1).to(features.dtype)
    return (features * real).sum(1) / real.sum(1).clamp(min=_TINY)


def _mean_by_root(features: Tensor, mask: Tensor) -> Tensor:
    real = mask.unsqueeze(-1).to(features.dtype)
    return (features * real).sum(1) / real.sum(1).clamp(min=_TINY).sqrt()


def _first(features: Tensor, mask: Tensor) -> Tensor:
    return features[:, 0]


def _largest(features: Tensor, mask: Tensor) -> Tensor:
    return features.masked_fill(~mask.unsqueeze(-1), torch.finfo(features.dtype).min).amax(1)


# Features [batch, token, feature] and mask BOOL [batch, token] -> [batch, feature].
_POOLING: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cls": _first,
    "max": _largest,
    "mean": _mean,
    "mean_sqrt_len": _mean_by_root,
}
POOLING = tuple(_POOLING)
# Switches of 1_Pooling/config.json, in the order in which sentence-transformers joins their vectors.
_SWITCHES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len",
}
_POOLING_FIELDS = {"word_embedding_dimension", "embedding_dimension", "include_prompt", "pooling_mode", *_SWITCHES}


@dataclass(frozen=True)
class Pooled:
    """Pooling of a text's vector: the named poolings concatenated, optionally divided by the norm."""

    poolings: tuple[str, ...]
    normalised: bool = False

    def __call__(self, output: Any, mask: Tensor) -> dict[str, Tensor]:
        """Pool the last layer's vectors of the tokens."""
        pooled = torch.cat([_POOLING[each](output.last_hidden_state, mask) for each in self.poolings], -1)
        return {"vector": torch.nn.functional.normalize(pooled, dim=-1) if self.normalised else pooled}

    @property
    def described(self) -> str:
        """Itself in words."""
        return f"{' and '.join(self.poolings)} of the tokens' vectors" + (", of length 1" if self.normalised else "")


def build_embedding(source: EncoderSource) -> TrainedModel:
    """Build a model that maps a text to a vector. Raises CheckpointError where the checkpoint does not say how."""
    pooled = _pooled(source)
    parts = load_encoder(source, "AutoModel", most=_max_tokens(source.checkpoint), **_without_pooler(source.checkpoint))
    read = text_input(parts, "A text.")
    size = int(parts.config.hidden_size) * len(pooled.poolings)
    return encoder_model(
        source,
        parts,
        pooled,
        model_input=read,
        tokens=read.tokens(words=True),
        results=[Vector(size=size, summary=f"The vector of the text: {pooled.described}.")],
        summary=f"Maps a text to a vector: {pooled.described}.",
    )


def states_pooling(checkpoint: Checkpoint) -> bool:
    """Return whether a checkpoint is of sentence-transformers, which states pooling."""
    return checkpoint.json(MODULES) is not None


def _max_tokens(checkpoint: Checkpoint) -> int:
    """Return the length at which sentence-transformers truncates a text; 0 where it states none."""
    stated = checkpoint.table("sentence_bert_config.json").get("max_seq_length")
    return stated if isinstance(stated, int) else 0


def _pooled(source: EncoderSource) -> Pooled:
    checkpoint, wanted = source.checkpoint, source.options.pooling
    if not states_pooling(checkpoint):
        if not wanted:
            raise CheckpointError(
                f"the checkpoint has no {MODULES}, which would state how the tokens' vectors become one; "
                f"state it: --pooling {'|'.join(POOLING)}"
            )
        if wanted not in _POOLING:
            raise CheckpointError(f"the pooling {wanted!r} is not known; it can be {', '.join(POOLING)}")
        return Pooled((wanted,))
    if wanted:
        raise CheckpointError(f"{MODULES} states the pooling; leave out --pooling")
    _check_texts(checkpoint)
    poolings: tuple[str, ...] = ()
    normalised = False
    modules = checkpoint.json(MODULES)
    for each in modules if isinstance(modules, list) else ():
        kind = str(each.get("type", "")).rpartition(".")[2]
        if kind == "Transformer" and not each.get("path"):
            continue
        if kind == "Pooling" and not poolings:
            poolings = _poolings(checkpoint, f"{each.get('path')}/config.json")
        elif kind == "Normalize" and poolings:
            normalised = True
        else:
            raise CheckpointError(
                f"{MODULES} has the module {kind or each} at {each.get('path')!r}, which is not supported"
            )
    if not poolings:
        raise CheckpointError(f"{MODULES} has no module Pooling")
    return Pooled(poolings, normalised)


def _check_texts(checkpoint: Checkpoint) -> None:
    """Check that sentence-transformers gives the text to the tokenizer as it is."""
    if checkpoint.table("sentence_bert_config.json").get("do_lower_case"):
        raise CheckpointError("sentence_bert_config.json states do_lower_case, which the tokenizer does not do")
    config = checkpoint.table("config_sentence_transformers.json")
    name = config.get("default_prompt_name")
    if name and (config.get("prompts") or {}).get(name):
        raise CheckpointError(
            f"config_sentence_transformers.json puts the prompt {name!r} before every text; "
            "a served model would not, so remove default_prompt_name and send texts with their prompt"
        )


def _poolings(checkpoint: Checkpoint, file: str) -> tuple[str, ...]:
    config = checkpoint.table(file)
    for name, value in config.items():
        if name not in _POOLING_FIELDS and value not in (False, None):
            raise CheckpointError(f"{file} states {name} {value!r}, which is not supported")
    stated = config.get("pooling_mode")
    names = [stated] if isinstance(stated, str) else list(stated or ())
    found = tuple(names) or tuple(name for switch, name in _SWITCHES.items() if config.get(switch))
    if not found or any(name not in _POOLING for name in found):
        raise CheckpointError(
            f"{file} states the pooling {', '.join(found) or 'of nothing'}; it can be {', '.join(POOLING)}"
        )
    return found


def _without_pooler(checkpoint: Checkpoint) -> dict[str, bool]:
    """Leave out the layer behind the first token, which pooling does not read and many checkpoints do not have."""
    has_none = {"distilbert", "deberta-v2", "electra", "modernbert"}
    return {} if checkpoint.model_type in has_none else {"add_pooling_layer": False}
