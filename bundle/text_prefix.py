"""How much of a long text decides its first tokens, so that a tokenizer reads no more than that.

What a text's first tokens are does not depend on what stands far behind them, but how far is far depends on the
tokenizer. So a beginning is tokenised and looked at: its first tokens are those of the whole text where words (pieces
that the pre-tokenizer makes, each tokenised by itself) end behind them, and behind these stands more than anything that
tokenizers look for as one: an added token, a text that is replaced. Where a tokenizer makes no words, or a text has no
ends of them, all of it is read.
"""

import json
import unicodedata
from typing import Any

from bundle.tokenizer_files import strings_of

_CHARACTERS_PER_TOKEN = 16  # of a beginning that is looked at first; most texts have about four
_GROWTH_FACTOR = 4  # as long is the next one
_MIN_WORDS_BEHIND = 2
_SEARCHED_GAPS = 8  # so many times the gap, for ordinary characters


class PrefixFinder:
    """Finds the beginnings of long texts.

    content: of the tokenizer.json. tokenizer: made of it, without truncation. maximum: the tokens that are kept; 0 for
    all, of which the whole text is the beginning.
    """

    def __init__(self, content: str, tokenizer: Any, maximum: int) -> None:
        self._tokenizer = tokenizer
        self._maximum = maximum
        added_tokens = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
        replaced = list(strings_of(json.loads(content), "String")) if maximum else []
        self._gap = 16 + max(map(len, [*added_tokens, *replaced]), default=0)
        self._first = _CHARACTERS_PER_TOKEN * maximum + _GROWTH_FACTOR * self._gap

    def prefix(self, text: str) -> str:
        """Give a beginning of a text that has its first tokens, and more of them than are kept where it is not all."""
        size = self._first
        while self._maximum and size < len(text):
            if self._is_sufficient(text[:size]):
                return text[:size]
            size *= _GROWTH_FACTOR
        return text

    def _is_sufficient(self, prefix: str) -> bool:
        """Tell whether the tokens that are kept, and one more, are the same whatever stands behind a beginning."""
        encoding = self._tokenizer.encode(prefix, add_special_tokens=False)
        count = self._maximum + 1
        if len(encoding) <= count:
            return False
        words = encoding.word_ids  # made anew each time it is read
        own, last = words[count - 1], words[-1]
        if own is None or last is None or own + _MIN_WORDS_BEHIND > last:
            return False
        return bool(max(end for _, end in encoding.offsets[:count]) <= self._stable_end(prefix))

    def _stable_end(self, prefix: str) -> int:
        """Tell where enough ordinary characters stand behind; 0 where that is nowhere near the end."""
        remaining = self._gap
        for place in range(len(prefix) - 1, max(0, len(prefix) - _SEARCHED_GAPS * self._gap), -1):
            remaining -= _is_ordinary(prefix[place])
            if not remaining:
                return place
        return 0


def _is_ordinary(character: str) -> bool:
    """Tell whether a character stands for itself: no space or control, which tokenizers take together or leave out, and
    nothing that composes into what stands before it (marks, Hangul vowels and finals, voiced kana marks).
    """
    return unicodedata.category(character)[0] in "LNPS" and not (
        "\u1161" <= character <= "\u1175" or "\u11a8" <= character <= "\u11c2" or character in "\uff9e\uff9f"
    )
