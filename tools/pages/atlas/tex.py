"""TeX of the equations that docstrings and rows have in plain characters: `e = wᵀ act(W₁ q + W₂ k + b)`."""

import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

_SIGNS = {
    "·": r"\cdot ",
    "⊙": r"\odot ",
    "∘": r"\circ ",
    "⊗": r"\otimes ",
    "⊕": r"\oplus ",
    "×": r"\times ",
    "*": r"\ast ",
    "∈": r"\in ",
    "∉": r"\notin ",
    "⊂": r"\subset ",
    "∪": r"\cup ",
    "∩": r"\cap ",
    "≤": r"\le ",
    "≥": r"\ge ",
    "≠": r"\ne ",
    "≈": r"\approx ",
    "≡": r"\equiv ",
    "≪": r"\ll ",
    "≫": r"\gg ",
    "∝": r"\propto ",
    "~": r"\sim ",
    "∼": r"\sim ",
    "…": r"\ldots ",
    "∞": r"\infty ",
    "±": r"\pm ",
    "→": r"\to ",
    "←": r"\leftarrow ",
    "↦": r"\mapsto ",
    "⇒": r"\Rightarrow ",
    "∂": r"\partial ",
    "∇": r"\nabla ",
    "∀": r"\forall ",
    "∅": r"\emptyset ",
    "⟨": r"\langle ",
    "⟩": r"\rangle ",
    "⌊": r"\lfloor ",
    "⌋": r"\rfloor ",
    "⌈": r"\lceil ",
    "⌉": r"\rceil ",
    "∧": r"\wedge ",
    "∨": r"\vee ",
    "¬": r"\neg ",
    "∥": r"\parallel ",
    "−": "-",
    "–": "-",
    "′": "'",
    "%": r"\%",
    "&": r"\mathbin{\&}",
    "#": r"\#",
}
_RELATIONS = "=<>≤≥≠≈≡∝~∼∈→←↦:⇒"
_BIG = {"Σ": r"\sum", "Π": r"\prod", "∑": r"\sum", "∏": r"\prod", "∫": r"\int", "⋃": r"\bigcup"}
_BLACKBOARD = {"ℓ": r"\ell ", "ℒ": r"\mathcal{L}", "𝟙": r"\mathbf{1}", "𝟏": r"\mathbf{1}"}
_BLACKBOARD |= {sign: rf"\mathbb{{{letter}}}" for sign, letter in zip("ℝℂℕℤ𝔼", "RCNZE", strict=True)}
_HALVES = {"½": "12", "¼": "14", "¾": "34", "⅓": "13"}
_BRACKETS = {
    "{": (r"\{", r"\}"),
    "⟨": (r"\langle ", r"\rangle "),
    "‖": (r"\lVert ", r"\rVert "),
    "|": (r"\lvert ", r"\rvert "),
}
_ACCENTS = {"\u0302": "hat", "\u0303": "tilde", "\u0304": "bar", "\u0305": "bar", "\u0307": "dot", "\u20d7": "vec"}
_GREEK = dict(zip("αβγδεζηθικλμνξπρςστυφχψωϕϵϑΓΔΘΛΞΥΦΨΩ", (
    "alpha beta gamma delta varepsilon zeta eta theta iota kappa lambda mu nu xi pi rho varsigma sigma tau upsilon phi"
    " chi psi omega phi epsilon vartheta Gamma Delta Theta Lambda Xi Upsilon Phi Psi Omega"
).split(), strict=True))  # fmt: skip
_CAPITALS = dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΧ", "ABEZHIKMNOPTX", strict=True))
_FUNCTIONS = frozenset(
    "softmax sparsemax entmax sigmoid tanh exp log ln cos sin max min argmax argmin act relu softplus sgn sign det tr"
    " diag rank norm clamp clip mod floor sort topk GRU LSTM RNN MLP FFN CNN ReLU ELU GELU LeakyReLU Re Im KL".split()
)
_NAMED = {each: rf"\{each} " for each in "exp log ln cos sin tanh max min det".split()}
_SMALL_WORDS = frozenset("in up to of is or no at by on as".split())
# Letters that are words between words.
_BEFORE_A = frozenset("from to by in is and of along with are over where has as that".split())
_WORD = r"[A-Z]\d[A-Z][A-Za-z]+|[A-Za-z]{2,}(?:-[A-Za-z]{2,})*(?:['’]s(?![A-Za-z]))?|[A-Za-z]"
_TOKEN = re.compile(
    rf"(?P<space>\s+)|(?P<code>`[^`]*`)|(?P<quote>\"[^\"]*\"|§[\d.]+)|(?P<number>\d+(?:[.,]\d+)*)|(?P<word>{_WORD})|(?P<other>.)"
)
_BESIDE = r",\quad "
_WIDE = 90  # characters of formulas beside each other; more stand below each other
_PROSE = "prose"
_WORDS = (_PROSE, "code", "quote")


