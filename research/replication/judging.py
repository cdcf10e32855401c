"""Verdicts on claims, from differences: one rule for all."""

from collections.abc import Collection, Mapping, Sequence

from limelight_models.index import CONTROLS
from research.mechanisms.statistics import Prior, holm
from research.replication.differences import Difference

# SHOWN and OPPOSITE hold among all claims, each ALONE by itself; of one seed nothing is shown.
SHOWN, OPPOSITE = "**shown**", "**the opposite**"
SHOWN_ALONE, OPPOSITE_ALONE = "shown alone", "the opposite alone"
NOT_SHOWN, NOT_RUN, CANNOT = "not shown", "not run", "not judged"
SEEN_ONCE, NOT_SEEN, OPPOSITE_ONCE = "seen once", "not seen", "the opposite once"
# Whether a model is better than its controls, which learn no weights: one is not where it gains less than a point.
LEARNED = YES, NO, UNSHOWN, ONCE, NOT_ONCE, UNRUN = "yes", "no", NOT_SHOWN, SEEN_ONCE, NOT_SEEN, NOT_RUN
EQUAL = 1.1  # times the parameters: about as many
_LEVEL, _LEAST_GAIN = 0.05, 1.0


def p_value(beside: Collection[Difference], less: float, of: Prior) -> float | None:
    """Of the hypothesis that a model is worse than several by exactly `less` points, both sides; None for one seed.

    That it beats all is as sure as that it beats each, the least sure one. That one of them beats it is as sure as the
    surest says, for being so many.
    """
    estimates = [each.estimate(of) for each in beside]
    p_values = [each.p_value(-less * found.side) for each, found in zip(estimates, beside, strict=True) if each]
    if not beside or len(p_values) < len(beside):
        return None
    against = [p for p, each in zip(p_values, beside, strict=True) if each.gain <= -less]
    return min(1.0, len(beside) * min(against)) if against else max(p_values)


def verdict(beside: Collection[Difference], less: float, of: Prior, adjusted: float, learned: str) -> str:
    """The verdict on the claim that a model is better than all of these, or worse by no more than `less` points.

    adjusted: its p value among those of all claims. learned: of `LEARNED`.
    """
    alone = p_value(beside, less, of)
    if alone is None:
        if all(worst(each, of) > -less for each in beside):
            return SEEN_ONCE
        return OPPOSITE_ONCE if any(_best(each, of) < -less for each in beside) else NOT_SEEN
    if alone >= _LEVEL:
        return NOT_SHOWN
    against = [each for each in beside if each.gain <= -less]
    but = []
    if against and (times := min(each.times for each in against)) < 1 / EQUAL:
        but.append(f"with {times:.1f} times the parameters")
    if not against and (times := max(each.times for each in beside)) > EQUAL:
        but.append(f"with {times:.1f} times the parameters")
    if not against and learned in (NO, NOT_ONCE):
        but.append("a control does as well")
    if not all(each.examples for each in against or beside):
        but.append("over seeds alone")
    bold, by_itself = (OPPOSITE, OPPOSITE_ALONE) if against else (SHOWN, SHOWN_ALONE)
    if adjusted < _LEVEL and not but:
        return bold
    return ", ".join([bold.strip("*") if adjusted < _LEVEL else by_itself, *but])


def judged_controls(
    controls: Mapping[tuple[str, str], Sequence[Difference]], of: Prior, most: int = len(CONTROLS)
) -> dict[tuple[str, str], str]:
    """Whether models need what their attention learns, of `LEARNED`, from their differences to both controls."""
    p_values = {place: p_value(beside, 0, of) if len(beside) == most else None for place, beside in controls.items()}
    adjusted = dict(zip(p_values, holm(list(p_values.values())), strict=True))
    return {place: _learned(beside, of, adjusted[place], most) for place, beside in controls.items()}


def _learned(beside: Sequence[Difference], of: Prior, adjusted: float, most: int) -> str:
    if any(_best(each, of) < _LEAST_GAIN for each in beside if each.seeds > 1):
        return NO
    if len(beside) < most:
        return UNRUN
    if any(each.seeds == 1 for each in beside):
        return ONCE if all(worst(each, of) > 0 for each in beside) else NOT_ONCE
    return YES if adjusted < _LEVEL and all(each.gain > 0 for each in beside) else UNSHOWN


def worst(found: Difference, of: Prior) -> float:
    """The end of the interval that says least for the first; the difference itself where there is no interval."""
    return min(found.side * each for each in found.interval(of) or [found.mean])


def _best(found: Difference, of: Prior) -> float:
    return max(found.side * each for each in found.interval(of) or [found.mean])
