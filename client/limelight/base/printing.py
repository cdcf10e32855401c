"""Texts of others as they may be written to a terminal."""

import html
import re
import unicodedata

_CONTROLS = {"Cc", "Cf", "Cs", "Zl", "Zp"}
_HARMLESS = "\n\t\u200c\u200d"
# Characters that XML does not have.
_UNDRAWABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def escape_markup(text: str) -> str:
    """Escape a text for HTML and SVG; characters that XML does not have become U+FFFD."""
    return html.escape(_UNDRAWABLE.sub("\ufffd", text))


def printable(text: str) -> str:
    """Return a text as it may be written to a terminal: what controls it or its direction becomes an escape.

    A server's text could otherwise clear the screen, set its title, or show letters in another order. Line ends, tabs
    and the joiners of letters stay.
    """
    if text.isprintable():
        return text
    return "".join(map(_escaped, text.replace("\r\n", "\n")))


def _escaped(letter: str) -> str:
    if letter in _HARMLESS or unicodedata.category(letter) not in _CONTROLS:
        return letter
    return f"\\u{ord(letter):04x}" if ord(letter) < 2**16 else f"\\U{ord(letter):08x}"
