"""Numbers from 0 to 999,999 in words, in seven languages, piece by piece: what each piece says of which digits.

A piece is a text and the powers of ten whose digits it decides: in "seventeen" both, in French "soixante-douze" (60 and
12) the tens by both words. Pieces that decide none ("and", "thousand", a hyphen) stand between.
"""

import random
from collections.abc import Callable, Sequence

Piece = tuple[str, tuple[int, ...]]
Pieces = list[Piece]
_NOTHING = ()
_BY_HUNDREDS, _AS_YEAR = 0.1, 0.7  # shares of the numbers that may be said so


def english(number: int, chance: random.Random) -> Pieces:
    """Four hundred and seventeen thousand, two hundred and one; seventeen hundred; nineteen eighty-four."""
    ones = (
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
        " seventeen eighteen nineteen"
    ).split()
    tens = "twenty thirty forty fifty sixty seventy eighty ninety".split()
    hyphen, also = chance.choice("-- "), chance.choice((" and ", " and ", " "))
    a = chance.random() < 0.3  # a hundred, a thousand
    as_year, in_hundreds = chance.random() < _AS_YEAR, chance.random() < _BY_HUNDREDS

    def below(n: int, power: int) -> Pieces:
        pieces: Pieces = []
        if n >= 100:
            one = "a" if a and n // 100 == 1 else ones[n // 100]
            pieces += [(f"{one} hundred", (power + 2,)), *_then(n % 100, (also, _NOTHING))]
        return pieces + _tens(n % 100, power, ones, tens, (hyphen, _NOTHING))

    hundreds, last = divmod(number, 100)
    if as_year and 10 <= hundreds <= 20 and last >= 10:
        return [*_tens(hundreds, 2, ones, tens, (hyphen, _NOTHING)), (" ", _NOTHING), *below(last, 0)]
    if in_hundreds and 10 < hundreds < 100 and hundreds % 10:
        said = [*_tens(hundreds, 2, ones, tens, (hyphen, _NOTHING)), (" hundred", _NOTHING)]
        return [*said, *_then(last, (also, _NOTHING)), *below(last, 0)]
    thousands, rest = divmod(number, 1000)
    if not thousands:
        return below(rest, 0) or [("zero", (0,))]
    said = [("a", (3,))] if a and thousands == 1 else below(thousands, 3)
    comma = (also if 0 < rest < 100 else chance.choice((", ", " ")), _NOTHING)
    return [*said, (" thousand", _NOTHING), *_then(rest, comma), *below(rest, 0)]


def french(number: int, chance: random.Random) -> Pieces:
    """Quatre-vingt-dix-sept mille deux cent un; nonante-sept, too."""
    ones = (
        "zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize"
        " dix-sept dix-huit dix-neuf"
    ).split()
    tens = "vingt trente quarante cinquante soixante".split()
    swiss, hyphen = chance.random() < 0.1, chance.choice("-- ")
    and_one = f"{hyphen}et{hyphen}" if hyphen == " " or chance.random() < 0.5 else " et "

    def below(n: int, power: int) -> Pieces:
        pieces: Pieces = []
        if n >= 100:
            several = f"{ones[n // 100]} cent" + ("s" if n % 100 == 0 and power == 0 else "")
            pieces += [("cent" if n < 200 else several, (power + 2,)), *_then(n % 100, (" ", _NOTHING))]
        return pieces + below_hundred(n % 100, power)

    def below_hundred(n: int, power: int) -> Pieces:
        ten, one = divmod(n, 10)
        if swiss and ten in (7, 9):
            joint = and_one if one == 1 else hyphen
            of_ten: Piece = ("septante" if ten == 7 else "nonante", (power + 1,))
            return [of_ten, *_then(one, (joint, _NOTHING)), *_tens(one, power, ones, tens, ("", _NOTHING))]
        if ten in (7, 9):
            first: Piece = ("soixante" if ten == 7 else f"quatre{hyphen}vingt", (power + 1,))
            return [first, (and_one if n == 71 else hyphen, _NOTHING), (ones[10 + one], (power + 1, power))]
        if ten == 8:
            eighty = f"quatre{hyphen}vingt" + ("s" if one == 0 and power == 0 else "")
            return [(eighty, (power + 1,)), *_then(one, (hyphen, _NOTHING)), *_tens(one, power, ones, tens, ("", ()))]
        return _tens(n, power, ones, tens, (and_one if one == 1 else hyphen, _NOTHING))

    thousands, rest = divmod(number, 1000)
    if not thousands:
        return below(rest, 0) or [("zéro", (0,))]
    said: Pieces = [("mille", (3,))] if thousands == 1 else [*below(thousands, 3), (" mille", _NOTHING)]
    return [*said, *_then(rest, (" ", _NOTHING)), *below(rest, 0)]


