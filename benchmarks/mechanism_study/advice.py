"""What the results advise, in sentences and a table that follow from them."""

from collections.abc import Iterator, Sequence
from statistics import fmean

import numpy as np
from scipy.stats import rankdata

from benchmarks.mechanism_study.line import UNIFORM
from benchmarks.mechanism_study.lines import of_task
from benchmarks.mechanism_study.statistics import Effect
from benchmarks.mechanism_study.summary import Row, Standings, compared

MOST = 3  # mechanisms that are named where several are as good
FEW = 5  # mechanisms of which no correlation is taken


def advice(found: Sequence[Standings]) -> Iterator[str]:
    """The table that the page opens with."""
    yield "| to do this | pick | right | plain average | its weight on the right place |\n|---|---|---:|---:|---:|\n"
    for each in found:
        uniform = each.row(UNIFORM)
        average = "–" if uniform is None else percent(uniform.accuracy)
        first = each.best[0]
        looked = first.figures.get("share", first.figures.get("facts"))
        yield (
            f"| {each.task.title} | {pick(each)} | {percent(first.accuracy)} | {average} |"
            f" {'' if looked is None else percent(looked)} |\n"
        )


def pick(found: Standings) -> str:
    """The cheapest of those that are as good as the best; that an average is enough, where it is."""
    best, gain = found.best, advantage(found)
    if gain is not None and gain.low <= 0:
        return "an average: nothing was shown to be better"
    names = [f"**{best[0].name}**", *(each.name for each in best[1:MOST])]
    others = len(best) - len(names)
    more = f" and {others} more that are as good" if others > 0 else ""
    there, lines = len(found.rows), len(list(of_task(found.task.name)))
    so_far = f" (of {there} of {lines} lines so far)" if there < lines else ""
    return "; ".join(names) + more + so_far


def best_of(found: Standings) -> Row:
    """The mechanism with most right answers."""
    return max(found.mechanisms, key=lambda each: each.accuracy)


def percent(share: float) -> str:
    """A share as a percentage."""
    return f"{100 * share:.1f} %"


def reading(found: Sequence[Standings]) -> Iterator[str]:
    """What the numbers say over all tasks, in sentences that follow from them."""
    needed = {each.task.name: gain.mean for each in found if (gain := advantage(each)) and gain.low > 0}
    other = [each.task.name for each in found if each.task.name not in needed and each.row(UNIFORM)]
    if needed:
        least, most = min(needed.values()), max(needed.values())
        said = f"The best mechanism is above a plain average on {len(needed)} of {len(needed) + len(other)} tasks, by"
        yield f"\n{said} {100 * least:.1f}{f' to {100 * most:.1f}' if most > least else ''} points"
        yield f"; on {', '.join(other)} none was shown to be.\n" if other else ".\n"
    agreeing = [each for each in map(agreement, found) if each is not None]
    if len(agreeing) > 1:
        yield "\nWho looks right answers right: over the mechanisms of a task, weight on the right place and right"
        yield f" answers have a rank\ncorrelation of {fmean(agreeing):.2f} (mean of {len(agreeing)} tasks).\n"


def advantage(found: Standings) -> Effect | None:
    """Of the best mechanism over the plain average."""
    uniform = found.row(UNIFORM)
    return None if uniform is None else compared(best_of(found), uniform)


def agreement(found: Standings) -> float | None:
    """Rank correlation of weight on the right place with right answers; None with few mechanisms, or no difference."""
    rows = [row for row in found.mechanisms if "share" in row.figures]
    shares, right = [row.figures["share"] for row in rows], [row.accuracy for row in rows]
    if len(rows) < FEW or np.ptp(shares) == 0 or np.ptp(right) == 0:
        return None
    return float(np.corrcoef(rankdata(shares), rankdata(right))[0, 1])
