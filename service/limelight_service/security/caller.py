"""The identity and rights of a caller."""

import fnmatch
import re
from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property

from limelight_service.errors import ForbiddenError

_LONGEST_NAME = 256  # no method or model has a longer one, and a pattern is not tried on what a caller made up


@dataclass(frozen=True)
class Globs:
    """Names, written as a shell has them: `*` is any letters, `?` is one; upper case is not lower case."""

    patterns: tuple[str, ...]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and len(name) <= _LONGEST_NAME and self._pattern.fullmatch(name) is not None

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile("|".join(map(fnmatch.translate, self.patterns)) or r"(?!)")

    def none_of(self, names: Iterable[str]) -> str | None:
        """Give the first pattern that is none of these names; None where all are some."""
        known = list(names)
        return next((each for each in self.patterns if not fnmatch.filter(known, each)), None)


EVERY = Globs(("*",))


@dataclass(frozen=True)
class Quota:
    """Limits on a caller's rows; 0 for no limit."""

    rows_per_second: float = 0.0
    rows_in_flight: int = 0


@dataclass(frozen=True)
class Caller:
    """Somebody who calls. name: of the token; empty where the server asks for none."""

    name: str = ""
    methods: Globs = EVERY
    models: Globs = EVERY
    quota: Quota = Quota()

    def check_method(self, method: str) -> None:
        """Raise ForbiddenError where it may not call a method."""
        if method not in self.methods:
            allowed = ", ".join(self.methods.patterns) or "none"
            raise ForbiddenError(f"this token may not call {method}; it may call: {allowed}")

    def sees(self, model: str) -> bool:
        """True for a model that it may use. Of others it is not told that they exist."""
        return self.models is EVERY or model in self.models


ANYBODY = Caller()
# Set by the gate before a call's handler is chosen; a call is a task of its own, so nobody else sees it.
calling: ContextVar[Caller] = ContextVar("calling", default=ANYBODY)
