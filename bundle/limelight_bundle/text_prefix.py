"""Prefixes of long texts that determine their first tokens, so that a tokenizer reads no more.

The first tokens of a text do not depend on distant text, but the distance depends on the tokenizer. So a prefix is
tokenized and checked. Its first tokens are those of the whole text if words (pieces that the pre-tokenizer makes, each
tokenized separately) end after them, and more text follows than any unit that a tokenizer matches as a whole: an added
token, or a replaced string. If the tokenizer makes no words, or the text has no word ends, the whole text is read.
"""

import json
import unicodedata
from typing import Any

from limelight_bundle.tokenizer_files import strings_of

_CHARACTERS_PER_TOKEN = 16  # length of the first prefix; most texts have about four
_GROWTH_FACTOR = 4  # growth of the next prefix
_MIN_WORDS_BEHIND = 2
_SEARCHED_GAPS = 8  # characters to search, in multiples of the gap


class PrefixFinder:
    """Finds sufficient prefixes of long texts.

    Args:
        content: content of the tokenizer.json.
        tokenizer: tokenizer made of it, without truncation.
        maximum: number of tokens to keep; 0 for all, which needs the whole text.
    """

    def __init__(self, content: str, tokenizer: Any, maximum: int) -> None:
        self._tokenizer = tokenizer
        self._maximum = maximum
        added_tokens = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
        replaced = list(strings_of(json.loads(content), "String")) if maximum else []
        self._gap = 16 + max(map(len, [*added_tokens, *replaced]), default=0)
        self._first = _CHARACTERS_PER_TOKEN * maximum + _GROWTH_FACTOR * self._gap

    def prefix(self, text: str) -> str:
        """Return a prefix that determines the first tokens: the whole text, or more tokens than are kept."""
        size = self._first
        while self._maximum and size < len(text):
            if self._is_sufficient(text[:size]):
                return text[:size]
            size *= _GROWTH_FACTOR
        return text

    def _is_sufficient(self, prefix: str) -> bool:
        """Return whether the kept tokens, and one more, are equal whatever text follows a prefix."""
        encoding = self._tokenizer.encode(prefix, add_special_tokens=False)
        count = self._maximum + 1
        if len(encoding) <= count:
            return False
        words = encoding.word_ids  # computed at each access
        own, last = words[count - 1], words[-1]
        if own is None or last is None or own + _MIN_WORDS_BEHIND > last:
            return False
        return bool(max(end for _, end in encoding.offsets[:count]) <= self._stable_end(prefix))

    def _stable_end(self, prefix: str) -> int:
        """Return the position behind which enough ordinary characters follow; 0 if it is not near the end."""
        remaining = self._gap
        for place in range(len(prefix) - 1, max(0, len(prefix) - _SEARCHED_GAPS * self._gap), -1):
            remaining -= _is_ordinary(prefix[place])
            if not remaining:
                return place
        return 0


def _is_ordinary(character: str) -> bool:
    """Return whether a character stands for itself.

    Spaces and controls, which tokenizers combine or drop, do not; nor do characters that combine with the previous one
    (marks, Hangul vowels and finals, voiced kana marks).
    """
    return unicodedata.category(character)[0] in "LNPS" and not (
        "\u1161" <= character <= "\u1175" or "\u11a8" <= character <= "\u11c2" or character in "\uff9e\uff9f"
    )
