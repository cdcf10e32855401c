"""Sequences that need no download: dates as people write them, and the same dates as ISO 8601 writes them.

Days stand before months where both are numbers (3/4/1998 is in April), unless only the other order is a date
(3/14/1998). Two digits of a year mean 1969 to 2068. What names no day at all (31 April, 29 February 1999, a month
without a day) is answered by `none`. A weekday is not checked. No text is in two parts.
"""

import calendar
import datetime
import random
import re
from dataclasses import dataclass
from functools import cache

from limelight_bundle.values import Text
from limelight_models.data.calendars import LANGUAGES, MONTH_FIRST, NTH, NUMERIC, SHARED, YEAR_FIRST, Language
from limelight_models.data.dataset import Dataset, Example
from limelight_models.data.gold import Gold, Span
from limelight_models.data.spelling import cased, mistyped, spelt_out

ISO = {"year": (0, 4), "month": (5, 7), "day": (8, 10)}  # where the parts stand in YYYY-MM-DD
NONE = "none"
FIRST, LAST = 1000, 2999  # years
# Kinds of examples, by which their figures are told apart, and how frequent they are.
WORDS, NUMBERS, IMPOSSIBLE, OTHER = "month by name", "numbers alone", "no such day", "not a date"
_FREQUENT = {WORDS: 50, NUMBERS: 20, IMPOSSIBLE: 22, OTHER: 8}

_FIELD = re.compile(r"\{(\w+)\}")
_FIELDS = {"day": ("d", "dd", "th", "nth"), "month": ("m", "mm", "month", "mon"), "year": ("year", "yy")}
_PART_OF = {field: part for part, fields in _FIELDS.items() for field in fields}
_LOOSE = 0.04  # share with more white space than needed, and of those with a mark at the end
_CENTURIES = 0.3  # share of the 29ths of February that are in a year like 1900
_NEAR = 0.7  # share of the numbers that are no day or month, and nearly are
_SLIPS = 0.15  # share of the names that are misspelt
_SPELT_OUT = 0.2  # and of those with an umlaut that are typed without its key
_SHORTEST = 5  # letters of a name that is misspelt
_INCOMPLETE = ("{month} {year}", "{d} {month}", "{month} {d}", "{year}", "{month}", "{m}/{year}", "{d}/{m}", "{d}.{m}.")
_OTHER_WORDS = """
tomorrow yesterday today hello world next week last month the a of in on and year day monday sunday friday hier morgen
heute demain mañana domani ieri gisteren ontem christmas easter birthday meeting at room page chapter version price
euro dollar km kg please thanks what when is it happy new
""".split()

Places = dict[str, tuple[int, int]]  # of day, month and year: where each begins and ends


@dataclass(frozen=True)
class Day:
    """A day that is written, whether it exists or not."""

    year: int
    month: int
    day: int

    @property
    def exists(self) -> bool:
        """Whether the calendar has it."""
        return 1 <= self.month <= 12 and 1 <= self.day <= calendar.monthrange(self.year, self.month)[1]

    @property
    def weekday(self) -> int:
        """0 for Monday; of a day that does not exist, that of the month's first."""
        return datetime.date(self.year, self.month, self.day if self.exists else 1).weekday()

    @property
    def iso(self) -> str:
        """As ISO 8601 writes it, or `none`."""
        return f"{self.year:04}-{self.month:02}-{self.day:02}" if self.exists else NONE

    @property
    def short(self) -> bool:
        """Whether two digits of the year are enough."""
        return 1969 <= self.year <= 2068


def write(day: Day, form: str, language: Language, chance: random.Random, *, slips: float = 0.0) -> tuple[str, Places]:
    """Write a day in one form, with this share of names misspelt; where its year, month and day stand."""
    text, done = "", 0
    places: Places = {}
    for field in _FIELD.finditer(form):
        text += form[done : field.start()]
        piece = _piece(day, field[1], language, chance, slips)
        if field[1] in _PART_OF:
            places[_PART_OF[field[1]]] = (len(text), len(text) + len(piece))
        text += piece
        done = field.end()
    return text + form[done:], places


