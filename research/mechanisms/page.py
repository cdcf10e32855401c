"""docs/mechanisms.md, from the results."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from research.mechanisms.absent import ABSENT, ENTERS
from research.mechanisms.advice import advice
from research.mechanisms.choice import RULE, Verdict, verdict
from research.mechanisms.findings import findings
from research.mechanisms.jobs import planned
from research.mechanisms.limits import limits
from research.mechanisms.lines import of_task
from research.mechanisms.pictures import decided
from research.mechanisms.prose import wrapped
from research.mechanisms.results import Results
from research.mechanisms.start import ENTROPY
from research.mechanisms.statistics import Effect
from research.mechanisms.summary import Row, Standings
from research.mechanisms.tasks import TASKS
from research.mechanisms.terms import terms_table

Cell = Callable[[Row, Standings], str]  # empty where there is nothing to say

HEADER = """# Attention mechanisms, each where its idea can act

Written by `python -m research.mechanisms write` from `research/records/mechanisms.jsonl.xz`. Do not edit.

{state}

## What to pick

{rule}

Where no mechanism is shown to be above a plain average of the same model, the average is the advice, and the figures
are its own. Where nothing has half of the answers, nothing was learned and nothing is advised. *Longer texts*: right
answers on texts up to twice as long as any in training.

"""
PICTURES = """
## Three pictures

![Right answers by task: every mechanism a dot, the controls marked](pictures/mechanisms-tasks.svg)

Where the red ring is far to the left, attention is needed; where the dots lie together, any of them will do.

![Weight on the right place against right answers, a dot for each mechanism and task](pictures/mechanisms-places.svg)

At the top right: looks right and answers right. Above the diagonal: answers right with little weight there. Below it:
looks right and answers wrong.

![Entropy of the weights over training, on six tasks, every mechanism a line](pictures/mechanisms-entropy.svg)

{decided}
"""
METHOD = """
## How it was done

- **Tasks.** Generated ones, of which it is known where to look, and real sets beside them: SNLI, MAMS, bAbI 1 to 3,
  and sentence sentiment as the negative control, where an average is known to be enough. Models are small (32
  features) and built so that nothing but attention brings what is asked for to where it is answered
  (`research/mechanisms/models.py`, `models/limelight_models/catalogue/testbed`). An example is right where every step
  of its answer is.
- **Who enters.** A mechanism whose idea can act on the task; whether it did is measured on the dev part (keys are cut
  off, bounds bind, steps stop, features, heads or looks differ, earlier weights move later ones). One that did in
  less than 1 % of the cases is listed below its table and not compared. What entered nowhere is listed at the end.
- **Equal start.** Scores are multiplied by a number that gives softmax over them an entropy of {entropy:g} of that of
  equal weights on one batch, which makes the scaled and the plain dot product one and the same. Kernels that are
  divided by their sum cannot be scaled and begin where they begin.
- **Equal tuning.** With the first seed three rates of Adam go a third of the steps; the best on the dev part goes on,
  and its rate is kept for the other seeds. Training stops where the dev part has not improved four times in a row, or
  is solved, or at a limit of steps; the weights that did best there read the test part, once.
- **Controls**, of the same size: the plain mechanism (the first below the controls) with **uniform** weights, and
  with the score and its maps of query and key **frozen** as drawn. **Permuted**: what is left of a trained mechanism
  when its weights are shuffled among the keys at test time (Jain and Wallace 2019).
- **Statistics.** Every mechanism answers the same examples from the same seeds. Differences have 95 % intervals from
  a paired hierarchical bootstrap: examples are drawn with replacement, and what seeds add from Student's t with their
  own variance. Starred: p < 5 % after Holm's correction over the task's column. With one seed, an interval is about
  other examples alone, not about other seeds. Beside each table stands the smallest difference that a test at 5 %
  would find four times out of five.
- **Columns.** *right*: mean over seeds ± standard deviation; where some seeds solve a task and others do not, both
  mislead, and *solved* says more: the seeds with at least 80 % of what the best mechanism has right in the mean, of how
  many. *on the right place*: share of weight on the gold places (attention correctness, Liu et al. 2017), and
  what equal weights would have in brackets; *AER*: alignment error rate of the strongest keys (Och and Ney 2003),
  links being sure where one place alone is right; *facts*: of the supporting facts, those among as many strongest
  ones. *longer*: right answers on examples up to twice as long as any that were trained. *entropy*: of the weights on
  the test part, 1 for equal ones. *step*: processor milliseconds of a training step, on a shared machine; *kept*:
  megabytes that a step keeps for its gradients; *latency*: milliseconds of ONNX Runtime for one instance of the
  mechanism's small task model, exported with its maps (64 tokens; pairs 14 and 8; targets 12, 2 and 12), one thread;
  in longer texts it was not measured.
- **Raw.** Which examples every run answered rightly is in the results, eight a byte, compressed
  (`research/mechanisms/bits.py`).

## What each task was given

*Each seen*: how often an example of the training part is seen before the limit of steps. *Rate at an edge*: tuned lines
whose rate is the lowest or the highest of the three. *Stopped by the limit*: the share of runs.

"""
LEFT_OUT = """
## What this study leaves out

