"""Findings over all tasks, in sentences that follow from the numbers."""

from collections.abc import Iterator, Sequence
from statistics import fmean

import numpy as np
from scipy.stats import rankdata

from research.mechanisms.choice import MOST, WORSE, Verdict, advantage, near, verdict
from research.mechanisms.line import FROZEN, UNIFORM
from research.mechanisms.prose import listed, wrapped
from research.mechanisms.summary import Row, Standings, compared
from research.mechanisms.tasks import TASKS, Task
from research.mechanisms.terms import speed
from research.replication.figures import percent

FEW = 5  # mechanisms of which no correlation is taken
CLOSELY, LOOSELY = 0.7, 0.3  # correlations
RIGHT = 0.9  # of all examples
KNOW_NONE = ("beside", "story")  # forms of which what is read at a place holds nothing of its neighbours


def findings(found: Sequence[Standings]) -> Iterator[str]:
    """Paragraph by paragraph."""
    for said in (needed(found), looking(found), beside(found), frozen(found), speed(found) if found else ""):
        if said:
            yield f"\n{said}\n"


def needed(found: Sequence[Standings]) -> str:
    """The tasks where attention was needed."""
    verdicts = {each.task.name: verdict(each) for each in found if each.row(UNIFORM)}
    gains = [
        gain.mean for each in found if verdicts.get(each.task.name) is Verdict.MECHANISM and (gain := advantage(each))
    ]
    if not gains:
        return ""
    said = f"**Where attention is needed.** The best mechanism is above a plain average on {len(gains)} of"
    least, most = f"{100 * min(gains):.1f}", f"{100 * max(gains):.1f}"
    said += f" {len(verdicts)} tasks, by {least}{f' to {most}' if most != least else ''} points."
    if enough := [name for name, each in verdicts.items() if each is Verdict.AVERAGE]:
        said += f" On {listed(enough)} none was shown to be, with models and training sets of this size."
    if failed := [name for name, each in verdicts.items() if each is Verdict.NOTHING]:
        said += f" On {listed(failed)} training failed: neither a mechanism nor the average has half of the answers."
        said += "".join(fewer(each.task) for each in found if each.task.name in failed)
    return wrapped(said)


def fewer(task: Task) -> str:
    """That it had less to learn from than others of its form, where that is so."""
    others = [each for each in TASKS.values() if each.form == task.form and each.training > task.training]
    if not others:
        return ""
    sizes = " and ".join(sorted({f"{each.training:,}" for each in others}))
    return f" It has {task.training:,} examples to learn from, where {listed([o.name for o in others])} have {sizes}."


def looking(found: Sequence[Standings]) -> str:
    """Whether who looks right answers right: what the correlations say, and who is furthest from it."""
    known = {each.task.name: value for each in found if (value := agreement(each)) is not None}
    if len(known) < 2:
        return ""
    mean, least, most = fmean(known.values()), min(known, key=known.__getitem__), max(known, key=known.__getitem__)
    if mean >= CLOSELY:
        verb = "goes together with"
    else:
        verb = "often goes together with" if mean >= LOOSELY else "says little of"
    said = f"**Does who looks right answer right?** Weight on the right place {verb} right answers: over the mechanisms"
    said += f" of a task their rank correlation is {mean:.2f} in the mean of {len(known)} tasks, from"
    said += f" {known[least]:.2f} ({least}) to {known[most]:.2f} ({most})."
    if weak := [name for name, value in known.items() if value < LOOSELY]:
        said += f" It is below {LOOSELY} on {listed(weak)}."
    gaps = [
        (row.figures["share"] - row.accuracy, each.task.name, row)
        for each in found
        for row in each.mechanisms
        if "share" in row.figures
    ]
    (_, looks, blind), (_, answers, lucky) = max(gaps, key=lambda gap: gap[0]), min(gaps, key=lambda gap: gap[0])
    said += f" Furthest apart are {blind.name} on {looks} ({told(blind)}) and {lucky.name} on {answers}"
    return wrapped(f"{said} ({told(lucky)}).")


def told(row: Row) -> str:
    """Weight on the right place and right answers of a row."""
    return f"{row.figures['share']:.2f} of its weight, {percent(row.accuracy)} right"


def beside(found: Sequence[Standings]) -> str:
    """Models that answer rightly with their weight elsewhere, seed by seed: their keys know their neighbours."""
    counts = []
    for each in found:
        solved = [run for row in each.mechanisms for run in row.runs if run["accuracy"] >= RIGHT and "share" in run]
        elsewhere = sum(run["share"] < MOST for run in solved)
        if elsewhere and each.task.form not in KNOW_NONE:
            counts.append(f"{elsewhere} of {len(solved)} on {each.task.name}")
    if not counts:
        return ""
    return wrapped(
        "**A word beside the right one can do.** What is read at a word holds its neighbours (a convolution over three"
        " words), so that a model can answer from a word beside the one that counts as right, or from several. Of the"
        f" runs with at least {100 * RIGHT:.0f} % right, those with less than half of their weight on the right place"
        f" are {listed(counts)}."
    )


def frozen(found: Sequence[Standings]) -> str:
    """The tasks where scores that never learn beat those that do, and a reason."""
    shown, ahead, behind, level = [], [], [], []
    for each in found:
        control, plain = each.row(FROZEN), each.row(each.task.plain)
        if control is None or plain is None or not each.learned or not (found_of := compared(control, plain)):
            continue
        said = f"{each.task.name} ({100 * control.accuracy:.1f} % right against {100 * plain.accuracy:.1f})"
        if found_of.low > 0:
            shown.append(said)
        elif found_of.mean >= WORSE:
            ahead.append(said)
        elif found_of.high < -WORSE:
            behind.append(each.task.name)
        if verdict(each) is Verdict.MECHANISM and near(each, control):
            level.append(each.task.name)
    parts = [
        f" It is shown to be ahead of the plain mechanism on {listed(shown)}." if shown else "",
        f" It is ahead, but not shown to be, on {listed(ahead)}." if ahead else "",
        f" It is as good as the best mechanism on {listed(level)}." if level else "",
        f" It is shown to be more than a point behind the plain one on {listed(behind)}." if behind else "",
    ]
    if not any(parts):
        return ""
    return wrapped(
        "**Frozen is not blind.** The frozen control keeps its random scores, but the words and states that they"
        " compare go on learning until they fit. Random maps keep different words apart, and there is less to learn at"
        f" once, which counts where training is short.{''.join(parts)} So what a mechanism gains over *frozen* says"
        " whether its score must learn; whether attention is needed, what it gains over *uniform* says."
    )


def agreement(found: Standings) -> float | None:
    """Rank correlation of weight on the right place with right answers; None with few mechanisms, or no difference."""
    rows = [row for row in found.mechanisms if "share" in row.figures]
    shares, right = [row.figures["share"] for row in rows], [row.accuracy for row in rows]
    if len(rows) < FEW or np.ptp(shares) == 0 or np.ptp(right) == 0:
        return None
    return float(np.corrcoef(rankdata(shares), rankdata(right))[0, 1])
