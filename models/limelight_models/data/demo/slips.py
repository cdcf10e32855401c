"""Slips in Python as strangers write it: every statement of the language, classes and scripts, what people write first.

    mathc command:      case 1          f"Hello, {name!         async s with:

Texts that are no Python (prose, other languages) are called `none`.
"""

import ast
import inspect
import keyword
import random
import sysconfig
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from limelight_bundle.values import Text
from limelight_models.data import slips
from limelight_models.data.dataset import Dataset, Example, shuffled
from limelight_models.data.demo.classics import CLASSICS
from limelight_models.data.demo.mixed import mixed
from limelight_models.data.demo.statements import program
from limelight_models.data.demo.words import COMMON
from limelight_models.data.slips import CORRECT, LINES, LONGEST, Piece, Planted, Planter, missing, replaced
from limelight_models.data.spelling import slip

NONE = "none"
_SOFT = ("match", "case", "type")
_PREFIXES = "rbfuRBFU"
_OTHER_LANGUAGES = (
    "function {a}({b}) {{\n  return {b} + 1;\n}}\n",
    "const {a} = ({b}) => {{\n  console.log({b});\n}};\n",
    'int main(void) {{\n    int {a} = 0;\n    printf("%d\\n", {a});\n    return 0;\n}}\n',
    "#include <stdio.h>\n\nint {a}(int {b}) {{\n    return {b} * 2;\n}}\n",
    "public class {a} {{\n    public static void main(String[] args) {{\n"
    '        System.out.println("{b}");\n    }}\n}}\n',
    "SELECT {a}, {b} FROM {c} WHERE {a} = 1 ORDER BY {b};\n",
    "<html>\n  <body>\n    <p>{a} {b}</p>\n  </body>\n</html>\n",
    "fn {a}({b}: i32) -> i32 {{\n    let mut x = {b};\n    x += 1;\n    x\n}}\n",
    "func {a}({b} int) int {{\n\treturn {b} + 1\n}}\n",
    '#!/bin/sh\nset -e\necho "${a}"\nfor {b} in *; do\n  rm "${b}"\ndone\n',
    "body {{\n  {a}: {b};\n  color: red;\n}}\n",
    "# {a}\n\n- {b}: {c}\n- {a} and {b}\n\nSee *{c}* for more.\n",
)


