"""Documents that every Python has: functions of its standard library, with one slip planted in each, or none.

    retrun x            misspelt keyword      print(x             missing bracket
    if x                missing colon         if x = 1:           = for ==
    open("x)            missing quote         in for x y:         swapped words

Files are parsed with `ast`, never imported. Lines are the sentences of these documents. Where to look is the line of
the slip, and in it what was changed; where something is missing, the characters beside that place, and what it belongs
to (the keyword that a colon ends, the other bracket, the other quote). Held out are whole files.
"""

import ast
import io
import itertools
import keyword
import random
import sysconfig
import textwrap
import tokenize
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from limelight_bundle.values import Text
from limelight_models.data.dataset import Dataset, Example, shuffled
from limelight_models.data.gold import Gold, Span
from limelight_models.data.spelling import slip

CORRECT = "correct"
COPIES = 2  # of each function that is learned from, each with a slip of its own
LINES, LONGEST = (3, 20), 88  # lines of a function, and characters of a line
_SHARE_CORRECT = 1 / 6
_TRIES = 8
_DECORATED = 0.08
_DECORATORS = (
    "property|staticmethod|classmethod|abstractmethod|cached_property|override|overload|contextmanager|wraps(function)|"
    "functools.wraps(func)|lru_cache(maxsize=None)|functools.cache|pytest.fixture|pytest.mark.slow|fixture(scope='module')|"
    'app.route("/")|app.get("/items/{name}")|router.post("/users")|click.command()|click.option("--name", default="")|'
    "task|shared_task(bind=True)|njit|torch.no_grad()|tf.function|name.setter|value.setter|"
    "pytest.mark.parametrize('value', [1, 2])|unittest.skip('later')|mock.patch('os.getcwd')|register(\"name\")|"
    "dataclass_transform()|login_required|receiver(post_save)|validator('name')|asyncio.coroutine"
).split("|")
_LEFT_OUT = {"test", "tests", "idle_test", "site-packages", "lib2to3", "pydoc_data", "__pycache__"}
_HEADERS = frozenset("def class if elif else for while with try except finally async".split())
_CONDITIONS = frozenset("if elif while assert return".split())
_PAIRS = {")": "(", "]": "[", "}": "{"}


@dataclass(frozen=True)
class Piece:
    """A token of Python: its kind, its text, and where it stands in the source, in characters."""

    kind: int
    text: str
    start: int
    line: int

    @property
    def end(self) -> int:
        """One past its last character."""
        return self.start + len(self.text)


@dataclass(frozen=True)
class Planted:
    """A source with a slip, and where in it to look."""

    source: str
    places: tuple[tuple[int, int], ...]


_SHOWN = (
    """def longest(words):
    best = ""
    for word in words:
        if len(word) > len(best):
            best = word
    retrun best
""",
    """def find(items, wanted):
    for place, item in enumerate(items):
        if item = wanted:
            return place
    return -1
""",
    """def total(items):
    result = 0
    for in item items:
        result += item
    return result
""",
)
Planter = Callable[[str, Sequence[Piece], random.Random], Planted | None]


def pieces(source: str) -> list[Piece]:
    """The tokens of a source that are on one line. Raises: tokenize.TokenError, SyntaxError where it is none."""
    begins = [0]
    for line in source.splitlines(keepends=True):
        begins.append(begins[-1] + len(line))
    return [
        Piece(each.type, each.string, begins[each.start[0] - 1] + each.start[1], each.start[0])
        for each in tokenize.generate_tokens(io.StringIO(source).readline)
        if each.start[0] == each.end[0] and each.string.strip()
    ]


def misspelt(source: str, found: Sequence[Piece], chance: random.Random) -> Planted | None:
    """A letter of a keyword is wrong, missing, doubled or in its neighbour's place."""
    words = [each for each in found if each.text in keyword.kwlist and len(each.text) > 2]
    if not words:
        return None
    word = chance.choice(words)
    typed = slip(word.text, chance)
    names = {each.text for each in found} | set(keyword.kwlist)
    return None if typed in names else replaced(source, word.start, word.end, typed)


def without_colon(source: str, found: Sequence[Piece], chance: random.Random) -> Planted | None:
    """The colon that ends the head of a block is missing."""
    ends = [
        (head, each)
        for head, each, following in _heads(found)
        if each.text == ":" and following is not None and following.line > each.line
    ]
    if not ends:
        return None
    head, colon = chance.choice(ends)
    places = [(colon.start - 1, colon.start)]
    if head.line == colon.line:
        places.insert(0, (head.start, head.end))
    return Planted(source[: colon.start] + source[colon.end :], tuple(places))


