"""Drawing resources for pictures: colours, fonts, and line breaking."""

from bisect import bisect_right
from math import ceil
from typing import TypeAlias

from PIL import ImageFont

Font: TypeAlias = ImageFont.FreeTypeFont | ImageFont.ImageFont

PAPER, INK, QUIET = (255, 255, 255), (24, 28, 26), (120, 126, 122)


def load_font(size: int, *, even: bool = False) -> Font:
    """Return a font of a size in pixels; even: a monospaced font, for program code."""
    try:
        # Pillow's font has Latin letters only; prefer this one if it is installed.
        return ImageFont.truetype("DejaVuSansMono.ttf" if even else "DejaVuSans.ttf", size)
    except OSError:
        return ImageFont.load_default(size)


def wrap_text(text: str, face: Font, width: int, *, most: int) -> list[str]:
    """Break a text between words into at most `most` lines of a width in pixels.

    An ellipsis marks omitted text, and words wider than a line.
    """
    lines = [""]
    for word in text[: most * width].split():
        longer = f"{lines[-1]} {word}".lstrip()
        if lines[-1] and face.getlength(longer) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    if len(lines) > most:
        lines[most - 1 :] = [f"{lines[most - 1]} …"]
    return [_cut(line, face, width) for line in lines]


def _cut(line: str, face: Font, width: int) -> str:
    if face.getlength(line) <= width:
        return line
    end = bisect_right(range(len(line)), width, key=lambda length: ceil(face.getlength(f"{line[:length]}…"))) - 1
    return f"{line[: max(end, 0)].removesuffix(' …').rstrip()}…"