"""


def page(results: Results, found: Sequence[Standings]) -> str:
    """The whole page, of results that were summed up."""
    head = [HEADER.format(state=state(results), rule=wrapped(RULE)), *advice(found)]
    said = [
        PICTURES.format(decided=decided(found)),
        "\n## What the numbers say\n",
        *findings(found),
        METHOD.format(entropy=ENTROPY),
        *terms_table(found),
    ]
    rest = [LEFT_OUT, *limits(found), *(part for each in found for part in section(each)), *absent(found)]
    return "".join([*head, *said, *rest])


def state(results: Results) -> str:
    """The share of the study that is complete."""
    jobs = list(planned())
    done = [job for job in jobs if results.known("run", job.line.key, job.seed)]
    seconds = sum(row["cpu_seconds"] for (kind, _, _), row in results.rows.items() if kind == "run")
    said = f"{len(done):,} of {len(jobs):,} runs are in, {seconds / 60:,.0f} core-minutes"
    if len(done) == len(jobs):
        return f"Complete: {said}."
    seeds = sorted({job.seed for job in done})
    return wrapped(
        f"**Partial**: {said} (seeds {', '.join(map(str, seeds)) or 'none'}). What is said below is said of those;"
        " `python -m research.mechanisms run` adds what is missing."
    )


def section(found: Standings) -> Iterator[str]:
    """A task's table with what stands beside it."""
    task = found.task
    seeds = sorted({len(row.right) for row in found.rows})
    lines = len(list(of_task(task.name)))
    said = f"{len(found.rows)} of {lines} lines" if len(found.rows) < lines else f"{lines} lines"
    yield f"\n## {task.title}\n\n`{task.name}`: {said}, "
    yield f"{seeds[0]}{f' to {seeds[-1]}' if seeds[-1] != seeds[0] else ''} of {task.seeds} seeds. "
    yield f"Smallest difference that could be found: {100 * found.smallest:.1f} points.\n\n"
    if not found.learned:
        yield "Nothing learned this task: its figures compare failures, not mechanisms.\n\n"
    yield f"{wrapped(ENTERS[task.form])}\n\n"
    columns = [(name, cell) for name, cell in COLUMNS.items() if any(cell(row, found) for row in found.rows)]
    yield f"| mechanism | {' | '.join(name for name, _ in columns)} |\n|---|{'---:|' * len(columns)}\n"
    for row in found.rows:
        if not row.idle:
            yield f"| {named(row, task.plain)} | {' | '.join(cell(row, found) or '–' for _, cell in columns)} |\n"
    for row in found.rows:
        if row.idle:
            yield f"\n*{row.name}* is not compared: {row.line.check}: {100 * row.figures['acted']:.1f} %.\n"


def named(row: Row, plain: str) -> str:
    """A mechanism's name: controls in italics, the plain one bold."""
    if row.line.control:
        return f"*{row.name}*"
    return f"**{row.name}**" if row.name == plain else row.name


def right(row: Row, found: Standings) -> str:
    """Accuracy, with its deviation over seeds where there are more."""
    spread = f" ± {100 * row.deviation:.1f}" if len(row.right) > 1 else ""
    return f"{100 * row.accuracy:.1f}{spread}"


def solved(row: Row, found: Standings) -> str:
    """Number of seeds that solved the task; empty where an average is enough, or nothing was learned."""
    return f"{found.solved(row)} of {len(row.right)}" if verdict(found) is Verdict.MECHANISM else ""


def difference(of: tuple[Effect, float] | None) -> str:
    """A difference in points with its interval, starred where it stands after correction."""
    if of is None:
        return ""
    each, p = of
    star = "\\*" if p < 0.05 else ""
    return f"{100 * each.mean:+.1f}{star} ({100 * each.low:+.1f} to {100 * each.high:+.1f})"


def on_place(row: Row, found: Standings) -> str:
    """Weight on the right place, and what equal weights would have."""
    if "share" not in row.figures:
        return ""
    return f"{row.figures['share']:.2f} ({row.figures['even']:.2f})"


def of_figure(name: str, form: str, share: bool = False) -> Cell:
    """A cell of a figure that may be missing."""
    return lambda row, _: format(row.figures[name] * (100 if share else 1), form) if name in row.figures else ""


COLUMNS: Mapping[str, Cell] = {
    "right, %": right,
    "solved": solved,
    "beside uniform": lambda row, _: difference(row.beside_uniform),
    "beside plain": lambda row, _: difference(row.beside_plain),
    "on the right place": on_place,
    "AER": of_figure("aer", ".2f"),
    "facts, %": of_figure("facts", ".1f", True),
    "longer, %": of_figure("longer", ".1f", True),
    "permuted, %": of_figure("permuted", ".1f", True),
    "entropy": of_figure("entropy", ".2f"),
    "parameters": lambda row, _: f"{row.parameters:,}",
    "step, ms": of_figure("step_ms", ".1f"),
    "kept, MB": of_figure("kept_mb", ".1f"),
    "latency, ms": lambda row, _: "" if row.latency is None else f"{row.latency:.3f}",
}


def absent(found: Sequence[Standings]) -> Iterator[str]:
    """Mechanisms that did not enter, or have no results yet."""
    there = {each.task.name for each in found}
    if missing := [task for task in TASKS.values() if task.name not in there]:
        yield "\n## Not yet run\n\n" + "".join(f"- `{task.name}`: {task.title}.\n" for task in missing)
    yield "\n## What entered nowhere\n\n"
    yield from (f"- {name}: {why}.\n" for name, why in ABSENT.items())