def _heads(found: Sequence[Piece]) -> Iterator[tuple[Piece, Piece, Piece | None]]:
    """The keyword that begins each block, with every token outside of brackets behind it, and the one after that."""
    head: Piece | None = None
    depth = 0
    for place, each in enumerate(found):
        first = place == 0 or found[place - 1].line < each.line
        if first and depth == 0:
            head = each if each.text in _HEADERS else None
        depth += (each.text in _PAIRS.values()) - (each.text in _PAIRS)
        if head is not None and depth == 0 and each.kind == tokenize.OP:
            following = next((other for other in found[place + 1 :] if other.kind != tokenize.COMMENT), None)
            yield head, each, following


def without_bracket(source: str, found: Sequence[Piece], chance: random.Random) -> Planted | None:
    """One of two brackets on a line is missing."""
    open_: list[Piece] = []
    pairs: list[tuple[Piece, Piece]] = []
    for each in found:
        if each.kind == tokenize.OP and each.text in _PAIRS.values():
            open_.append(each)
        elif each.kind == tokenize.OP and each.text in _PAIRS and open_:
            pairs.append((open_.pop(), each))
    pairs = [(one, other) for one, other in pairs if one.line == other.line]
    if not pairs:
        return None
    one, other = chance.choice(pairs)
    return missing(source, *((one, other) if chance.random() < 0.7 else (other, one)))


def without_quote(source: str, found: Sequence[Piece], chance: random.Random) -> Planted | None:
    """One of the two quotes of a string is missing."""
    strings = [
        each
        for each in found
        if each.kind == tokenize.STRING and each.text[0] in "'\"" and each.text[:3] not in ("'''", '"""')
    ]
    if not strings:
        return None
    string = chance.choice(strings)
    first = Piece(tokenize.OP, string.text[0], string.start, string.line)
    last = Piece(tokenize.OP, string.text[0], string.end - 1, string.line)
    return missing(source, *((first, last) if chance.random() < 0.7 else (last, first)))


def assigned(source: str, found: Sequence[Piece], chance: random.Random) -> Planted | None:
    """A condition assigns instead of comparing."""
    signs = []
    first, depth = "", 0
    for place, each in enumerate(found):
        if place == 0 or found[place - 1].line < each.line:
            first = each.text
        depth += (each.text in _PAIRS.values()) - (each.text in _PAIRS)
        if each.text == "==" and depth == 0 and first in _CONDITIONS:
            signs.append(each)
    if not signs:
        return None
    sign = chance.choice(signs)
    return replaced(source, sign.start, sign.end, "=")


def swapped(source: str, found: Sequence[Piece], chance: random.Random) -> Planted | None:
    """A keyword and the word beside it have changed places."""
    pairs = [
        (one, other)
        for one, other in itertools.pairwise(found)
        if one.kind == other.kind == tokenize.NAME
        and source[one.end : other.start] == " "
        and (one.text in keyword.kwlist or other.text in keyword.kwlist)
    ]
    if not pairs:
        return None
    one, other = chance.choice(pairs)
    return replaced(source, one.start, other.end, f"{other.text} {one.text}")


def replaced(source: str, begin: int, end: int, new: str) -> Planted:
    """Put something in the place of what stands there."""
    return Planted(source[:begin] + new + source[end:], ((begin, begin + len(new)),))


def missing(source: str, kept: Piece, gone: Piece) -> Planted:
    """Leave a piece out, whose other half is kept."""
    before = kept.start - (1 if gone.start < kept.start else 0)
    places = [(before, before + 1), (gone.start - 1, gone.start), (gone.start, gone.start + 1)]
    whole = source[: gone.start] + source[gone.end :]
    beside = [(begin, end) for begin, end in places if begin >= 0 and whole[begin:end].strip()]
    return Planted(whole, tuple(beside))


# Each slip, and how many times as often as its functions it is tried: some need what few functions have.
SLIPS: dict[str, tuple[Planter, float]] = {
    "misspelt keyword": (misspelt, 1.0),
    "missing colon": (without_colon, 1.0),
    "missing bracket": (without_bracket, 1.0),
    "missing quote": (without_quote, 1.4),
    "= for ==": (assigned, 4.0),
    "swapped words": (swapped, 1.0),
}


