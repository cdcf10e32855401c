"""What a running template has used: every value that it makes or looks through is paid for by size."""

import time
from contextvars import ContextVar
from typing import Any

from jinja2 import Undefined

from limelight_bundle.chat.failures import FailedTemplate

WORK = 2**24
"""Units that a run may use: a character read or written is one."""
PASSES = 16
"""Units more for each character of the conversation."""
SECONDS = 3.0
"""Time that a run may take, where units do not tell: a busy machine."""
CELL = 16
"""Units of an entry of a list or a mapping, about its bytes."""
STEP = 32
"""Units of a call, a filter, an output, a round of a loop."""
_LARGEST_INT = 2**63
_DEEPEST = 32  # lists in lists


class Meter:
    """The budget of one run. Raises FailedTemplate, in each method, where it is used up.

    characters: of the conversation.
    """

    def __init__(self, characters: int) -> None:
        self._left = WORK + PASSES * characters
        self._end = time.monotonic() + SECONDS

    def spend(self, units: int) -> None:
        """Take units."""
        self._left -= units
        if self._left < 0 or time.monotonic() > self._end:
            raise FailedTemplate("it takes too many steps")

    def look(self, value: Any) -> None:
        """Pay for a value that is passed on, or whose entries are: by its own length."""
        kind = type(value)
        self.spend(STEP + (len(value) if kind is str else CELL * len(value) if kind in _CONTAINERS else 0))

    def weigh(self, *values: Any) -> None:
        """Pay for all that is in values: what is written, compared, or put into another.

        Entries that are the same object are paid for each: a list of ten may have the text of a million.
        """
        level: list[Any] = list(values)
        for _ in range(_DEEPEST):
            self.spend(CELL * len(level) + sum([len(each) for each in level if type(each) is str]))
            deeper: list[Any] = []
            for each in level:
                kind = type(each)
                if kind is dict:
                    self.spend(2 * CELL * len(each))
                    deeper += each.keys()
                    deeper += each.values()
                elif kind is list or kind is tuple:
                    self.spend(CELL * len(each))
                    deeper += each
                elif kind is int:
                    if not -_LARGEST_INT < each < _LARGEST_INT:
                        raise FailedTemplate("it computes with a number over 64 bits")
                elif kind is range:
                    self.spend(CELL * len(each))
                elif kind not in _PLAIN and not isinstance(each, Undefined):
                    raise FailedTemplate(f"it writes, compares or keeps a {kind.__name__}")
            if not deeper:
                return
            level = deeper
        raise FailedTemplate("it nests lists too deeply")


_CONTAINERS = frozenset({list, tuple, dict, range})
_PLAIN = frozenset({str, bool, float, type(None)})
METER: ContextVar[Meter] = ContextVar("meter")
"""Of the run under way; unset while a template is compiled, where nothing is computed ahead."""
