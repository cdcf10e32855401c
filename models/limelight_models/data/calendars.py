"""Spellings of the parts of a date in seven languages: months, weekdays, days with endings, and whole dates.

A form is a text with fields: {d} 7, {dd} 07, {th} 7th, {nth} seventh, {m} 3, {mm} 03, {month} March, {mon} Mar,
{weekday} Sunday, {wd} Sun, {year} 2021, {yy} 21, {time} 10:30.
"""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Language:
    """Names and forms of one language. months: full names; mons: the usual abbreviations, several parted by a bar.

    th: the day with what a language puts behind it. forms: those that the others have not.
    """

    months: tuple[str, ...]
    mons: tuple[tuple[str, ...], ...]
    weekdays: tuple[str, ...]
    th: Callable[[int], str]
    forms: tuple[str, ...]


def _language(
    months: str, mons: str, weekdays: str, forms: tuple[str, ...], th: Callable[[int], str] = str
) -> Language:
    short = tuple(tuple(each.split("|")) for each in mons.split())
    return Language(tuple(months.split()), short, tuple(weekdays.split()), th, forms)


def ordinal(day: int) -> str:
    """1st, 2nd, 3rd, 4th, …, 11th, …, 31st."""
    ending = "th" if 11 <= day <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return f"{day}{ending}"


def _only_first(ending: str) -> Callable[[int], str]:
    """The ending is for the first of a month alone: 1er, 2, 3."""
    return lambda day: f"1{ending}" if day == 1 else str(day)


# English days in words.
NTH = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth"
    " sixteenth seventeenth eighteenth nineteenth twentieth twenty-first twenty-second twenty-third twenty-fourth"
    " twenty-fifth twenty-sixth twenty-seventh twenty-eighth twenty-ninth thirtieth thirty-first"
).split()
# In any language.
SHARED = (
    "{d} {month} {year}",
    "{d} {mon} {year}",
    "{d} {mon}. {year}",
    "{dd}-{mon}-{year}",
    "{d}/{mon}/{year}",
    "{d} {month}, {year}",
    "{weekday}, {d} {month} {year}",
    "{weekday} {d} {month} {year}",
    "{wd}. {d} {mon} {year}",
    "{wd} {d} {mon} {year}",
    "{th} {month} {year}",
    "{d} {month} {yy}",
    "{d} {mon} '{yy}",
)

LANGUAGES = {
    "en": _language(
        "January February March April May June July August September October November December",
        "Jan Feb Mar Apr May Jun Jul Aug Sep|Sept Oct Nov Dec",
        "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
        (
            "{month} {d}, {year}",
            "{month} {d} {year}",
            "{month} {th}, {year}",
            "{month} {th} {year}",
            "{th} of {month} {year}",
            "{th} of {month}, {year}",
            "the {th} of {month}, {year}",
            "the {th} of {month} {year}",
            "{mon} {d}, {year}",
            "{mon}. {d}, {year}",
            "{mon} {th} {year}",
            "{mon} {dd} {year}",
            "{weekday}, {month} {d}, {year}",
            "{weekday}, {month} {th}, {year}",
            "{weekday}, {month} {th} {year}",
            "{weekday} the {th} of {month} {year}",
            "{wd}, {mon} {d}, {year}",
            "{wd} {mon} {d} {year}",
            "the {nth} of {month} {year}",
            "{month} the {nth}, {year}",
            "{nth} of {month}, {year}",
            "{nth} of {month} {year}",
            "{month} {nth}, {year}",
            "{weekday} the {nth} of {month} {year}",
            "born on {d} {month} {year} in Paris",
            "on {d} {month} {year}",
            "on {month} {d}, {year}",
            "{year} {month} {d}",
            "{year}, {month} {th}",
            "{month} {d}, {year}, {time}",
            "{mon} {d} '{yy}",
        ),
        ordinal,
    ),
    "fr": _language(
        "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
        "janv|jan févr|fév mars avr mai juin juil août sept oct nov déc",
        "lundi mardi mercredi jeudi vendredi samedi dimanche",
        ("le {th} {month} {year}", "{weekday} {th} {month} {year}", "le {weekday} {th} {month} {year}"),
        _only_first("er"),
    ),
    "de": _language(
        "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
        "Jan Feb Mär|Mrz Apr Mai Jun Jul Aug Sep|Sept Okt Nov Dez",
        "Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag",
        (
            "{th} {mon} {year}",
            "{weekday}, {th} {month} {year}",
            "{weekday}, den {th} {month} {year}",
            "am {th} {month} {year}",
            "den {th} {month} {year}",
        ),
        lambda day: f"{day}.",
    ),
    "es": _language(
        "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
        "ene feb mar abr may jun jul ago sep|sept oct nov dic",
        "lunes martes miércoles jueves viernes sábado domingo",
        (
            "{d} de {month} de {year}",
            "{d} de {month} del {year}",
            "el {d} de {month} de {year}",
            "{weekday}, {d} de {month} de {year}",
            "{weekday} {d} de {month} de {year}",
            "{d} de {mon} de {year}",
        ),
        _only_first("º"),
    ),
    "it": _language(
        "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
        "gen feb mar apr mag giu lug ago set|sett ott nov dic",
        "lunedì martedì mercoledì giovedì venerdì sabato domenica",
        ("il {th} {month} {year}", "{weekday} {th} {month} {year}", "{d} {month} del {year}"),
        _only_first("º"),
    ),
    "nl": _language(
        "januari februari maart april mei juni juli augustus september oktober november december",
        "jan feb mrt apr mei jun jul aug sep|sept okt nov dec",
        "maandag dinsdag woensdag donderdag vrijdag zaterdag zondag",
        ("op {d} {month} {year}", "de {th} {month} {year}", "{weekday} {th} {month} {year}"),
        lambda day: f"{day}e",
    ),
    "pt": _language(
        "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
        "jan fev mar abr mai jun jul ago set out nov dez",
        "segunda-feira terça-feira quarta-feira quinta-feira sexta-feira sábado domingo",
        (
            "{d} de {month} de {year}",
            "{th} de {month} de {year}",
            "em {d} de {month} de {year}",
            "{weekday}, {d} de {month} de {year}",
            "{d} de {mon} de {year}",
        ),
        _only_first("º"),
    ),
}

YEAR_FIRST = (
    *("{year}-{mm}-{dd}",) * 3,
    *(f"{{year}}{by}{{mm}}{by}{{dd}}" for by in "/. "),
    "{year}-{m}-{d}",
    "{year}/{m}/{d}",
    "{year}{mm}{dd}",
    "{year}-{mm}-{dd}T{time}",
    "{year}-{mm}-{dd} {time}",
)
NUMERIC = (
    *(f"{{d}}{by}{{m}}{by}{{year}}" for by in "/.- "),
    *(f"{{dd}}{by}{{mm}}{by}{{year}}" for by in "/.-"),
    "{d}. {m}. {year}",
    "{d} / {m} / {year}",
    *(f"{{d}}{by}{{m}}{by}{{yy}}" for by in "/.-"),
    *(f"{{dd}}{by}{{mm}}{by}{{yy}}" for by in "/."),
    "{dd}/{mm}/{year} {time}",
    *YEAR_FIRST,
)
# Months before days, which are read so only where the other order is no date.
MONTH_FIRST = ("{m}/{d}/{year}", "{mm}/{dd}/{year}", "{m}-{d}-{year}", "{m}/{d}/{yy}")