class Equation(NamedTuple):
    """A line of an equation. label: what it is the equation of. tex: displayed, empty where all is words. note: what
    follows in words, as Markdown with TeX between dollars.
    """

    label: str
    tex: str
    note: str

    @property
    def markdown(self) -> str:
        """The line as Markdown: a displayed formula, with its words around it."""
        label = f"{self.label[0].upper()}{self.label[1:]}:" if self.label else ""
        note = f"{self.note[0].upper()}{self.note[1:]}." if self.note else ""
        return "\n\n".join(filter(None, [label, f"$$\n{self.tex}\n$$" if self.tex else "", note])) + "\n"


def equations(text: str) -> Iterator[Equation]:
    """Read an equation in plain characters. Several are separated by `;` and spaces, words follow a comma.

    Raises: ValueError for a character that TeX has no form for here, or a bracket without its partner.
    """
    for line in _split(text, r";\s+|\n+|(?<=[a-z.])\.\s+(?=[A-Z])|\.\s*$"):
        label, rest = _labelled(line)
        shown, aside = "", ""
        clauses = list(_split(rest, r",\s+"))
        while clauses and not aside and _displays(clauses[0], shown):
            clause, aside = _explained(clauses.pop(0))
            between = (_BESIDE if _relates(clause) else ", ") if _relates(shown) else ", "
            shown += (between if shown else "") + clause
        parts = shown.split(_BESIDE)
        if len(shown) > _WIDE:
            yield from (Equation(label if part is parts[0] else "", _tex(part), "") for part in parts[:-1])
            label, parts = "" if parts[1:] else label, parts[-1:]
        yield Equation(label, _BESIDE.join(map(_tex, parts)), markdown(", ".join(filter(None, [aside, *clauses]))))


def _labelled(line: str) -> tuple[str, str]:
    """What stands before a colon, where that is words alone, and the rest."""
    before, colon, after = line.partition(": ")
    if not colon or not re.fullmatch(r"[\w\s().,–-]*[A-Za-z]{2}[\w\s().,–-]*", before) or "_" in before:
        return "", line
    return before, after


def _explained(clause: str) -> tuple[str, str]:
    """A clause, and what words say of it behind a colon."""
    first, *rest = _split(clause, r":\s+")
    return (first, ": ".join(rest)) if rest and _prose(rest[0]) else (clause, "")


def _displays(clause: str, shown: str) -> bool:
    """Whether a clause is displayed: it relates two things before its first word. Of later ones those without words,
    and other values of what was shown.
    """
    kinds = [(kind, token) for kind, token in _tokens(_explained(clause)[0]) if kind != "space"]
    words = [number for number, (kind, _) in enumerate(kinds) if kind in _WORDS]
    relation = next((number for number, (_, token) in enumerate(kinds) if token in _RELATIONS), len(kinds))
    if not words:
        return relation < len(kinds) or not _relates(shown)
    if not _relates(shown):
        return relation < words[0]
    return words[0] > 0 and relation == len(kinds) and (_prose(shown) or kinds[words[0]][1] == "or")


def _relates(text: str) -> bool:
    return any(sign in text for sign in _RELATIONS)


def _prose(text: str) -> bool:
    return any(kind == _PROSE for kind, _ in _tokens(text))


def markdown(text: str) -> str:
    """Words with what is mathematics among them between dollars."""
    parts: list[str] = []
    for prose, run in _runs(text):
        stripped = run.strip(" ")
        if prose or not re.search(r"[^\s\d,;:.()–]|^-", stripped):
            parts.append(run)
            continue
        body = re.fullmatch(r"(\s*)(.*?)([\s,;:.]*)", run, re.DOTALL)
        assert body
        parts.append(f"{body[1]}${_tex(body[2])}${body[3]}")
    return "".join(parts).strip()


def _runs(text: str) -> Iterator[tuple[bool, str]]:
    """Parts of a text, of words and of mathematics in turn. Brackets around words are of the words."""
    found: list[tuple[bool, str]] = []
    tokens, number = list(_tokens(text)), 0
    while number < len(tokens):
        kind, token = tokens[number]
        end = number + 1
        if kind == "space" or token in ",;:.":
            prose = found[-1][0] if found else True
        elif token in "([{" and kind == "other":
            inside = _closing(tokens, number)
            prose = any(each in _WORDS for each, _ in tokens[number:inside]) and not _indexed(tokens, number)
            end = end if prose else inside
        else:
            prose = kind in _WORDS or token in ")]"
        run = "".join(each for _, each in tokens[number:end])
        if found and found[-1][0] == prose:
            found[-1] = (prose, found[-1][1] + run)
        else:
            found.append((prose, run))
        number = end
    yield from found


