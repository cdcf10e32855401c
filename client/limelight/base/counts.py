"""Counts in messages."""

import re

_ENDINGS = (("ies", "y"), ("(?<=[sxh])es", ""), ("(?<!s)s", ""))  # of plurals, and of their singulars


def counted(number: int, noun: str, plural: str = "") -> str:
    """Write a number of things: `1 head`, `2 heads`. plural: of a noun that takes more than an s."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


def there_are(number: int, things: str) -> str:
    """Say how many things there are, whose plural is a name: `there are 2 heads of word`, `there is 1 head of word`."""
    if number != 1:
        return f"there are {number} {things}"
    first, space, rest = things.partition(" ")
    ending, one = next((each for each in _ENDINGS if re.search(f"{each[0]}$", first)), ("$", ""))
    return f"there is 1 {re.sub(f'{ending}$', one, first)}{space}{rest}"
