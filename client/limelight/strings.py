"""Strings that can travel: the protocol's are UTF-8, which Python's need not be able to become.

Half of a surrogate pair stands for no character. It comes from JSON (`"\\ud83d"`), from texts that were cut in UTF-16,
and from bytes on the command line or in names of files that are not UTF-8.
"""

import json
from collections.abc import Iterable
from typing import TypeVar

from limelight.errors import InputError
from limelight.status_details import FieldViolation

Text = TypeVar("Text", bound=str)


def check_string(text: Text, field: str) -> Text:
    """Return a string as it is.

    Args:
        text: to be sent.
        field: what it is, for the error.
    Raises: InputError naming the field and the place of the first half of a surrogate pair.
    """
    if isinstance(text, str):  # what is none is left for others to refuse
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise broken(field, _half(text, error.start)) from None
    return text


def check_strings(texts: Iterable[str], field: str) -> list[str]:
    """Return strings as they are; as `check_string`, with the number of the string in the error's field."""
    return [check_string(text, f"{field}[{place}]") for place, text in enumerate(texts)]


def decoded(data: bytes, field: str, source: str) -> str:
    """Decode UTF-8, with the ends of lines as Python reads them from a file.

    Raises: InputError naming the field, the source and the place of the first byte that is not UTF-8.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        what = f"byte {error.start} of {source} (0x{data[error.start]:02x}) is not UTF-8"
        raise broken(field, what) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def broken(field: str, what: str) -> InputError:
    """Make the error of a field."""
    return InputError(f"{field}: {what}", violations=(FieldViolation(field, what),))


def quoted(name: str) -> str:
    """Write a name as paths of fields have it: in double quotes, with escapes for what cannot be printed."""
    return json.dumps(name, ensure_ascii=not name.isprintable())


def _half(text: str, place: int) -> str:
    code = ord(text[place])
    origin = f", which stands for the byte 0x{code - 0xDC00:02x}: it is not UTF-8" if 0xDC80 <= code <= 0xDCFF else ""
    return f"character {place} is half of a surrogate pair (U+{code:04X}){origin}; no text that is sent may hold one"