def _indexed(tokens: list[tuple[str, str]], number: int) -> bool:
    """Whether a bracket belongs to what stands right before it, as arguments or an index do."""
    return number > 0 and tokens[number - 1][0] in ("word", "other") and tokens[number - 1][1] not in ",;:.-–"


def _closing(tokens: list[tuple[str, str]], begin: int) -> int:
    depth = 0
    for number in range(begin, len(tokens)):
        depth += (tokens[number][1] in "([{") - (tokens[number][1] in ")]}")
        if depth == 0:
            return number + 1
    return len(tokens)


def _split(text: str, at: str) -> Iterator[str]:
    """Parts of a text, where a mark outside brackets and quotation marks parts it."""
    depth, begin, number, quoted = 0, 0, 0, False
    mark = re.compile(at)
    while number < len(text):
        depth += (text[number] in "([{") - (text[number] in ")]}")
        quoted ^= text[number] in '"`'
        if depth == 0 and not quoted and (found := mark.match(text, number)):
            yield text[begin:number].strip()
            begin = number = found.end()
            continue
        number += 1
    if text[begin:].strip():
        yield text[begin:].strip()


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    """Tokens with their kinds: a word is prose where it is no function, no name, and has no index nor is one."""
    found = [(str(each.lastgroup), each[0]) for each in _TOKEN.finditer(text)]
    index = 0
    for number, (kind, token) in enumerate(found):
        after = found[number + 1][1] if number + 1 < len(found) else ""
        before = found[number - 1][1] if number else ""
        if token in "{}":
            index = max(0, index + 1 if token == "{" and (index or before in ("_", "^")) else index - (token == "}"))
        if kind == "word" and len(token) > 1:
            indexed = after[:1] in ("(", "_", "^") or _script(after[:1])
            defined = number == 0 and [each for _, each in found[1:3]] == [" ", "="]
            name = token in _FUNCTIONS or (not token[1:].islower() and token.isalnum()) or token.endswith("LSTM")
            yield ("index" if index else kind if name or indexed or defined or before in ("_", "^") else _PROSE), token
        elif token in "aA" and (token == "a" or number == 0) and _article(found, number):
            yield _PROSE, token
        else:
            yield kind, token


def _article(found: list[tuple[str, str]], number: int) -> bool:
    """Whether an "a" stands before a word that it may be the article of."""
    if len(found) < number + 3 or found[number + 1][0] != "space":
        return False
    kind, token = found[number + 2]
    indexed = len(found) > number + 3 and found[number + 3][1][:1] in ("(", "_", "^")
    return kind == "word" and len(token) > 1 and not indexed and token not in _FUNCTIONS | _BEFORE_A


def _script(character: str) -> str:
    """`^` or `_` of a small character above or below the line; empty of others."""
    if not character:
        return ""
    name = unicodedata.decomposition(character)
    if character in "ᵀᴴ":
        return "^"
    return "^" if name.startswith("<super>") else "_" if name.startswith("<sub>") else ""


_PRODUCT = ("factor", "times", "space")


class _Piece(NamedTuple):
    """A part of a formula. kind: factor, sign, big, slash, space, or prose."""

    kind: str
    tex: str


