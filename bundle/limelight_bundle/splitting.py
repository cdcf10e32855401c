"""Parts of a text by their characters: sentences, lines and words."""

import re
from collections.abc import Iterator

# A sentence ends after . ! ? with closing quotes and brackets, before white space; or at a blank line. Possessive, and
# only from the first of several marks, so that a text of dots takes linear time.
_SENTENCE_END = re.compile(r"(?<![.!?])[.!?]++[\"'”’)\]]*+(?=\s)|\n\s*\n")
_LINE_END = re.compile(r"\n|\r\n?")
_CHARACTER = re.compile(r"\S")
_WORD = re.compile(r"\S+")


def split_sentences(text: str, max_characters: int = 0) -> Iterator[tuple[int, int]]:
    """Yield the sentences of a text on demand: (begin, end) in code points, without outer white space.

    Splits after `.`, `!` and `?` before white space, at blank lines, and at white space in sentences over
    `max_characters`.
    """
    return _split(text, _SENTENCE_END, max_characters)


def split_lines(text: str, max_characters: int = 0) -> Iterator[tuple[int, int]]:
    """Yield the lines of a text that are not empty, as `split_sentences` does."""
    return _split(text, _LINE_END, max_characters)


def _split(text: str, end: re.Pattern[str], max_characters: int) -> Iterator[tuple[int, int]]:
    begin = 0
    for match in end.finditer(text):
        yield from _pieces(text, begin, match.end(), max_characters)
        begin = match.end()
    yield from _pieces(text, begin, len(text), max_characters)


def split_words(text: str) -> Iterator[tuple[int, int]]:
    """Yield the words of a text, separated by white space: (begin, end) in code points."""
    return (match.span() for match in _WORD.finditer(text))


def _pieces(text: str, begin: int, end: int, most: int) -> Iterator[tuple[int, int]]:
    while found := _CHARACTER.search(text, begin, end):
        begin = found.start()
        if not most or end - begin <= most:
            yield _strip(text, begin, end)
            return
        space = max(text.rfind(" ", begin, begin + most), text.rfind("\n", begin, begin + most))
        middle = space if space > begin else begin + most
        yield _strip(text, begin, middle)
        begin = middle


def _strip(text: str, begin: int, end: int) -> tuple[int, int]:
    return begin, begin + len(text[begin:end].rstrip())
