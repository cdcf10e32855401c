"""Validation of strings: the protocol's are UTF-8, and not every Python string can be encoded.

A lone surrogate is not a character. It comes from JSON (`"\\ud83d"`), from texts that were cut in UTF-16, and from
command-line arguments and file names that are not UTF-8.
"""

import json
from collections.abc import Iterable
from typing import TypeVar

from limelight.base.errors import InputError
from limelight.base.status_details import FieldViolation

Text = TypeVar("Text", bound=str)


def check_string(text: Text, field: str) -> Text:
    """Return a string that can be encoded as UTF-8.

    Args:
        field: description of the string, for the error.
    Raises:
        InputError: names the field and the position of the first lone surrogate.
    """
    if isinstance(text, str):  # other types are refused later
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise invalid_string(field, _surrogate_position(text, error.start)) from None
    return text


def check_strings(texts: Iterable[str], field: str) -> list[str]:
    """Return strings that can be encoded, as `check_string` does; errors have the index of the string."""
    return [check_string(text, f"{field}[{place}]") for place, text in enumerate(texts)]


def decode_utf8(data: bytes, field: str, source: str) -> str:
    """Decode UTF-8, and convert line ends as Python does for text files.

    Raises:
        InputError: names the field, the source and the position of the first invalid byte.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        what = f"byte {error.start} of {source} (0x{data[error.start]:02x}) is not UTF-8"
        raise invalid_string(field, what) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def invalid_string(field: str, what: str) -> InputError:
    """Build the error of a field."""
    return InputError(f"{field}: {what}", violations=(FieldViolation(field, what),))


def quote(name: str) -> str:
    """Quote a name as field paths do: in double quotes, with escapes for unprintable characters."""
    return json.dumps(name, ensure_ascii=not name.isprintable())


def _surrogate_position(text: str, place: int) -> str:
    code = ord(text[place])
    origin = f", which stands for the byte 0x{code - 0xDC00:02x}: it is not UTF-8" if 0xDC80 <= code <= 0xDCFF else ""
    return f"character {place} is half of a surrogate pair (U+{code:04X}){origin}; no text that is sent may hold one"


def word_spans(text: str) -> list[tuple[int, int]]:
    """Return start and end of the words that white space parts."""
    spans, end = [], 0
    for word in text.split():
        start = text.index(word, end)
        end = start + len(word)
        spans.append((start, end))
    return spans
