"""What the results advise, in sentences and a table that follow from them."""

from collections.abc import Iterator, Sequence

from benchmarks.mechanism_study.lines import UNIFORM
from benchmarks.mechanism_study.summary import Row, Standings, compared

MOST = 3  # mechanisms that are named where several are as good


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
    """The cheapest of those that none was shown to beat; that an average is enough, where it is."""
    best, uniform = found.best, found.row(UNIFORM)
    enough = uniform is not None and (beside := compared(best_of(found), uniform)) is not None and beside.low <= 0
    if enough:
        return "an average: nothing was shown to be better"
    names = [f"**{best[0].name}**", *(each.name for each in best[1:MOST])]
    others = len(best) - len(names)
    return ", ".join(names) + (f" and {others} more that are as good" if others > 0 else "")


def best_of(found: Standings) -> Row:
    """The mechanism with most right answers."""
    return max(found.mechanisms, key=lambda each: each.accuracy)


def percent(share: float) -> str:
    """A share as a percentage."""
    return f"{100 * share:.1f} %"
