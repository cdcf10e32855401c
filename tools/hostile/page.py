"""Writes the results in docs/reliability.md from the records, each between its marks: `python -m hostile.page`."""

from collections.abc import Iterable, Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any

from benchmarks.records import ROOT, read
from benchmarks.tables import fill, number, table
from hostile.fuzz.memory import Grown, grown
from hostile.soak.record import Round, Soak, bad

RECORDS = Path(__file__).parent / "records"
PAGE = ROOT / "docs" / "reliability.md"
_SHOWN = 24
_MOST_GROWTH = 0.05


def page(records: Path = RECORDS) -> str:
    """Give the page with the results of a folder of records."""
    soaked = Soak.load(records / "soak.json.xz")
    blocks = {
        "soak": [
            f"{soaked.seconds / 60:.0f} minutes on {soaked.machine}, at commit {soaked.commit}.",
            *("", *summary(soaked), "", *soak_limits(soaked), "", "### Over time", "", *lines(soaked)),
        ]
    }
    for name, written in (("fuzz", fuzzed), ("mixed", mixed)):
        if (file := records / f"{name}.json.xz").exists():
            blocks[name] = written(read(file))
    return fill(PAGE.read_text(encoding="utf-8"), blocks)


def fuzzed(run: Mapping[str, Any]) -> list[str]:
    """Write the part on a run of the fuzzer."""
    growth = grown(run["at"], run["memory"])
    text = FUZZED.format(
        **run, alone=run["golden"].get("the same", 0), minutes=run["seconds"] / 60, growth=growth or "too few rounds"
    )
    limits = [
        ("INTERNAL, UNKNOWN or without an end", run["failures"], 0),
        ("good answers mixed up", run["golden"].get("mixed", 0), 0),
        ("gauges not back at zero", run["gauges_left"], 0),
        ("growth of memory, once warm", growth.share if growth else None, _MOST_GROWTH),
    ]
    return [*text.splitlines(), *limit_table(limits)]


def mixed(run: Mapping[str, Any]) -> list[str]:
    """Write the part on rows beside each other."""
    return [*MIXED.format(**run).splitlines(), *limit_table([("answers mixed up", run["mixed"], 0)])]


def limit_table(rows: Iterable[tuple[str, float | None, float]]) -> list[str]:
    """Write measured values beside the most that is allowed."""
    verdicts = {True: "met", False: "**missed**", None: "not measured"}
    return table(
        ["", "measured", "at most", ""],
        (
            [name, number(value, ".3g"), f"{most:g}", verdicts[None if value is None else value <= most]]
            for name, value, most in rows
        ),
    )


def summary(found: Soak) -> list[str]:
    """Results of all rounds."""
    rounds = found.rounds
    answered = sum(each.good.get("the same", 0) + each.good.get("not asked again", 0) for each in rounds)
    rows = [
        ["calls", f"{sum(each.calls for each in rounds):,}"],
        ["good calls answered", f"{answered:,}"],
        ["of these asked again alone, the same", f"{sum(each.good.get('the same', 0) for each in rounds):,}"],
        ["good calls refused as too many", f"{sum(each.good.get('busy', 0) for each in rounds):,}"],
        ["swaps of models", f"{sum(each.swaps for each in rounds):,}"],
        ["other attacks", f"{sum(sum(each.attacks.values()) for each in rounds):,}"],
        ["servers", f"{found.lives}"],
        ["memory of the one that lived longest", f"{growth(found) or 'too few rounds to tell'}"],
        ["of these stopped by SIGTERM, with status", ", ".join(map(str, found.stops)) or "none"],
    ]
    return table(["", ""], rows)


def soak_limits(found: Soak) -> list[str]:
    """Write the limits of a soak."""
    memory = growth(found)
    others = _middle([each.others for each in found.rounds]) or 0.0
    return limit_table(
        [
            ("INTERNAL, UNKNOWN or without an end", sum(each.failures for each in found.rounds), 0),
            ("good calls failed or mixed", sum(bad(each) for each in found.rounds), 0),
            ("gauges not back at zero", sum(each.left for each in found.rounds), 0),
            ("growth of memory, once warm", memory.share if memory else None, _MOST_GROWTH),
            (
                f"health, median of p99, ms (other programs took {others:.0%} of the machine)",
                _middle([each.health_p99 for each in found.rounds]),
                50,
            ),
        ]
    )


def growth(found: Soak) -> Grown | None:
    """Growth of memory in the longest life; None where it was too short to tell."""
    lives = [[each for each in found.rounds if each.life == life] for life in range(1, found.lives + 1)]
    longest = max(lives, key=len, default=[])
    return grown(list(accumulate(each.calls for each in longest)), [each.memory for each in longest])


def lines(found: Soak) -> list[str]:
    """The rounds, of many of them every so many-th."""
    head = ["round", "life", "calls/s", "good", "busy", "failed", "swaps", "MiB", "fds", "threads"]
    head += ["health p50 / p99 / worst ms", "others"]
    step = max(1, -(-len(found.rounds) // _SHOWN))
    shown = {*range(0, len(found.rounds), step), len(found.rounds) - 1}
    return table(head, [_row(place, each) for place, each in enumerate(found.rounds) if place in shown])


def _row(place: int, each: Round) -> list[str]:
    good = each.good.get("the same", 0) + each.good.get("not asked again", 0)
    return [
        str(place + 1),
        str(each.life),
        number(each.calls / max(each.seconds, 1e-9)),
        str(good),
        str(each.good.get("busy", 0)),
        str(each.failures + bad(each) + each.left),
        str(each.swaps),
        number(each.memory),
        str(each.descriptors),
        str(each.threads),
        " / ".join([number(each.health_p50, ".1f"), number(each.health_p99, ".1f"), number(each.health_worst)]),
        f"{each.others:.0%}",
    ]


def _middle(values: list[float]) -> float | None:
    known = sorted(value for value in values if value == value)  # nobody asked for health in a round of a moment
    return known[len(known) // 2] if known else None


FUZZED = """{calls:,} calls on {machine}, at commit {commit}; seed {seed}, {minutes:.0f} minutes under attack.
{alone:,} valid calls among them were answered, and answered the same again alone. Health took {health_p50:.1f} ms
(median) and {health_p99:.1f} ms (p99). Memory at rest: {growth}.

"""

MIXED = """{rows:,} rows on {machine}, at commit {commit}, in {calls:,} calls. {given_up:,} further calls were given up
by their callers. The largest difference is {difference:.1e}, in logits and weights; {told_apart:.2%} of the pairs of
rows differ by more than the tolerance (1e-4).

"""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
