"""Text to tokens and back: tokenizers of the `tokenizers` library, checked, and a rule that splits sentences."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bundle.errors import BundleError

# A sentence ends after . ! ? with closing quotes and brackets, before white space; or at a blank line. Possessive, and
# only from the first of several marks: a text of nothing but dots must not take quadratic time.
_SENTENCE_END = re.compile(r"(?<![.!?])[.!?]++[\"'”’)\]]*+(?=\s)|\n\s*\n")
_CHARACTER = re.compile(r"\S")


@dataclass(frozen=True)
class Encoded:
    """The tokens of one text, in columns; `cut` where tokens over the limit were left out.

    texts: the piece of the text that a token stands for; for a special token, its name in the vocabulary.
    starts, ends: where that piece stands, in code points. special: empty where no token is.
    """

    ids: Sequence[int]
    texts: Sequence[str]
    starts: Sequence[int]
    ends: Sequence[int]
    special: Sequence[bool] = ()
    cut: bool = False


class Encoder:
    """Turns text into token ids, the same way in training, export and serving.

    tokenizer: text of a tokenizer.json; special_tokens: whether it adds its own; maximum: longest result, special
    tokens included, 0 for no limit.
    Raises: BundleError where the file is broken or holds a regular expression.
    """

    def __init__(self, tokenizer: str, *, special_tokens: bool = False, maximum: int = 0) -> None:
        self._special_tokens = special_tokens
        self._maximum = maximum
        self._whole = load_tokenizer(tokenizer)
        self._cut = load_tokenizer(tokenizer)
        if maximum:
            self._cut.enable_truncation(maximum)
        self._special_ids = frozenset(
            number for number, token in self._whole.get_added_tokens_decoder().items() if token.special
        )

    def encode(self, texts: Sequence[str]) -> list[Encoded]:
        """Encode each text, cut to the limit."""
        encodings = self._whole.encode_batch(list(texts), add_special_tokens=self._special_tokens)
        return [self._encoded(text, encoding) for text, encoding in zip(texts, encodings, strict=True)]

    def token(self, token_id: int) -> str:
        """Give a token as the vocabulary writes it."""
        return _token(self._whole, token_id)

    def special(self, token_ids: Sequence[int]) -> list[bool]:
        """Tell which tokens are special by their ids alone; empty where none is."""
        flags = [token in self._special_ids for token in token_ids]
        return flags if any(flags) else []

    def _encoded(self, text: str, encoding: Any) -> Encoded:
        ids = encoding.ids  # every attribute of the library is made anew each time it is read
        cut = bool(self._maximum) and len(ids) > self._maximum
        if cut:
            encoding = self._cut.encode(text, add_special_tokens=self._special_tokens)
            ids = encoding.ids
        offsets = encoding.offsets
        texts = [text[start:end] for start, end in offsets]
        starts, ends = [start for start, _ in offsets], [end for _, end in offsets]
        special: list[bool] = []
        if self._special_tokens and 1 in (flags := encoding.special_tokens_mask):
            special = [flag == 1 for flag in flags]
            texts = [name if flag else piece for name, piece, flag in zip(encoding.tokens, texts, special, strict=True)]
        return Encoded(ids, texts, starts, ends, special, cut)


class Detokenizer:
    """Turns token ids into text."""

    def __init__(self, tokenizer: str) -> None:
        self._tokenizer = load_tokenizer(tokenizer)

    def text(self, token_ids: Sequence[int]) -> str:
        """Write a sequence as text, without special tokens."""
        return str(self._tokenizer.decode(list(token_ids), skip_special_tokens=True))

    def token(self, token_id: int) -> str:
        """Give a token as the vocabulary writes it."""
        return _token(self._tokenizer, token_id)

    def stream(self) -> "TextStream":
        """Begin a text that is written token by token."""
        return TextStream(self)


class TextStream:
    """Writes a sequence token by token, each in the time of one: only tokens since the last whole piece are read."""

    def __init__(self, detokenizer: Detokenizer) -> None:
        self._detokenizer = detokenizer
        self._token_ids: list[int] = []
        self._written = 0  # tokens before this one are in the text already
        self._context = 0  # the last piece begins here: joining depends on what stands before

    def add(self, token_id: int) -> str:
        """Give what a token adds to the text; nothing while it is part of a character, or special."""
        self._token_ids.append(token_id)
        before = self._detokenizer.text(self._token_ids[self._context : self._written])
        now = self._detokenizer.text(self._token_ids[self._context :])
        if len(now) <= len(before) or now.endswith("\ufffd"):
            return ""
        self._context, self._written = self._written, len(self._token_ids)
        return now[len(before) :]


def _token(tokenizer: Any, token_id: int) -> str:
    """Give a token as the vocabulary writes it; empty for an id that it lacks, which the library raises for in part."""
    return str(tokenizer.id_to_token(token_id) or "") if 0 <= token_id < 2**32 else ""


def load_tokenizer(text: str) -> Any:
    """Load a tokenizer.json without truncation and padding.

    Raises: BundleError where it is broken, or holds a regular expression: those can be made to run for ever.
    """
    from tokenizers import Tokenizer

    try:
        content = json.loads(text)
        if _has_regex(content):
            raise BundleError("the tokenizer holds a regular expression, which a bundle may not")
        content["truncation"] = content["padding"] = None
        return Tokenizer.from_str(json.dumps(content))
    except BundleError:
        raise
    except Exception as error:  # the library raises bare Exception
        raise BundleError("the tokenizer file is broken") from error


def read_tokenizer(path: Path) -> str:
    """Read a tokenizer.json as text; BundleError where it is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise BundleError("the tokenizer file is not UTF-8") from error


def _has_regex(content: Any) -> bool:
    if isinstance(content, dict):
        # A vocabulary may well hold the word: there, a number stands behind it.
        return isinstance(content.get("Regex"), str) or any(_has_regex(value) for value in content.values())
    return isinstance(content, list) and any(_has_regex(value) for value in content)


def split_sentences(text: str, max_characters: int = 0) -> list[tuple[int, int]]:
    """Find the sentences of a text: (begin, end) in code points, without white space around them.

    Splits after `.`, `!` and `?` before white space, at blank lines, and at white space where a sentence is over
    `max_characters`.
    """
    spans, begin = [], 0
    for match in _SENTENCE_END.finditer(text):
        spans.append((begin, match.end()))
        begin = match.end()
    spans.append((begin, len(text)))
    pieces = (piece for span in spans for piece in _pieces(text, *span, max_characters))
    return [piece for piece in pieces if piece[0] < piece[1]]


def _pieces(text: str, begin: int, end: int, most: int) -> list[tuple[int, int]]:
    pieces = []
    while True:
        found = _CHARACTER.search(text, begin, end)
        begin = found.start() if found else end
        if not most or end - begin <= most:
            break
        space = max(text.rfind(" ", begin, begin + most), text.rfind("\n", begin, begin + most))
        middle = space if space > begin else begin + most
        pieces.append(_strip(text, begin, middle))
        begin = middle
    return [*pieces, _strip(text, begin, end)]


def _strip(text: str, begin: int, end: int) -> tuple[int, int]:
    return begin, begin + len(text[begin:end].rstrip())