def german(number: int, chance: random.Random) -> Pieces:
    """Siebenundneunzigtausendzweihunderteins; siebzehnhundert."""
    ones = (
        "null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn"
        " siebzehn achtzehn neunzehn"
    ).split()
    tens = "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()
    one = chance.choice(("ein", ""))  # einhundert, hundert
    between = chance.choice(("", " "))
    return _backwards(
        number, ones, tens, "eins", one, ("hundert", "tausend"), lambda _: "und", between, _by_hundreds(number, chance)
    )


def dutch(number: int, chance: random.Random) -> Pieces:
    """Zevenennegentigduizend tweehonderdeen; zeventienhonderd."""
    ones = (
        "nul een twee drie vier vijf zes zeven acht negen tien elf twaalf dertien veertien vijftien zestien"
        " zeventien achttien negentien"
    ).split()
    tens = "twintig dertig veertig vijftig zestig zeventig tachtig negentig".split()
    also: Callable[[int], str] = lambda unit: "ën" if unit in (2, 3) else "en"  # noqa: E731
    between = chance.choice(("", " ", " "))
    return _backwards(
        number, ones, tens, "een", "", ("honderd", "duizend"), also, between, _by_hundreds(number, chance)
    )


def spanish(number: int, chance: random.Random) -> Pieces:
    """Noventa y siete mil doscientos uno."""
    ones = (
        "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciséis"
        " diecisiete dieciocho diecinueve veinte veintiuno veintidós veintitrés veinticuatro veinticinco veintiséis"
        " veintisiete veintiocho veintinueve"
    ).split()
    tens = "veinte treinta cuarenta cincuenta sesenta setenta ochenta noventa".split()
    hundreds = "ciento doscientos trescientos cuatrocientos quinientos seiscientos setecientos ochocientos novecientos"
    before = {"uno": "un", "veintiuno": "veintiún"}
    return _southern(number, ones, tens, hundreds.split(), "cien", (" y ", " "), before, lambda rest: " ")


def portuguese(number: int, chance: random.Random) -> Pieces:
    """Noventa e sete mil duzentos e um."""
    of_six = chance.choice(("dezesseis dezessete dezoito dezenove", "dezasseis dezassete dezoito dezanove"))
    ones = f"zero um dois três quatro cinco seis sete oito nove dez onze doze treze catorze quinze {of_six}".split()
    tens = "vinte trinta quarenta cinquenta sessenta setenta oitenta noventa".split()
    hundreds = "cento duzentos trezentos quatrocentos quinhentos seiscentos setecentos oitocentos novecentos"
    return _southern(
        number, ones, tens, hundreds.split(), "cem", (" e ", " e "), {}, lambda rest: " e " if rest <= 100 else " "
    )


