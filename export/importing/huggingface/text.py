"""Tokenizers of checkpoints: tokenizer.json as it is, or a WordPiece vocabulary that transformers converts."""

import json
from collections.abc import Mapping
from typing import Any

from bundle.errors import BundleError
from bundle.tokenizer_files import load_tokenizer
from export.errors import CheckpointError
from export.importing.huggingface.checkpoint import TOKENIZER, TOKENIZER_CONFIG, Checkpoint
from models.cards.inputs import Tokenizer

_VOCABULARY = "vocab.txt"
# Tokenizers that are no more than a WordPiece vocabulary and BERT's rules.
_WORDPIECE = {"bert", "distilbert", "electra"}
# transformers writes a number of this size where a tokenizer has no limit.
_NO_LIMIT = 10**9
_SWITCHES = {"do_lower_case": "lowercase", "strip_accents": "strip_accents"}


def read_tokenizer(checkpoint: Checkpoint, vocabulary: int) -> Tokenizer:
    """Read the tokenizer of a checkpoint.

    Args:
        vocabulary: number of token ids that the model embeds.
    Raises:
        CheckpointError: there is no fast tokenizer, its files contradict each other, a server would refuse it, or it
            has more tokens than the model.
    """
    text = checkpoint.text(TOKENIZER)
    if text is None:
        text = _convert_wordpiece(checkpoint)
    else:
        _check_switches(text, checkpoint.table(TOKENIZER_CONFIG))
    try:
        loaded = load_tokenizer(text)
    except BundleError as error:
        raise CheckpointError(f"{TOKENIZER}: {error.message}") from error
    largest = max(loaded.get_vocab(with_added_tokens=True).values(), default=-1)
    if largest >= vocabulary:
        raise CheckpointError(
            f"{TOKENIZER} has the token id {largest}, but the model embeds {vocabulary} tokens; are they of one model?"
        )
    return Tokenizer(text=text, first=0, size=vocabulary)


def token_limit(checkpoint: Checkpoint, positions: int) -> int:
    """Return the most tokens of an input: what the model has positions for, or less where the tokenizer states less."""
    stated = checkpoint.table(TOKENIZER_CONFIG).get("model_max_length")
    if isinstance(stated, int | float) and 0 < stated < _NO_LIMIT:
        return min(positions, int(stated))
    return positions


def adds_special_tokens(tokenizer: Tokenizer) -> bool:
    """Return whether a tokenizer adds special tokens to a single text."""
    return int(load_tokenizer(tokenizer.text).num_special_tokens_to_add(False)) > 0


def token_id(tokenizer: Tokenizer, checkpoint: Checkpoint, role: str) -> int | None:
    """Return the id of a special token by its role, such as `mask_token`; None where the checkpoint states none."""
    stated = checkpoint.table(TOKENIZER_CONFIG).get(role) or checkpoint.table("special_tokens_map.json").get(role)
    content = stated.get("content") if isinstance(stated, Mapping) else stated
    found = load_tokenizer(tokenizer.text).token_to_id(content) if isinstance(content, str) else None
    return None if found is None else int(found)


def _convert_wordpiece(checkpoint: Checkpoint) -> str:
    if checkpoint.model_type not in _WORDPIECE or not (checkpoint.folder / _VOCABULARY).is_file():
        name = checkpoint.table(TOKENIZER_CONFIG).get("tokenizer_class") or f"the tokenizer of {checkpoint.model_type}"
        raise CheckpointError(
            f"the checkpoint has no {TOKENIZER}, and {name} is not a WordPiece vocabulary; save it as a fast tokenizer"
        )
    from transformers import BertTokenizer

    switches = {name: value for name, value in checkpoint.table(TOKENIZER_CONFIG).items() if name in _SWITCHES}
    try:
        made = BertTokenizer.from_pretrained(checkpoint.folder, local_files_only=True, **switches)
        return str(made.backend_tokenizer.to_str())
    except Exception as error:  # transformers raises many types
        raise CheckpointError(f"transformers cannot convert {_VOCABULARY}: {error}") from error


def _check_switches(text: str, config: Mapping[str, Any]) -> None:
    """Check that tokenizer_config.json does not contradict the normaliser of tokenizer.json."""
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise CheckpointError(f"{TOKENIZER} is not JSON: {error}") from error
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