def _piece(day: Day, field: str, language: Language, chance: random.Random, slips: float) -> str:
    match field:
        case "year" | "yy":
            return str(day.year) if field == "year" else f"{day.year % 100:02}"
        case "m" | "d":
            return str(day.month if field == "m" else day.day)
        case "mm" | "dd":
            return f"{day.month if field == 'mm' else day.day:02}"
        case "th":
            return language.th(day.day)
        case "nth":
            return NTH[day.day - 1]
        case "time":
            return f"{chance.randrange(24):02}:{chance.randrange(60):02}"
        case "month":
            return _typed(language.months[day.month - 1], chance, slips)
        case "mon":
            return chance.choice(language.mons[day.month - 1])
        case "weekday":
            return _typed(language.weekdays[day.weekday], chance, slips)
        case "wd":
            return language.weekdays[day.weekday][:3]
    raise ValueError(f"there is no field {field!r}")


def _typed(name: str, chance: random.Random, slips: float) -> str:
    """A name as it is typed, never so that another month could be meant."""
    if slips and chance.random() < _SPELT_OUT:
        name = spelt_out(name)
    if len(name) < _SHORTEST or chance.random() >= slips:
        return name
    return mistyped(name, chance, _names(len(name)))


@cache
def _names(length: int) -> tuple[str, ...]:
    """The names of months, in small letters, that have about so many."""
    found = {month.lower() for each in LANGUAGES.values() for month in each.months}
    return tuple(sorted(name for name in found if abs(len(name) - length) <= 2))


def gold(places: Places) -> tuple[Gold, ...]:
    """Gold places of the parts of the ISO form: each comes from all of the same part, as it is written.

    One decision for numbers and words. A character is too fine a measure: the month is in no letter of its name, and
    of a number, whoever has read it has all of it at any of its digits. Hyphens come from nowhere.
    """
    return tuple(
        Gold((Span("text", *places[part]),), of=Span("target", begin, end)) for part, (begin, end) in ISO.items()
    )


def dataset(*, seed: int = 0, training: int = 30_000, held_out: int = 1_500) -> Dataset:
    """Write `training` + 2 × `held_out` different texts; the seed decides all of it."""
    chance = random.Random(f"dates/{seed}")
    made: dict[str, Example] = {}
    while len(made) < training + 2 * held_out:
        found = example(chance)
        value = found.instance["text"]
        assert isinstance(value, Text)
        made.setdefault(value.text.lower(), found)
    examples = tuple(made.values())
    return Dataset(
        name="Dates as people write them",
        licence="none: generated",
        summary=(
            f"Dates in English, French, German, Spanish, Italian, Dutch and Portuguese, from seed {seed}. The right"
            " place of the digits of a year, a month or a day is all of that part as it is written."
        ),
        train=examples[:training],
        dev=examples[training : training + held_out],
        test=examples[training + held_out :],
        shown=tuple({"text": Text(text)} for text in ("le 14 juillet 1789", "Sunday, March 7th 2021", "31.4.2022")),
        does=(
            "Reads a date as people write it in English, French, German, Spanish, Italian, Dutch or Portuguese, and"
            f" writes it as ISO 8601 does, YYYY-MM-DD; or {NONE!r} where the text names no day, or one that no calendar"
            " has. The day stands before the month where both could be either; weekdays are not checked."
        ),
        inputs={
            "text": (
                f"One date with its year ({FIRST} to {LAST}; two digits mean 1969 to 2068) in one line: 7 March 2021,"
                " le 1er août 1914, 3. Okt. '90, 14/7/1789. Capitals, accents and single typing errors do not matter."
            )
        },
    )


def example(chance: random.Random) -> Example:
    """A text, the day that it names in the ISO form, and where the parts of that come from; its kind is the label."""
    kind = chance.choices(list(_FREQUENT), list(_FREQUENT.values()))[0]
    if kind == OTHER:
        return Example({"text": Text(cased(other(chance), chance)), "target": Text(NONE)}, kind)
    exists = kind != IMPOSSIBLE
    day = _day(chance) if exists else _no_day(chance)
    language = chance.choice(list(LANGUAGES.values()))
    named = kind == WORDS or (not exists and 1 <= day.month <= 12 and chance.random() < 0.6)
    form = _form(day, language, chance, named=named)
    text, places = write(day, form, language, chance, slips=_SLIPS)
    text = cased(text, chance)
    return Example({"text": Text(text), "target": Text(day.iso)}, kind, gold=gold(places) if exists else ())


