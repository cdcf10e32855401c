"""Sequences that need no download: dates as people write them, and the same dates as ISO 8601 writes them.

Days stand before months where both are numbers (3/4/1998 is in April); two digits of a year mean 1969 to 2068.
No date is in two parts, however it is written.
"""

import datetime
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from bundle.values import Text
from models.data.dataset import Dataset, Example
from models.data.gold import Gold, Span

ISO = {"year": (0, 4), "month": (5, 7), "day": (8, 10)}  # where the parts stand in YYYY-MM-DD
FIRST, LAST = datetime.date(1900, 1, 1), datetime.date(2099, 12, 31)

MONTHS = {
    "en": "January February March April May June July August September October November December",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
}
WEEKDAYS = {
    "en": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    "fr": "lundi mardi mercredi jeudi vendredi samedi dimanche",
    "de": "Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag",
    "es": "lunes martes miércoles jueves viernes sábado domingo",
}


@dataclass(frozen=True)
class Part:
    """A part of a date as it is written. digits: whether each of its last characters is one of the ISO form's."""

    of: Literal["year", "month", "day", "ending", "weekday"]
    write: Callable[[datetime.date], str]
    digits: bool = False


def ordinal(day: int) -> str:
    """1st, 2nd, 3rd, 4th, …, 11th, …, 31st."""
    ending = "th" if 11 <= day <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return f"{day}{ending}"


def _named(language: str) -> dict[str, Part]:
    months, weekdays = MONTHS[language].split(), WEEKDAYS[language].split()
    return {
        f"month.{language}": Part("month", lambda d: months[d.month - 1]),
        f"mon.{language}": Part("month", lambda d: months[d.month - 1][:3]),
        f"weekday.{language}": Part("weekday", lambda d: weekdays[d.weekday()]),
        f"wd.{language}": Part("weekday", lambda d: weekdays[d.weekday()][:3]),
    }


PARTS: dict[str, Part] = {
    "year": Part("year", lambda d: str(d.year), digits=True),
    "yy": Part("year", lambda d: f"{d.year % 100:02}", digits=True),
    "m": Part("month", lambda d: str(d.month), digits=True),
    "mm": Part("month", lambda d: f"{d.month:02}", digits=True),
    "d": Part("day", lambda d: str(d.day), digits=True),
    "dd": Part("day", lambda d: f"{d.day:02}", digits=True),
    "th": Part("ending", lambda d: ordinal(d.day).lstrip("0123456789")),
    **{name: part for language in MONTHS for name, part in _named(language).items()},
}
_FIELD = re.compile(r"\{([a-z.]+)\}")

LONG = (
    "{d} {month.en} {year}",
    "{month.en} {d}, {year}",
    "{month.en} {d}{th}, {year}",
    "{d}{th} {month.en} {year}",
    "the {d}{th} of {month.en}, {year}",
    "{d} {mon.en} {year}",
    "{mon.en} {d}, {year}",
    "{dd}-{mon.en}-{year}",
    "{weekday.en}, {d} {month.en} {year}",
    "{weekday.en}, {month.en} {d}, {year}",
    "{wd.en} {d} {mon.en} {year}",
    "{wd.en} {mon.en} {d} {year}",
    "{d} {month.fr} {year}",
    "le {d} {month.fr} {year}",
    "{weekday.fr} {d} {month.fr} {year}",
    "{d}. {month.de} {year}",
    "{weekday.de}, den {d}. {month.de} {year}",
    "{d} de {month.es} de {year}",
    "{weekday.es}, {d} de {month.es} de {year}",
)
NUMERIC = (
    "{d}/{m}/{year}",
    "{dd}/{mm}/{year}",
    "{d}.{m}.{year}",
    "{year}/{mm}/{dd}",
    "{year}-{m}-{d}",
    "{year}{mm}{dd}",
)
SHORT = (  # only where two digits of the year are enough
    "{d}/{m}/{yy}",
    "{dd}.{mm}.{yy}",
    "{d} {mon.en} '{yy}",
)


Places = dict[str, tuple[int, int, bool]]


def write(date: datetime.date, form: str) -> tuple[str, Places]:
    """Write a date in one form; where its year, month and day stand, and whether by the ISO form's own digits."""
    text, done = "", 0
    places: Places = {}
    for field in _FIELD.finditer(form):
        part = PARTS[field[1]]
        text += form[done : field.start()]
        piece = part.write(date)
        places[part.of] = (len(text), len(text) + len(piece), part.digits)
        text += piece
        done = field.end()
    return text + form[done:], places


def gold(places: Places) -> tuple[Gold, ...]:
    """Where each character of the ISO form comes from; its hyphens come from nowhere.

    A digit comes from the same digit where that is written: 8 of 1998 from 8 of 98. Others come from all of the part:
    the zero of 03, the century of 98, and a month that is a word.
    """
    found = []
    for part, (begin, end) in ISO.items():
        start, stop, digits = places[part]
        for place in range(begin, end):
            own = stop - (end - place)  # digits are aligned at their right ends
            keys = Span("text", own, own + 1) if digits and own >= start else Span("text", start, stop)
            found.append(Gold((keys,), of=Span("target", place, place + 1)))
    return tuple(found)


def dataset(*, seed: int = 0, training: int = 8_000, held_out: int = 1_000) -> Dataset:
    """Write `training` + 2 × `held_out` different dates, each in one way that the seed decides."""
    random_ = random.Random(seed)
    days = random_.sample(range(FIRST.toordinal(), LAST.toordinal() + 1), training + 2 * held_out)
    examples = [example(datetime.date.fromordinal(day), random_) for day in days]
    return Dataset(
        name="Dates as people write them",
        licence="none: generated",
        summary=f"Dates of 1900 to 2099 in English, French, German and Spanish, generated from seed {seed}.",
        train=tuple(examples[:training]),
        dev=tuple(examples[training : training + held_out]),
        test=tuple(examples[training + held_out :]),
    )


def example(date: datetime.date, random_: random.Random) -> Example:
    """A date in one of the ways people write it, and where its ISO form comes from."""
    forms = LONG + NUMERIC + (SHORT if 1969 <= date.year <= 2068 else ())
    text, places = write(date, random_.choice(forms))
    text = random_.choice((text, text, text, text.lower(), text.upper()))
    return Example({"text": Text(text), "target": Text(date.isoformat())}, gold=gold(places))
