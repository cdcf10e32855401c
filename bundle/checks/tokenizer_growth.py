"""How much longer a tokenizer's steps can make a text, known before it gets one: chains of replacements explode."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from bundle.errors import BundleError

# Published tokenizers have up to a dozen steps, and add a few tokens to a text.
_MAX_STEPS = 100
_MAX_ADDED_TOKENS = 1000
_MAX_COPIES = 8
# Of a text's length, in characters. A character can be eighteen once it is normalised (U+FDFA), and twice in a chain.
_MAX_GROWTH = 400
_NORMALISATION_GROWTH = 18
# Looking for the pieces of a word takes the square of its length.
_MAX_WORD_LENGTH = 1000

_Step = Mapping[str, Any]


def check_growth(tokenizer: _Step) -> None:
    """Check a tokenizer.json, as JSON reads it.

    Raises: BundleError where a text could become so much longer that a short one takes all memory, or a word can be so
    long that it takes all time.
    """
    steps = [
        step
        for part in ("normalizer", "pre_tokenizer", "post_processor", "decoder")
        for step in _steps(tokenizer.get(part))
    ]
    if len(steps) > _MAX_STEPS:
        raise BundleError(f"the tokenizer has {len(steps)} steps; at most {_MAX_STEPS} are allowed")
    if math.prod(map(_growth, steps)) > _MAX_GROWTH:
        raise BundleError("the tokenizer replaces texts by longer ones, one after the other, until they explode")
    added = sum(_count_added_tokens(step) for step in steps if step["type"] == "TemplateProcessing")
    if added > _MAX_ADDED_TOKENS:
        raise BundleError(f"the tokenizer adds {added} tokens to a text; at most {_MAX_ADDED_TOKENS} are allowed")
    model = tokenizer.get("model")
    longest = model.get("max_input_chars_per_word") if isinstance(model, dict) else None
    if isinstance(longest, int) and longest > _MAX_WORD_LENGTH:
        raise BundleError(f"the tokenizer takes words of {longest} characters; at most {_MAX_WORD_LENGTH} are allowed")


def _steps(part: Any) -> Iterator[_Step]:
    """Give the steps of a part, those inside sequences too."""
    if isinstance(part, dict):
        if isinstance(part.get("type"), str):
            yield part
        part = list(part.values())
    if isinstance(part, list):
        for each in part:
            yield from _steps(each)


def _growth(step: _Step) -> float:
    """Give how many times as long a step can make a text."""
    if step["type"] in ("Precompiled", "NFKC", "NFKD"):
        return _NORMALISATION_GROWTH
    if step["type"] != "Replace":
        return 1
    pattern, content = step.get("pattern"), step.get("content")
    replaced = pattern.get("String") if isinstance(pattern, dict) else None
    shortest = len(replaced) if isinstance(replaced, str) else 1
    if not isinstance(content, str) or not shortest:
        raise BundleError("the tokenizer replaces nothing by something, everywhere")
    return max(1.0, len(content) / shortest)


def _count_added_tokens(step: _Step) -> int:
    """Count the tokens that a template adds; BundleError where it repeats the text itself."""
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
