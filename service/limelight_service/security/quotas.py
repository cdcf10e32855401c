"""Counts of each token's recent rows and rows in flight."""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from limelight_bundle.errors import TooLargeError
from limelight_service.errors import QuotaError
from limelight_service.observability.metrics import Metrics
from limelight_service.observability.observer import Rejection
from limelight_service.platform.numbers import shown
from limelight_service.security.caller import Caller

_RETRY_IN_FLIGHT = 0.5


@dataclass
class _Usage:
    """Usage by one token. left: rows that it may begin with now, as of `seen`; below 0 after a call of many."""

    in_flight: int
    left: float
    seen: float


class Quotas:
    """Counts rows by the token they came with. For one event loop.

    A rate is one of a bucket that holds what a second brings. A call is let in while anything is in the bucket,
    whatever its size, and later ones wait for what it took too much: calls of many rows need no bucket of their size,
    and in the long run nobody gets more than the rate.
    """

    def __init__(self, metrics: Metrics, clock: Callable[[], float] = time.monotonic) -> None:
        self._metrics = metrics
        self._clock = clock
        self._usages: dict[str, _Usage] = {}
        self._names: Collection[str] = ()

    def take(self, caller: Caller, rows: int, *, begun: bool = False) -> Callable[[], None]:
        """Count rows that begin, of a caller with a name; what is given back is to be called when they have ended.

        Args:
            begun: they are of a call that was let in.

        Raises: QuotaError, which says when to try again; TooLargeError where no time would help.
        """
        quota, now = caller.quota, self._clock()
        full = max(1.0, quota.rows_per_second)
        usage = self._usages.get(caller.name)
        if usage is None:
            usage = self._usages[caller.name] = _Usage(0, full, now)
        if quota.rows_in_flight and usage.in_flight + rows > quota.rows_in_flight:
            if rows > quota.rows_in_flight:
                raise TooLargeError(
                    "instances", f"are {rows}; this token may have {quota.rows_in_flight} rows in flight"
                )
            raise self._refused(
                rows,
                f"{usage.in_flight} rows of this token are in flight, of at most {quota.rows_in_flight}; try again "
                "when some are answered",
                _RETRY_IN_FLIGHT,
            )
        if quota.rows_per_second:
            usage.left = min(full, usage.left + (now - usage.seen) * quota.rows_per_second)
            usage.seen = now
            if usage.left <= 0 and not begun:
                wait = -usage.left / quota.rows_per_second + 1e-3
                raise self._refused(
                    rows, f"this token has had its {shown(quota.rows_per_second)} rows a second; try again later", wait
                )
            usage.left -= rows
        usage.in_flight += rows
        self._metrics.token_rows(caller.name, rows)

        def ended() -> None:
            usage.in_flight -= rows
            self._metrics.token_rows_ended(caller.name, rows)
            self._forget(caller.name)

        return ended

    def keep(self, names: Collection[str]) -> None:
        """Forget all tokens but those named, each once it has nothing in flight."""
        self._names = names
        for name in list(self._usages):
            self._forget(name)

    def _forget(self, name: str) -> None:
        usage = self._usages.get(name)
        if usage is not None and name not in self._names and not usage.in_flight:
            del self._usages[name]
            self._metrics.token_gone(name)

    def _refused(self, rows: int, message: str, retry_after: float) -> QuotaError:
        self._metrics.rejected(Rejection.QUOTA, rows)
        return QuotaError(message, retry_after=retry_after)
