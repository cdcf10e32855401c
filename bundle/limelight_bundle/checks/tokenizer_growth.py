"""Bounds on a tokenizer's growth of a text, known before it runs: chained replacements can explode."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from limelight_bundle.errors import BundleError

# Published tokenizers have up to a dozen steps, and add a few tokens.
_MAX_STEPS = 100
_MAX_ADDED_TOKENS = 1000
_MAX_COPIES = 8
# Factor of a text's length. Normalisation can turn one character into eighteen (U+FDFA), twice in a chain.
_MAX_GROWTH = 400
_NORMALISATION_GROWTH = 18
# Tokenizing a word takes time quadratic in its length.
_MAX_WORD_LENGTH = 1000

_Step = Mapping[str, Any]


def check_growth(tokenizer: _Step) -> None:
    """Check the parsed content of a tokenizer.json.

    Raises:
        BundleError: a short text could become so long that it exhausts memory, or a word so long that it takes all
            time.
    """
    steps = [
        step
        for part in ("normalizer", "pre_tokenizer", "post_processor", "decoder")
        for step in _steps(tokenizer.get(part))
    ]
    if len(steps) > _MAX_STEPS:
        raise BundleError(f"the tokenizer has {len(steps)} steps; at most {_MAX_STEPS} are allowed")
    if math.prod(map(_growth, steps)) > _MAX_GROWTH:
        raise BundleError("the tokenizer has chained replacements that can make a text explode")
    added = sum(_count_added_tokens(step) for step in steps if step["type"] == "TemplateProcessing")
    if added > _MAX_ADDED_TOKENS:
        raise BundleError(f"the tokenizer adds {added} tokens to a text; at most {_MAX_ADDED_TOKENS} are allowed")
    model = tokenizer.get("model")
    longest = model.get("max_input_chars_per_word") if isinstance(model, dict) else None
    if isinstance(longest, int) and longest > _MAX_WORD_LENGTH:
        raise BundleError(f"the tokenizer takes words of {longest} characters; at most {_MAX_WORD_LENGTH} are allowed")


def _steps(part: Any) -> Iterator[_Step]:
    """Yield the steps of a part, including those in sequences."""
    if isinstance(part, dict):
        if isinstance(part.get("type"), str):
            yield part
        part = list(part.values())
    if isinstance(part, list):
        for each in part:
            yield from _steps(each)


def _growth(step: _Step) -> float:
    """Return the factor by which a step can lengthen a text."""
    if step["type"] in ("Precompiled", "NFKC", "NFKD"):
        return _NORMALISATION_GROWTH
    if step["type"] != "Replace":
        return 1
    pattern, content = step.get("pattern"), step.get("content")
    replaced = pattern.get("String") if isinstance(pattern, dict) else None
    shortest = len(replaced) if isinstance(replaced, str) else 1
    if not isinstance(content, str) or not shortest:
        raise BundleError("the tokenizer replaces the empty string")
    return max(1.0, len(content) / shortest)


def _count_added_tokens(step: _Step) -> int:
    """Count the tokens that a template adds. Raises BundleError if it repeats the text."""
    tokens = step.get("special_tokens")
    sizes = {}
    if isinstance(tokens, dict):
        sizes = {name: len(each.get("ids", ())) for name, each in tokens.items() if isinstance(each, dict)}
    added = copies = 0
    for piece in [*_pieces(step.get("single")), *_pieces(step.get("pair"))]:
        if "Sequence" in piece:
            copies += 1
        elif isinstance(piece.get("SpecialToken"), dict):
            added += sizes.get(str(piece["SpecialToken"].get("id")), 1)
    if copies > _MAX_COPIES:
        raise BundleError(f"the tokenizer repeats a text {copies} times; at most {_MAX_COPIES} are allowed")
    return added


def _pieces(template: Any) -> list[_Step]:
    return [each for each in template if isinstance(each, dict)] if isinstance(template, list) else []
