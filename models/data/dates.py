"""Sequences that need no download: dates as people write them, and the same dates as ISO 8601 writes them.

Days stand before months where both are numbers (3/4/1998 is in April); two digits of a year mean 1969 to 2068.
No date is in two parts, however it is written.
"""

import datetime
import random
from collections.abc import Callable

from bundle.values import Text
from models.data.dataset import Dataset, Example

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


def month(date: datetime.date, language: str) -> str:
    """The month's name."""
    return MONTHS[language].split()[date.month - 1]


def weekday(date: datetime.date, language: str) -> str:
    """The weekday's name."""
    return WEEKDAYS[language].split()[date.weekday()]


def ordinal(day: int) -> str:
    """1st, 2nd, 3rd, 4th, …, 11th, …, 31st."""
    ending = "th" if 11 <= day <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return f"{day}{ending}"


Format = Callable[[datetime.date], str]

LONG: tuple[Format, ...] = (
    lambda d: f"{d.day} {month(d, 'en')} {d.year}",
    lambda d: f"{month(d, 'en')} {d.day}, {d.year}",
    lambda d: f"{month(d, 'en')} {ordinal(d.day)}, {d.year}",
    lambda d: f"{ordinal(d.day)} {month(d, 'en')} {d.year}",
    lambda d: f"the {ordinal(d.day)} of {month(d, 'en')}, {d.year}",
    lambda d: f"{d.day} {month(d, 'en')[:3]} {d.year}",
    lambda d: f"{month(d, 'en')[:3]} {d.day}, {d.year}",
    lambda d: f"{d.day:02}-{month(d, 'en')[:3]}-{d.year}",
    lambda d: f"{weekday(d, 'en')}, {d.day} {month(d, 'en')} {d.year}",
    lambda d: f"{weekday(d, 'en')}, {month(d, 'en')} {d.day}, {d.year}",
    lambda d: f"{weekday(d, 'en')[:3]} {d.day} {month(d, 'en')[:3]} {d.year}",
    lambda d: f"{weekday(d, 'en')[:3]} {month(d, 'en')[:3]} {d.day} {d.year}",
    lambda d: f"{d.day} {month(d, 'fr')} {d.year}",
    lambda d: f"le {d.day} {month(d, 'fr')} {d.year}",
    lambda d: f"{weekday(d, 'fr')} {d.day} {month(d, 'fr')} {d.year}",
    lambda d: f"{d.day}. {month(d, 'de')} {d.year}",
    lambda d: f"{weekday(d, 'de')}, den {d.day}. {month(d, 'de')} {d.year}",
    lambda d: f"{d.day} de {month(d, 'es')} de {d.year}",
    lambda d: f"{weekday(d, 'es')}, {d.day} de {month(d, 'es')} de {d.year}",
)
NUMERIC: tuple[Format, ...] = (
    lambda d: f"{d.day}/{d.month}/{d.year}",
    lambda d: f"{d.day:02}/{d.month:02}/{d.year}",
    lambda d: f"{d.day}.{d.month}.{d.year}",
    lambda d: f"{d.year}/{d.month:02}/{d.day:02}",
    lambda d: f"{d.year}-{d.month}-{d.day}",
    lambda d: f"{d.year}{d.month:02}{d.day:02}",
)
SHORT: tuple[Format, ...] = (  # only where two digits of the year are enough
    lambda d: f"{d.day}/{d.month}/{d.year % 100:02}",
    lambda d: f"{d.day:02}.{d.month:02}.{d.year % 100:02}",
    lambda d: f"{d.day} {month(d, 'en')[:3]} '{d.year % 100:02}",
)


def dataset(*, seed: int = 0, training: int = 8_000, held_out: int = 1_000) -> Dataset:
    """Write `training` + 2 × `held_out` different dates, each in one way that the seed decides."""
    random_ = random.Random(seed)
    days = random_.sample(range(FIRST.toordinal(), LAST.toordinal() + 1), training + 2 * held_out)
    examples = []
    for day in days:
        date = datetime.date.fromordinal(day)
        instance = {"text": Text(write(date, random_)), "target": Text(date.isoformat())}
        examples.append(Example(instance))
    return Dataset(
        name="Dates as people write them",
        licence="none: generated",
        summary=f"Dates of 1900 to 2099 in English, French, German and Spanish, generated from seed {seed}.",
        train=tuple(examples[:training]),
        dev=tuple(examples[training : training + held_out]),
        test=tuple(examples[training + held_out :]),
    )


def write(date: datetime.date, random_: random.Random) -> str:
    """Write a date in one of the ways people do."""
    formats = LONG + NUMERIC + (SHORT if 1969 <= date.year <= 2068 else ())
    text = random_.choice(formats)(date)
    return random_.choice((text, text, text, text.lower(), text.upper()))