class _Reader:
    """Reads a formula, bracket by bracket."""

    def __init__(self, text: str) -> None:
        self.tokens = list(_tokens(text))
        self.at = 0
        self.small = 0  # whether it reads an index, how deep
        self.text = text

    def read(self, until: str = "") -> str:
        """Read up to a closing bracket, which is left, or the end."""
        pieces: list[_Piece] = []
        while self.at < len(self.tokens):
            kind, token = self.tokens[self.at]
            if until and token == until:
                return _joined(pieces)
            if not until and token in ")]}":
                raise ValueError(f"{token} has no partner in {self.text!r}")
            self._piece(kind, token, pieces)
        if until:
            raise ValueError(f"{until} is missing in {self.text!r}")
        return _joined(pieces)

    def _next(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def _piece(self, kind: str, token: str, pieces: list[_Piece]) -> None:
        previous = self.tokens[self.at - 1][1] if self.at else ""
        if kind == "space":
            self.at += 1
            pieces.append(_Piece("space", " "))
        elif kind == "index" and token not in _FUNCTIONS and self._next_after() != "(":
            self.at += 1
            letters = (len(token) == 2 and token not in _SMALL_WORDS) or re.fullmatch("[ijklmnt]{3}", token)
            pieces.append(_Piece("factor", token) if letters else _Piece(_PROSE, token))
        elif kind in _WORDS:
            self.at += 1
            pieces.append(_Piece(_PROSE, token.strip("`").replace("_", r"\_")))
        elif token == "/":
            spaced = previous.isspace() and self.tokens[self.at + 1][0] == "space"
            self.at += 1
            pieces.append(_Piece("factor" if self.small else "slash" if spaced else "tight", "/"))
        elif token == "‖" and previous.isspace() and self._next_after().isspace():
            self.at += 1
            pieces.append(_Piece("sign", r"\parallel "))
        elif token in "([{⟨‖|" and (token not in "‖|" or self._has_partner(token)):
            pieces.append(_Piece("factor", self._bracketed(token) + self._scripts()))
        elif token in _BIG:
            self.at += 1
            pieces.append(_Piece("big", _BIG[token] + self._scripts()))
        elif token == "√":
            self.at += 1
            inside = self._atom()
            inside = inside[1:-1] if inside.startswith("(") and inside.endswith(")") else inside
            pieces.append(_Piece("factor", rf"\sqrt{{{inside}}}" + self._scripts()))
        elif token in _SIGNS or token in "+-=<>,;:.!?|*":
            self.at += 1
            kind = "times" if token in "·⊙×*∘" else "sign"
            pieces.append(_Piece(kind, _SIGNS.get(token, token)))
        else:
            pieces.append(_Piece("factor", self._atom()))

    def _next_after(self) -> str:
        return self.tokens[self.at + 1][1] if self.at + 1 < len(self.tokens) else ""

    def _has_partner(self, token: str) -> bool:
        return any(each == token for _, each in self.tokens[self.at + 1 :])

    def _bracketed(self, token: str) -> str:
        close = {"(": ")", "[": "]", "{": "}", "⟨": "⟩", "‖": "‖", "|": "|"}[token]
        self.at += 1
        inside = self.read(close).strip()
        self.at += 1
        tall = r"\frac" in inside or r"\sum" in inside or r"\prod" in inside
        left, right = _BRACKETS.get(token, (token, close))
        if tall and token in "([{":
            return rf"\left{left}{inside}\right{right}"
        return f"{left}{inside}{right}" if token in "([{" else f"{{{left}{inside}{right}}}"

    def _atom(self) -> str:
        """A letter, a number or a bracket with what stands above and below it."""
        kind, token = self.tokens[self.at]
        if token in "([{‖":
            return self._bracketed(token) + self._scripts()
        self.at += 1
        if kind in ("word", "index") and len(token) > 1:
            function = token in _FUNCTIONS or self._next() == "("
            form = "text" if "-" in token else "operatorname" if function else "mathrm"
            name = rf"\{form}{{{token}}}"
            return _NAMED.get(token, name) + self._scripts()
        return self._letter(token) + self._scripts()

    def _letter(self, token: str) -> str:
        if token == "'" or token[0].isdigit():
            return token
        if token in _HALVES:
            above, below = _HALVES[token]
            return f"{above}/{below}" if self.small else rf"\frac{{{above}}}{{{below}}}"
        if token in _SIGNS:
            return _SIGNS[token]
        if token in _BLACKBOARD:
            return _BLACKBOARD[token]
        plain = unicodedata.normalize("NFD", token)
        base = plain[0]
        tex = rf"\{_GREEK[base]} " if base in _GREEK else _CAPITALS.get(base, base)
        if not (tex.startswith("\\") or tex.isascii()):
            raise ValueError(f"{token!r} (U+{ord(token[0]):04X}) of {self.text!r} has no form in TeX")
        accents = plain[1:]
        while self.at < len(self.tokens) and unicodedata.combining(self.tokens[self.at][1][0]):
            accents += self.tokens[self.at][1]
            self.at += 1
        for accent in accents:
            tex = rf"\{_ACCENTS[accent]}{{{tex.strip()}}}"
        return tex

    def _scripts(self) -> str:
        """What stands above and below, in one of each."""
        above, below, primes = "", "", 0
        while self.at < len(self.tokens):
            token = self._next()
            if token == "'":
                primes += 1
                self.at += 1
            elif token in ("_", "^"):
                self.at += 1
                if token == "^":
                    above += self._group()
                else:
                    below += self._group()
            elif (script := _script(token)) and token not in _HALVES:
                self.at += 1
                plain = r"\top " if token == "ᵀ" else "H" if token == "ᴴ" else self._small(token)
                if script == "^":
                    above += plain
                else:
                    below += plain
            else:
                break
        above = r"\prime " * primes + above
        return (f"_{{{below.strip()}}}" if below else "") + (f"^{{{above.strip()}}}" if above else "")

    def _small(self, token: str) -> str:
        plain = unicodedata.normalize("NFKC", token)
        return "-" if plain == "−" else self._letter(plain)

    def _group(self) -> str:
        """An index: what braces or brackets hold, a number, a sign, or letters."""
        self.small += 1
        inside = self._index()
        self.small -= 1
        return inside

    def _index(self) -> str:
        kind, token = self.tokens[self.at]
        if token in "{(":
            self.at += token == "{"
            inside = self._bracketed(token) if token == "(" else self.read("}").strip()
            self.at += token == "{"
            return inside
        if token in "+-" and kind == "other":
            self.at += 1
            return token + (self._index() if self._next()[:1].isalnum() else "")
        self.at += 1
        if kind in ("word", _PROSE) and len(token) > 1:
            return token if len(token) == 2 and token not in _SMALL_WORDS else rf"\text{{{token}}}"
        letter = self._letter(token)
        if kind == "number" or not self._next()[:1].isdigit():
            return letter
        self.at += 1
        return letter + self.tokens[self.at - 1][1]


def _tex(text: str) -> str:
    return _Reader(text).read().strip()


def _joined(pieces: list[_Piece]) -> str:
    """Pieces in one line: words in \\text, fractions over each other."""
    pieces = _fractions(pieces)
    parts: list[str] = []
    number = 0
    while number < len(pieces):
        if pieces[number].kind != _PROSE:
            parts.append(pieces[number].tex)
            number += 1
            continue
        end = number
        while end + 1 < len(pieces) and (
            pieces[end + 1].kind == _PROSE
            or (pieces[end + 1].kind == "space" and end + 2 < len(pieces) and pieces[end + 2].kind == _PROSE)
        ):
            end += 1
        words = "".join(each.tex for each in pieces[number : end + 1]).strip()
        spaced = number > 1 and pieces[number - 1].kind == "space" and pieces[number - 2].kind != "sign"
        before = " " if spaced else ""
        after = " " if end + 1 < len(pieces) and pieces[end + 1].kind == "space" else ""
        parts.append(rf"\text{{{before}{words}{after}}}")
        number = end + 1
    return re.sub(r" +", " ", "".join(parts))


def _fractions(pieces: list[_Piece]) -> list[_Piece]:
    """Put what is divided above what divides it.

    Above stands the product before the stroke, without a sum's own sign, or where there are no spaces around it the
    factor alone; below it the next factor, or a whole sum.
    """
    while (stroke := next((n for n, each in enumerate(pieces) if each.kind in ("slash", "tight")), -1)) >= 0:
        begin = stroke
        while begin and pieces[begin - 1].kind in (("factor",) if pieces[stroke].kind == "tight" else _PRODUCT):
            begin -= 1
        while pieces[begin].kind in ("space", "times"):
            begin += 1
        end = stroke + 1
        while end < len(pieces) and pieces[end].kind == "space":
            end += 1
        summed = end < len(pieces) and pieces[end].kind == "big"
        if summed:
            while end < len(pieces) and pieces[end].kind in ("big", "factor", "space", "times"):
                end += 1
        else:
            while end < len(pieces) and pieces[end].kind == "factor":
                product = pieces[end].tex.endswith(r"\top}") and pieces[end + 1 : end + 2] == [_Piece("space", " ")]
                end += 2 if product else 1
        above, below = (_joined(part).strip() for part in (pieces[begin:stroke], pieces[stroke + 1 : end]))
        if not above or not below:
            pieces = [*pieces[:stroke], _Piece("sign", "/"), *pieces[stroke + 1 :]]
            continue
        made = _Piece("factor", rf"\frac{{{_bare(above)}}}{{{_bare(below)}}}")
        pieces = [*pieces[:begin], made, *([_Piece("space", " ")] if summed else []), *pieces[end:]]
    return pieces


def _bare(tex: str) -> str:
    """Without brackets around all of it."""
    left, right = (r"\left(", r"\right)") if tex.startswith(r"\left(") else ("(", ")")
    if not (tex.startswith(left) and tex.endswith(right)):
        return tex
    depth = 0
    for number, character in enumerate(tex):
        depth += (character == "(") - (character == ")")
        if depth == 0 and number < len(tex) - 1:
            return tex
    return tex[len(left) : len(tex) - len(right)]
