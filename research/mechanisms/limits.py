"""The limits of the study, from its tasks and its results."""

from collections.abc import Iterator, Sequence

from research.mechanisms.choice import Verdict, near, verdict
from research.mechanisms.prose import item, listed
from research.mechanisms.summary import Standings, beats

WEAK = 0.1  # a smallest difference above this leaves an order open


def limits(found: Sequence[Standings]) -> Iterator[str]:
    """A list, most important first."""
    yield from (item(said) for said in (weak(found), seeds(found), longer(found), *ALWAYS) if said)


def weak(found: Sequence[Standings]) -> str:
    """The tasks on which only large differences can be found, and what is therefore not shown to be worse."""
    weakest = sorted((each for each in found if each.smallest > WEAK), key=lambda each: -each.smallest)
    if not weakest:
        return ""
    said = [f"{each.task.name} ({100 * each.smallest:.1f} points)" for each in weakest]
    text = "**Weak tasks.** Seeds differ so much that the smallest difference that can be found is large on"
    text += f" {listed(said)}."
    left_open = [f"on {each.task.name} {listed(names)}" for each in weakest if (names := undecided(each))]
    return text + (f" Behind the best, but not shown to be worse: {'; '.join(left_open)}." if left_open else "")


def undecided(found: Standings) -> list[str]:
    """The mechanisms that are not as good as the best, and not shown to be worse."""
    if verdict(found) is not Verdict.MECHANISM:
        return []
    best = found.best
    return [row.name for row in found.mechanisms if row is not best and not near(found, row) and not beats(best, row)]


def seeds(found: Sequence[Standings]) -> str:
    """Number of seeds of each task."""
    counts: dict[int, list[str]] = {}
    for each in found:
        counts.setdefault(max(len(row.right) for row in each.rows), []).append(each.task.name)
    if not counts:
        return ""
    usual = max(counts, key=lambda count: len(counts[count]))
    others = [f"{count} on {listed(names)}" for count, names in sorted(counts.items()) if count != usual]
    return f"**Seeds.** {'; '.join([*others, f'{usual} on the others' if others else f'{usual}'])}."


def longer(found: Sequence[Standings]) -> str:
    """The tasks without longer texts."""
    without = [each.task.name for each in found if not any("longer" in row.figures for row in each.rows)]
    said = "**Longer texts.** At most twice the trained length"
    return f"{said}; none on {listed(without)}." if without else f"{said}."


ALWAYS = (
    "**Lengths.** Recall alone is trained in three lengths: selective copying and induction in 64 tokens, induction by"
    " words that know no neighbours in 32.",
    "**Pictures.** What is asked of canvases, in words, masks and films, is measured on"
    " [the published models](results.md) instead.",
    "**Size.** One size of model (32 features), small training sets, and words whose vectors are learned from those"
    " alone: on SNLI, MAMS and sentiment larger or pretrained models may need attention where these do not.",
    "**Tuning.** The rate alone, with the first seed, from three values.",
)
