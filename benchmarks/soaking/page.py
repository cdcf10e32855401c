"""Writes docs/reliability.md from what a soak and the fuzzer kept: `python -m benchmarks.soaking.page`."""

from itertools import accumulate

from benchmarks import mixed
from benchmarks.fuzzing.kept import Fuzzed, section
from benchmarks.fuzzing.memory import Grown, grown
from benchmarks.kept import KEPT
from benchmarks.process import ROOT
from benchmarks.soaking.rounds import Round, Soak, bad
from benchmarks.tables import Bar, bar_table, number, table

PAGE = ROOT / "docs" / "reliability.md"
_SHOWN = 24


def write_page() -> None:
    """Write the page from what was kept."""
    found = Soak.load(KEPT / "soak.json")
    said = [*HEADER.format(machine=found.machine, minutes=found.seconds / 60).splitlines(), *summary(found), ""]
    said += ["### Bars", "", *bars(found), "", "### Over time", "", *lines(found), ""]
    if (fuzzed := KEPT / "fuzz.json").exists():
        said += [*section(Fuzzed.load(fuzzed)), ""]
    if (asked := KEPT / "mixed.json").exists():
        said += [*mixed.section(mixed.Mixed.load(asked)), ""]
    said += BESIDE.splitlines()
    PAGE.write_text("\n".join(said) + "\n", encoding="utf-8")


def summary(found: Soak) -> list[str]:
    """What all rounds came to."""
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


def bars(found: Soak) -> list[str]:
    """What a soak is held to."""
    rounds = found.rounds
    memory = growth(found)
    disturbed = _middle([each.others for each in rounds]) or 0.0
    return bar_table(
        [
            Bar("INTERNAL, UNKNOWN or without an end", sum(each.failures for each in rounds), 0, at_most=True),
            Bar("good calls failed or mixed", sum(bad(each) for each in rounds), 0, at_most=True),
            Bar("gauges not back at zero", sum(each.left for each in rounds), 0, at_most=True),
            Bar("growth of memory, once warm", memory and memory.share, 0.05, at_most=True),
            Bar(
                "health, median of p99",
                _middle([each.health_p99 for each in rounds]),
                50,
                at_most=True,
                unit="ms",
                disturbed=disturbed,
            ),
        ]
    )


def growth(found: Soak) -> Grown | None:
    """How memory grew in the longest life; None where it was too short to tell."""
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


HEADER = """# Reliability

Written by `python -m benchmarks.soak --keep`, `fuzz --keep` and `mixed --keep`. Do not edit.

`python -m benchmarks.fuzz` sends what nobody should, built from the protocol's descriptors, and keeps what the server
fails on; `tests/hostile/corpus` is what it found. `python -m benchmarks.soak` loads and attacks a server for as long as
it is told.

## A soak of {minutes:.0f} minutes

On {machine}. Eight calls at a time: half of them good ones to the models of the demo and to seven small ones, the
others the fuzzer's; beside them uploads that never end, answers that nobody reads, half-open connections and large
wrong requests; every four seconds a model is swapped for its other version. Memory, descriptors, threads and gauges are
read between rounds, at rest.

"""

BESIDE = """## Beside other servers

What their public repositories show; nothing of theirs was run here.

- **Triton.** `qa/L0_http_fuzz` fuzzes the request lines of twenty HTTP addresses; we found no fuzzer of its gRPC.
  `qa/L0_memory_growth` holds growth under Valgrind's massif below 100 MB with good requests, every night, for about
  seven hours a week, and for two and a half days in its longest form. `qa/L0_long_running_stress` mixes good sequences,
  whose results it checks, with clients that crash or time out. `qa/L0_lifecycle` loads and unloads; memory that grows
  with every load was reported several times (server issues 2023, 3320, 4528, 4764, 4966). Its guide to secure
  deployment leaves the security of a solution to whoever deploys it, and expects a gateway in front.
- **Text Embeddings Inference.** Three HTTP tests of the router compare answers with snapshots; `load_tests` are k6
  scripts. An empty list of texts once made it panic (pull request 138). Growth under load (issue 156) was put down to
  the allocator and a dependency, and answered by another allocator and by trimming (pull requests 161, 307).
- **MLServer.** `benchmarking` sends 100,000 requests for throughput. Under load the loop that hands replies out lost
  track of callers and began again (issues 1312, 1652).

None of the three states a bound on memory, on failures or on answers mixed up that a user could hold it to."""


if __name__ == "__main__":
    write_page()
