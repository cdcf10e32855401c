"""Token ids to text, whole or as they come."""

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from limelight_bundle.tokenizer_files import load_tokenizer, token_text

_BYTE = re.compile("<0x[0-9A-F]{2}>")  # SentencePiece's tokens of single bytes
_SPACE = "\u2581"  # SentencePiece's
_PRINTED = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
# Byte-level vocabularies (Radford et al. 2019) write bytes as characters: those above as they are, others from 256 on.
_BYTES = {chr(each): each for each in _PRINTED} | {
    chr(256 + place): each for place, each in enumerate(each for each in range(256) if each not in _PRINTED)
}


class Detokenizer:
    """Turns token ids into text.

    Args:
        tokenizer: text of a tokenizer.json, or one that is loaded.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = load_tokenizer(tokenizer) if isinstance(tokenizer, str) else tokenizer

    def text(self, token_ids: Sequence[int]) -> str:
        """Decode a sequence, without special tokens."""
        return str(self._tokenizer.decode(list(token_ids), skip_special_tokens=True))

    def token(self, token_id: int) -> str:
        """Return a token as the vocabulary writes it."""
        return token_text(self._tokenizer, token_id)

    def data(self, token_id: int) -> bytes:
        """Return the bytes that a token stands for, in front of the next: also those of a part of a character."""
        written = self.token(token_id)
        if _BYTE.fullmatch(written):
            return bytes([int(written[3:5], 16)])
        if not self._is_of_bytes:
            return written.replace(_SPACE, " ").encode()
        return bytes([_BYTES[each] for each in written]) if _BYTES.keys() >= set(written) else written.encode()

    @cached_property
    def _is_of_bytes(self) -> bool:
        return self._tokenizer.decoder is not None and b'"ByteLevel"' in self._tokenizer.decoder.__getstate__()

    def stream(self) -> "TextStream":
        """Start a text that is decoded token by token."""
        return TextStream(self)


class TextStream:
    """Decodes a sequence token by token, in constant time a token: only tokens since the last whole piece are read."""

    def __init__(self, detokenizer: Detokenizer) -> None:
        self._detokenizer = detokenizer
        self._token_ids: list[int] = []
        self._written = 0  # tokens before this index are in the text
        self._context = 0  # start of the last piece, on which decoding depends

    def add(self, token_id: int, *, last: bool = False) -> str:
        """Return the text that a token adds; empty for a special token, or while a character is incomplete.

        Args:
            last: no token follows, so that an incomplete character stays one (U+FFFD).
        """
        self._token_ids.append(token_id)
        before = self._detokenizer.text(self._token_ids[self._context : self._written])
        now = self._detokenizer.text(self._token_ids[self._context :])
        if len(now) <= len(before) or (now.endswith("\ufffd") and not last):
            return ""
        self._context, self._written = self._written, len(self._token_ids)
        return now[len(before) :]