def dataset(*, seed: int = 0, training: int = 6_500, more: int = 7_000, held_out: int = 900) -> Dataset:
    """Plant slips in functions of the standard library, and of what strangers send so many more to learn from."""
    base = slips.dataset(seed=seed, training=training, held_out=held_out)
    chance = random.Random(f"demo-slips/{seed}")
    parts = zip(prose(seed), (more, held_out // 3, held_out // 3), strict=True)
    made = mixed(base, [[example(chance, texts) for _ in range(count)] for texts, count in parts], seed=seed)
    return replace(
        made,
        name="Slips in functions of the Python standard library, and in Python that was made up",
        summary=(
            f"{base.summary} With them classes, scripts and functions of every statement that Python has, and texts"
            f" that are no Python, called {NONE!r}."
        ),
        does=(
            "Reads a piece of Python line by line and says which slip is in it: 'misspelt keyword', 'missing colon',"
            " 'missing bracket' (or parenthesis, or brace), 'missing quote', '= for ==' (a condition that assigns),"
            f" 'swapped words' (a keyword and its neighbour), or {CORRECT!r} where there is none; {NONE!r} where the"
            " text is no Python."
        ),
        inputs={
            "document": (
                f"A Python function, class or script of {LINES[0]} to {LINES[1]} lines as it stands in a file, with one"
                " slip or none."
            )
        },
    )


def example(chance: random.Random, texts: Sequence[str]) -> Example:
    """A program with a slip or none, or a text that is no program; texts: to take that from."""
    kind = chance.random()
    if kind < 0.07:
        return Example({"document": Text(foreign(chance, texts))}, NONE)
    source = chance.choice(CLASSICS) if kind < 0.25 else _fitting(chance)
    return slips.example(source, chance, PLANTERS, correct=0.35)


def _fitting(chance: random.Random) -> str:
    """A program of so many lines, none of them too long, that this Python can read or one of the next could."""
    while True:
        source = program(chance)
        lines = [line for line in source.splitlines() if line.strip()]
        if 2 <= len(lines) <= LINES[1] and max(map(len, lines)) <= LONGEST and readable(source):
            return source


def readable(source: str) -> bool:
    """Tell whether a source is Python: of this version, or but for `type` and type parameters."""
    lines = source.splitlines(keepends=True)
    older = "".join(_older(line) for line in lines)
    return slips.parses(older)


def _older(line: str) -> str:
    """A line without what is newer than the oldest Python here."""
    inner = line.lstrip()
    space = line[: len(line) - len(inner)]
    if inner.startswith("type ") and "=" in inner:
        return f"{space}pass\n"
    return line.replace("[T](", "(") if inner.startswith(("def ", "async def ")) else line


def foreign(chance: random.Random, texts: Sequence[str]) -> str:
    """Prose, words, or another language's code."""
    match chance.randrange(4):
        case 0 | 1:
            return chance.choice(texts)
        case 2:
            lines = [" ".join(chance.choices(COMMON, k=chance.randint(1, 10))) for _ in range(chance.randint(1, 6))]
            return "\n".join(line.capitalize() + chance.choice(("", ".", "!", "?")) for line in lines) + "\n"
    a, b, c = chance.sample(COMMON, 3)
    return chance.choice(_OTHER_LANGUAGES).format(a=a, b=b, c=c)


def prose(seed: int) -> tuple[list[str], list[str], list[str]]:
    """Paragraphs of this Python's docstrings, to learn from, to choose by and held out: whole files."""
    root = Path(sysconfig.get_paths()["stdlib"])
    found = [list(_paragraphs(file)) for file in shuffled(sorted(root.glob("*.py")), seed)]
    tenth = len(found) // 10
    dev, test, train = found[:tenth], found[tenth : 2 * tenth], found[2 * tenth :]
    return list(chain(*train)), list(chain(*dev)), list(chain(*test))


def _paragraphs(file: Path) -> Iterator[str]:
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
            text = inspect.cleandoc(ast.get_docstring(node, clean=False) or "")
            for part in text.split("\n\n"):
                if len(part.split()) >= 6 and ">>>" not in part and len(part.splitlines()) <= 12:
                    yield part + "\n"


def soft_keywords(found: Sequence[Piece]) -> Iterator[tuple[Piece, Piece]]:
    """`match`, `case` and `type` where they are keywords, each with the last token of its line that is no comment."""
    for place, each in enumerate(found[:-1]):
        line = [other for other in found[place:] if other.line == each.line and other.kind != tokenize.COMMENT]
        first = place == 0 or found[place - 1].line < each.line
        if each.text in _SOFT and first and len(line) > 1:
            following = line[1]
            begins = following.kind != tokenize.OP or following.text in ("[", "(", "{", "-")
            if begins and (line[-1].text == ":" if each.text != "type" else any(other.text == "=" for other in line)):
                yield each, line[-1]


def misspelt(source: str, found: Sequence[Piece], chance: random.Random) -> Planted | None:
    """A letter of `match`, `case` or `type` is wrong; of another keyword, where there is none of them."""
    words = [word for word, _ in soft_keywords(found)]
    if not words or chance.random() < 0.4:
        return slips.misspelt(source, found, chance)
    word = chance.choice(words)
    typed = slip(word.text, chance)
    names = {each.text for each in found} | set(keyword.kwlist)
    return None if typed in names else replaced(source, word.start, word.end, typed)


def without_colon(source: str, found: Sequence[Piece], chance: random.Random) -> Planted | None:
    """The colon of a match or a case is missing; of another block, where there is none of them."""
    heads = [(word, last) for word, last in soft_keywords(found) if last.text == ":"]
    if not heads or chance.random() < 0.4:
        return slips.without_colon(source, found, chance)
    head, colon = chance.choice(heads)
    return Planted(
        source[: colon.start] + source[colon.end :], ((head.start, head.end), (colon.start - 1, colon.start))
    )


def without_quote(source: str, found: Sequence[Piece], chance: random.Random) -> Planted | None:
    """A quote of a string with a prefix is missing; of another string, where there is none of them."""
    strings = []
    for each in found:
        quoted = each.text.lstrip(_PREFIXES)
        if each.kind == tokenize.STRING and quoted != each.text and quoted[:3] not in ("'''", '"""'):
            strings.append((each.end - len(quoted), each))
    if not strings or chance.random() < 0.4:
        return slips.without_quote(source, found, chance)
    start, string = chance.choice(strings)
    first = Piece(tokenize.OP, source[start], start, string.line)
    last = Piece(tokenize.OP, source[string.end - 1], string.end - 1, string.line)
    return missing(source, *((first, last) if chance.random() < 0.7 else (last, first)))


def swapped(source: str, found: Sequence[Piece], chance: random.Random) -> Planted | None:
    """`match`, `case` or `type` and the word behind it have changed places; or another keyword and its neighbour."""
    words = [word for word, _ in soft_keywords(found)]
    if not words or chance.random() < 0.6:
        return slips.swapped(source, found, chance)
    word = chance.choice(words)
    other = found[[each.start for each in found].index(word.start) + 1]
    if other.kind != tokenize.NAME:
        return None
    return replaced(source, word.start, other.end, f"{other.text} {word.text}")


PLANTERS: Mapping[str, tuple[Planter, float]] = {
    **slips.SLIPS,
    "misspelt keyword": (misspelt, 1.0),
    "missing colon": (without_colon, 1.0),
    "missing quote": (without_quote, 1.4),
    "swapped words": (swapped, 1.0),
}