def _form(day: Day, language: Language, chance: random.Random, *, named: bool) -> str:
    """A form in which the day is read as it is meant."""
    forms = NUMERIC
    if day.month > 12 >= day.day > 0:
        forms = YEAR_FIRST
    elif named:
        forms = language.forms if chance.random() < 0.5 else SHARED
    elif day.day > 12 and chance.random() < 0.25:
        forms = MONTH_FIRST
    while True:
        form = chance.choice(forms)
        if (day.short or "{yy}" not in form) and (1 <= day.day <= len(NTH) or "{nth}" not in form):
            return _loose(form, chance)


def _loose(form: str, chance: random.Random) -> str:
    """The same with more white space, or a mark behind it, now and then."""
    if chance.random() < _LOOSE:
        form = chance.choice((form.replace(" ", "  "), f" {form}", f"  {form} "))
    return form + chance.choice((".", "!", "?", " ", ",")) if chance.random() < _LOOSE else form


def _day(chance: random.Random) -> Day:
    """A day of our time, or of any; ends of months, of February above all, more often than they come."""
    year = chance.randint(1900, 2099) if chance.random() < 0.75 else chance.randint(FIRST, LAST)
    if chance.random() < 0.06:
        year -= year % 4
        if calendar.isleap(year):
            return Day(year, 2, 29)
    month = chance.randint(1, 12)
    last = calendar.monthrange(year, month)[1]
    return Day(year, month, last if chance.random() < 0.08 else chance.randint(1, last))


def _no_day(chance: random.Random) -> Day:
    """A day that no calendar has."""
    while True:
        day = _day(chance)
        match chance.randrange(9):
            case 0 | 1 | 2:  # the month ends earlier
                day = Day(day.year, chance.choice((2, 4, 6, 9, 11)), chance.randint(30, 31))
            case 3:
                centuries = chance.random() < _CENTURIES
                day = Day(100 * (day.year // 100) if centuries else day.year, 2, 29)
            case 4 | 5:
                day = Day(day.year, day.month, _outside(31, chance))
            case 6:
                day = Day(day.year, 0, day.day)
            case 7:  # no order makes a month of it
                day = Day(day.year, chance.randint(13, 31), chance.randint(1, 12))
            case _:
                day = Day(day.year, _outside(12, chance), _outside(12, chance))
        if not day.exists:
            return day


def _outside(last: int, chance: random.Random) -> int:
    """A number of two digits that is not from 1 to `last`: often the nearest ones, which people try first."""
    near = chance.random() < _NEAR
    return chance.choice((0, *range(last + 1, last + 9))) if near else chance.randint(last + 1, 99)


def other(chance: random.Random) -> str:
    """A text that names no day."""
    day, language = _day(chance), chance.choice(list(LANGUAGES.values()))
    match chance.randrange(7):
        case 0 | 1:  # a part is missing
            return write(day, chance.choice(_INCOMPLETE), language, chance)[0]
        case 2 | 3 | 4:  # there is no such month
            form = chance.choice((*language.forms, *SHARED)).replace("{mon}", "{month}").replace("{yy}", "{year}")
            written, places = write(day, form, language, chance)
            begin, end = places["month"]
            return written[:begin] + _no_month(chance) + written[end:]
        case 5:
            return chance.choice((write(day, "{time}", language, chance)[0], str(chance.randrange(10**6))))
    return " ".join(chance.choices(_OTHER_WORDS, k=chance.randint(1, 5)))


def _no_month(chance: random.Random) -> str:
    """A word that could be said, and means no month."""
    while True:
        syllables = [chance.choice("bcdfglmnprstv") + chance.choice("aeiou") for _ in range(chance.randint(1, 4))]
        word = "".join(syllables) + chance.choice(("", "r", "re", "n", "st", "l"))
        if word not in _written_months():
            return word


@cache
def _written_months() -> frozenset[str]:
    """Names of months and their abbreviations, in small letters."""
    languages = LANGUAGES.values()
    names = (name for each in languages for name in (*each.months, *(mon for mons in each.mons for mon in mons)))
    return frozenset(name.lower() for name in names)
