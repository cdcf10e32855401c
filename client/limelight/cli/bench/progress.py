"""The progress line of a run, rewritten in place while standard error is a terminal."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from limelight.base.streams import show_progress
from limelight.cli.bench.load import OK, Recorder

_PAUSE = 0.25  # seconds
_RECENT = 1000  # calls that the latencies of the line are of


@asynccontextmanager
async def shown(record: Recorder, title: str) -> AsyncIterator[None]:
    """Show the progress of a run for the length of a block; nothing where standard error is no terminal."""
    if not sys.stderr.isatty():
        yield
        return
    task = asyncio.create_task(_show(record, title))
    try:
        yield
    finally:
        task.cancel()
        show_progress("")


async def _show(record: Recorder, title: str) -> None:
    while True:
        await asyncio.sleep(_PAUSE)
        show_progress(line(record, title))


def line(record: Recorder, title: str) -> str:
    """Return the progress of a run in one line."""
    seconds = max(record.now, 1e-9)
    errors = sum(code != OK for code in record.codes)
    answers = len(record.codes) - errors
    recent = sorted(
        latency
        for latency, code in zip(record.latencies[-_RECENT:], record.codes[-_RECENT:], strict=True)
        if code == OK
    )
    found = f"{title}: {seconds:.0f} s, {answers / seconds:.1f} answers/s, {record.under_way} under way"
    if recent:
        p50, p99 = (recent[min(len(recent) - 1, int(share * len(recent)))] * 1000 for share in (0.5, 0.99))
        found += f", p50 {p50:.1f} ms, p99 {p99:.1f} ms"
    return f"{found}, {errors} errors" if errors else found