def dataset(*, seed: int = 0, library: Path | None = None, training: int = 9_000, held_out: int = 900) -> Dataset:
    """Plant slips in functions of this Python's standard library, or in those below another folder.

    training, held_out: at most so many functions.
    """
    root = library or Path(sysconfig.get_paths()["stdlib"])
    files = [file for file in sorted(root.rglob("*.py")) if not _LEFT_OUT & set(file.relative_to(root).parts)]
    parts: dict[str, list[Example]] = {"dev": [], "test": [], "train": []}
    most = {"dev": held_out, "test": held_out, "train": COPIES * training}
    seen: set[str] = set()
    chance = random.Random(f"slips/{seed}")
    for file in shuffled(files, seed):
        part = next((name for name, found in parts.items() if len(found) < most[name]), None)
        if part is None:
            break
        for source in functions(file, chance):
            if source not in seen:
                seen.add(source)
                copies = COPIES if part == "train" else 1
                parts[part] += [example(source, chance) for _ in range(copies)]
    return Dataset(
        name="Slips in functions of the Python standard library",
        licence="PSF-2.0",
        summary=(
            f"Functions of {LINES[0]} to {LINES[1]} lines, with a slip or none, seed {seed}; whole files held out."
            " The right place is the line of the slip."
        ),
        train=tuple(parts["train"]),
        dev=tuple(parts["dev"]),
        test=tuple(parts["test"]),
        shown=tuple({"document": Text(text)} for text in _SHOWN),
        does=(
            "Reads a Python function line by line and says which slip is in it, if any: the classes are"
            f" {CORRECT!r}, 'misspelt keyword', 'missing colon', 'missing bracket' (or parenthesis, or brace),"
            " 'missing quote', '= for ==' (a condition that assigns) and 'swapped words' (a keyword and its neighbour)."
        ),
        inputs={
            "document": (
                f"One Python function of {LINES[0]} to {LINES[1]} lines as it stands in a file, with one slip or none."
            )
        },
    )


def functions(file: Path, chance: random.Random) -> Iterator[str]:
    """The functions of a file with their decorators, without what surrounds them; half of those with a docstring lose
    it. Some get a decorator of those that other people's code has, as the standard library has few.
    """
    try:
        source = file.read_text(encoding="utf-8")
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    lines = source.splitlines(keepends=True)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min(each.lineno for each in (node, *node.decorator_list)) - 1
            last = node.end_lineno or node.lineno
            kept = lines[first:last]
            if len(node.body) > 1 and ast.get_docstring(node, clean=False) is not None and chance.random() < 0.5:
                string = node.body[0]
                kept = lines[first : string.lineno - 1] + lines[string.end_lineno or string.lineno : last]
            text = textwrap.dedent("".join(kept)).rstrip() + "\n"
            if chance.random() < _DECORATED:
                text = f"@{chance.choice(_DECORATORS)}\n{text}"
            real = [line for line in text.splitlines() if line.strip()]
            if LINES[0] <= len(real) <= LINES[1] and max(map(len, real)) <= LONGEST and parses(text):
                yield text


def parses(source: str) -> bool:
    """Tell whether a source is Python."""
    try:
        ast.parse(source)
    except (SyntaxError, ValueError):
        return False
    return True


def example(
    source: str,
    chance: random.Random,
    planters: Mapping[str, tuple[Planter, float]] = SLIPS,
    *,
    correct: float = _SHARE_CORRECT,
) -> Example:
    """A function with a slip, or with this share none; its class says which."""
    if chance.random() >= correct:
        found = pieces(source)
        for _ in range(_TRIES):
            name = chance.choices(list(planters), [often for _, often in planters.values()])[0]
            planted = planters[name][0](source, found, chance)
            if planted is not None and (name == "misspelt keyword" or not parses(planted.source)):
                return Example({"document": Text(planted.source)}, name, gold=gold(planted))
    return Example({"document": Text(source)}, CORRECT)


def gold(planted: Planted) -> tuple[Gold, ...]:
    """The document looks at the lines with the slip, each of those at what is wrong in it."""
    looks: dict[Span, list[Span]] = {}
    for begin, end in planted.places:
        first = planted.source.rfind("\n", 0, begin) + 1
        last = planted.source.find("\n", begin)
        line = Span("document", first, last if last >= 0 else len(planted.source))
        looks.setdefault(line, []).append(Span("document", begin, end))
    return (Gold(tuple(looks)), *(Gold(tuple(spans), of=line) for line, spans in looks.items()))
