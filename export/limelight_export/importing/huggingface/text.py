"""Tokenizers of checkpoints: tokenizer.json as it is, or as it is made of a vocabulary."""

import json
from collections.abc import Mapping
from typing import Any

from limelight_bundle.errors import BundleError
from limelight_bundle.tokenizer_files import load_tokenizer
from limelight_export.errors import CheckpointError
from limelight_export.importing.huggingface.checkpoint import TOKENIZER, TOKENIZER_CONFIG, Checkpoint
from limelight_models.cards.inputs import Tokenizer

# What `tokenizer_conversion` makes beside tokenizer.json where outputs have a vocabulary of their own.
OUTPUT_TOKENIZER = "output.tokenizer.json"
SENTENCEPIECE_FILES = ("spiece.model", "sentencepiece.bpe.model", "spm.model", "tokenizer.model")
# Files of vocabularies that are converted; each is complete with all of a line.
_VOCABULARIES = (
    ("vocab.txt",),
    ("vocab.json", "merges.txt"),
    *((name,) for name in SENTENCEPIECE_FILES),
)
_MARIAN = ("source.spm", "target.spm", "vocab.json")
# The class of transformers whose tokenizer is a program, and the architecture that has it where no file states a class.
_JIEBA, _JIEBA_TYPE = "RoFormerTokenizer", "roformer"
# transformers writes a number of this size where a tokenizer has no limit.
_NO_LIMIT = 10**9
_SWITCHES = {"do_lower_case": "lowercase", "strip_accents": "strip_accents"}


def check_vocabulary(checkpoint: Checkpoint) -> None:
    """Check that a tokenizer is there, or can be made. Raises CheckpointError that names the files that are wanted."""
    default = _JIEBA if checkpoint.model_type == _JIEBA_TYPE else ""
    if str(checkpoint.table(TOKENIZER_CONFIG).get("tokenizer_class") or default).removesuffix("Fast") == _JIEBA:
        raise CheckpointError(
            f"{_JIEBA} divides texts by the dictionary of jieba, which no {TOKENIZER} can hold; where the model was "
            f"trained with another tokenizer, state its tokenizer_class in {TOKENIZER_CONFIG}"
        )
    if checkpoint.text(TOKENIZER) is not None:
        return
    kinds = (_MARIAN,) if checkpoint.model_type == "marian" else _VOCABULARIES
    if any(all(checkpoint.file(name) is not None for name in names) for names in kinds):
        return
    wanted = "; ".join(" and ".join(names) for names in kinds)
    raise CheckpointError(
        f"the checkpoint has no {TOKENIZER}, and no vocabulary that is converted ({wanted}); "
        "copy the files of its tokenizer into the folder"
    )


def read_tokenizer(checkpoint: Checkpoint, vocabulary: int, name: str = TOKENIZER) -> Tokenizer:
    """Read the tokenizer of a checkpoint.

    Args:
        vocabulary: number of token ids that the model embeds.
        name: of the file.
    Raises:
        CheckpointError: there is none, its files contradict each other, a server would refuse it, or it has more tokens
            than the model.
    """
    text = checkpoint.text(name)
    if text is None:
        raise CheckpointError(f"the checkpoint has no {name}")
    _check_switches(text, checkpoint.table(TOKENIZER_CONFIG))
    try:
        loaded = load_tokenizer(text)
    except BundleError as error:
        raise CheckpointError(f"{name}: {error.message}") from error
    largest = max(loaded.get_vocab(with_added_tokens=True).values(), default=-1)
    if largest >= vocabulary:
        raise CheckpointError(
            f"{name} has the token id {largest}, but the model embeds {vocabulary} tokens; are they of one model?"
        )
    return Tokenizer(text=text, file=name, first=0, size=vocabulary)


def token_limit(checkpoint: Checkpoint, positions: int) -> int:
    """Return the most tokens of an input: what the model has positions for, or less where the tokenizer states less."""
    stated = checkpoint.table(TOKENIZER_CONFIG).get("model_max_length")
    if isinstance(stated, int | float) and 0 < stated < _NO_LIMIT:
        positions = min(positions, int(stated))
    return min(positions, _NO_LIMIT)


def adds_special_tokens(tokenizer: Tokenizer) -> bool:
    """Return whether a tokenizer adds special tokens to a single text."""
    return int(load_tokenizer(tokenizer.text).num_special_tokens_to_add(False)) > 0


def token_id(tokenizer: Tokenizer, checkpoint: Checkpoint, role: str) -> int | None:
    """Return the id of a special token by its role, such as `mask_token`; None where the checkpoint states none."""
    stated = checkpoint.table(TOKENIZER_CONFIG).get(role) or checkpoint.table("special_tokens_map.json").get(role)
    content = stated.get("content") if isinstance(stated, Mapping) else stated
    found = load_tokenizer(tokenizer.text).token_to_id(content) if isinstance(content, str) else None
    return None if found is None else int(found)


def _check_switches(text: str, config: Mapping[str, Any]) -> None:
    """Check that tokenizer_config.json does not contradict the normaliser of tokenizer.json."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{TOKENIZER} is not JSON that can be read: {type(error).__name__}") from error
    normaliser = content.get("normalizer") if isinstance(content, dict) else None
    if not isinstance(normaliser, dict) or normaliser.get("type") != "BertNormalizer":
        return
    for switch, name in _SWITCHES.items():
        stated = config.get(switch)
        if stated is not None and stated != normaliser.get(name):
            raise CheckpointError(
                f"{TOKENIZER_CONFIG} states {switch} {stated}, but {TOKENIZER} {name} {normaliser.get(name)}; "
                "which of them was the model trained with?"
            )
