"""Token ids to text, whole or as they come."""

from collections.abc import Sequence

from limelight_bundle.tokenizer_files import load_tokenizer, token_text


class Detokenizer:
    """Turns token ids into text."""

    def __init__(self, tokenizer: str) -> None:
        self._tokenizer = load_tokenizer(tokenizer)

    def text(self, token_ids: Sequence[int]) -> str:
        """Decode a sequence, without special tokens."""
        return str(self._tokenizer.decode(list(token_ids), skip_special_tokens=True))

    def token(self, token_id: int) -> str:
        """Return a token as the vocabulary writes it."""
        return token_text(self._tokenizer, token_id)

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