def italian(number: int, chance: random.Random) -> Pieces:
    """Novantasettemiladuecentouno."""
    ones = (
        "zero uno due tre quattro cinque sei sette otto nove dieci undici dodici tredici quattordici quindici sedici"
        " diciassette diciotto diciannove"
    ).split()
    tens = "venti trenta quaranta cinquanta sessanta settanta ottanta novanta".split()

    def below(n: int, power: int) -> Pieces:
        pieces: Pieces = []
        if n >= 100:
            pieces.append(((ones[n // 100] if n >= 200 else "") + "cento", (power + 2,)))
        ten, one = divmod(n % 100, 10)
        if ten < 2 or one == 0:
            return pieces + _tens(n % 100, power, ones, tens, ("", _NOTHING))
        joined = tens[ten - 2][:-1] if one in (1, 8) else tens[ten - 2]
        last = "tré" if one == 3 and power == 0 else ones[one]
        return [*pieces, (joined, (power + 1,)), (last, (power,))]

    thousands, rest = divmod(number, 1000)
    if not thousands:
        return below(rest, 0) or [("zero", (0,))]
    said: Pieces = [("mille", (3,))] if thousands == 1 else [*below(thousands, 3), ("mila", _NOTHING)]
    return [*said, *_then(rest, (chance.choice(("", " ")), _NOTHING)), *below(rest, 0)]


LANGUAGES: dict[str, Callable[[int, random.Random], Pieces]] = {
    "English": english,
    "French": french,
    "German": german,
    "Spanish": spanish,
    "Italian": italian,
    "Dutch": dutch,
    "Portuguese": portuguese,
}


def said(pieces: Pieces) -> str:
    """A number as it is written."""
    return "".join(text for text, _ in pieces)


def _tens(n: int, power: int, ones: Sequence[str], tens: Sequence[str], joint: Piece) -> Pieces:
    """Below a hundred, tens first; nothing for 0."""
    if n == 0:
        return []
    if n < len(ones):
        return [(ones[n], (power,) if n < 10 else (power + 1, power))]
    ten, one = divmod(n, 10)
    return [(tens[ten - 2], (power + 1,)), *([joint, (ones[one], (power,))] if one else [])]


def _then(rest: int, joint: Piece) -> Pieces:
    """The words before the rest, where there is one."""
    return [joint] if rest else []


def _by_hundreds(number: int, chance: random.Random) -> bool:
    """Now and then, from eleven to nineteen hundred."""
    return chance.random() < _BY_HUNDREDS and 1100 <= number < 2000


def _backwards(
    number: int,
    ones: Sequence[str],
    tens: Sequence[str],
    last: str,
    one: str,
    large: tuple[str, str],
    also: Callable[[int], str],
    between: str,
    by_hundreds: bool,
) -> Pieces:
    """Units before tens, all in one word. last: a one at the end; one: what stands before a single hundred.

    by_hundreds: say how many hundreds there are, up to nineteen.
    """

    def below(n: int, power: int) -> Pieces:
        pieces: Pieces = []
        if n >= 100:
            pieces.append(((ones[n // 100] if n >= 200 else one) + large[0], (power + 2,)))
        ten, unit = divmod(n % 100, 10)
        if ten < 2:
            found = _tens(n % 100, power, ones, tens, ("", _NOTHING))
            return pieces + ([(last, (power,))] if n % 100 == 1 and power == 0 else found)
        joint: Pieces = [(ones[unit], (power,)), (also(unit), _NOTHING)] if unit else []
        return [*pieces, *joint, (tens[ten - 2], (power + 1,))]

    if by_hundreds:
        return [(ones[number // 100], (3, 2)), (large[0], _NOTHING), *below(number % 100, 0)]
    thousands, rest = divmod(number, 1000)
    if not thousands:
        return below(rest, 0) or [(ones[0], (0,))]
    if thousands == 1:
        said: Pieces = [(one + large[1], (3,))]
    else:
        said = [*below(thousands, 3), (large[1], _NOTHING)]
    return [*said, *_then(rest, (between, _NOTHING)), *below(rest, 0)]


def _southern(
    number: int,
    ones: Sequence[str],
    tens: Sequence[str],
    hundreds: Sequence[str],
    hundred: str,
    joints: tuple[str, str],
    before: dict[str, str],
    between: Callable[[int], str],
) -> Pieces:
    """Words for each hundred. hundred: 100 alone. joints: between tens and ones, and behind hundreds. before: how ones
    change before a thousand; between: what stands behind that.
    """

    def below(n: int, power: int) -> Pieces:
        pieces: Pieces = []
        if n >= 100:
            pieces.append((hundred if n == 100 else hundreds[n // 100 - 1], (power + 2,)))
            pieces += _then(n % 100, (joints[1], _NOTHING))
        return pieces + _tens(n % 100, power, ones, tens, (joints[0], _NOTHING))

    thousands, rest = divmod(number, 1000)
    if not thousands:
        return below(rest, 0) or [(ones[0], (0,))]
    if thousands == 1:
        said: Pieces = [("mil", (3,))]
    else:
        changed = [(before.get(text, text), powers) for text, powers in below(thousands, 3)]
        said = [*changed, (" mil", _NOTHING)]
    return [*said, *_then(rest, (between(rest), _NOTHING)), *below(rest, 0)]
