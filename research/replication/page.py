"""Writes docs/results.md and docs/results-comparisons.md: every number on the pages comes from the record."""

from collections.abc import Iterable

from research.replication.differences import differences
from research.replication.figures import ERRORS, LOOKS, STRONGEST, WEIGHT, Record, figure, is_made, percent, shown
from research.replication.names import ABLATIONS, CONTROLS, TITLES, title
from research.replication.papers import compared, papers, verdicts
from research.replication.tables import written
from research.replication.unneeded import unneeded

HEAD = """# Results

What the models of the zoo reach on held-out data, beside what is reached without their attention. Written by
`python -m research.replication write` from `research/records/training.json.xz`; `python -m research.replication show`
prints every run, its command, where each map looks, and what each head does. The figures of
[every comparison](results-comparisons.md) have a page of their own.

## In a line a model

Of the claims that papers make of their models; a comparison is a claim on one set of data, beside one other model.
*Shown*: its interval is on the claim's side, and its p value is below 0.05 among those of all comparisons (Holm 1979).
*Shown alone*: the interval is, and one of twenty such rows would be so by chance. Models and data here are small, so
that a claim which is not shown is not disproved.
"""
COMPARISONS = """# Models beside what they are compared with

The figures behind [the results](results.md), where it says [how to read them](results.md#how-to-read-this). Written by
`python -m research.replication write` from `research/records/training.json.xz`.

## What the papers claim

The first model of each row is the paper's, the other is what it claims to beat; *(ours)* marks claims that a paper does
not make. Intervals of several seeds are Student's, of one seed they are about other held-out examples alone. Where a
figure has no interval, one run says what it says. Several embeddings have two to three times the parameters of one; one
embedding of words alone tags no name of ner_wnut17 at all, so that nothing can be shown there.
"""
UNNEEDED = """
## Where a control was not shown to be worse

Every pair whose interval does not lie above 0; of those that one run alone compares, which says little, the pairs of
which the control has as much. It is not shown there that what the model answers depends on weights that were learned:
its maps say where it looked, and not that it had to look there.
"""
READING = """
## How to read this

- Training ends by the dev loss or at the stated number of epochs; the weights with the lowest dev loss are judged.
- The families and settings of the documents were chosen with figures of seed 0 in sight, its held-out part among them;
  the rows with other seeds hold out other modules, and were run once, with everything decided. Settings of the other
  rows were changed once or twice, to cost less or to start better, after earlier runs whose held-out figures were seen.
- Models and data are small and trained for minutes on one core: the figures show that the parts work, and are not to be
  compared with published ones. Cora is the exception: the public split (140, 500 and 1,000 nodes) and the sizes and
  settings of Veličković et al. (2018), but for a learning rate that rises and falls; they report 83.0 ± 0.7 % over 100
  runs. How long and how high was decided after a few runs of seeds 0 to 2, whose held-out figures were seen.
- Controls, which are as large as the model (ablations leave something out, and are smaller): *uniform weights* is the
  same network with the same weight for every key; *frozen random attention* keeps the parameters that decide weights
  as they were drawn, and everything else learns. A difference is that of two runs with the same seed, its interval
  Student's over the seeds: with three it is wide. With one it is Newcombe's (1998, method 10) for examples that are
  not the same, though they are: too wide, but not about seeds. Where an interval holds 0 nothing was shown.
- speech_fsdd: recordings of two to four digits by one speaker, joined, as letters for units of sound; held out are
  other recordings of the same six speakers. The units were chosen by recordings that are not held out; held-out figures
  of a few runs were seen before the rest was.
- Letters that Transformers reverse: one run each, of four epochs (fixed heads, Universal Transformer) or six. Fixed
  heads are far from done by then, and larger than divided ones: what is compared there is how fast they learn.
- Questions about a canvas: SAN, LXMERT and VisualBERT learned for six epochs, the other models for twelve.
- mr_polarity+mams_atsa: film reviews with classes and restaurant sentences without; held out are restaurant sentences
  whose targets agree but for neutral ones. Epochs are chosen by the films: nothing is known of restaurants.
- Made-up names: none is in two parts, so that embeddings of words know a name by the letters that it has in common with
  others alone. On ner_wnut17 two of three words of the held-out entities stand in no training sentence, and four of
  five in no training entity: one embedding of words alone finds none there.
- Entities are right where both ends and the kind are (F1, precision, recall over all of them).
"""
READING_RUNS = """
## How to read the runs

- Intervals of figures are Wilson's, 95 %, for the number of held-out examples alone: what another seed or another split
  would change comes on top. Pixels of one picture are no examples of their own, so that those of masks are too narrow.
- *Baseline* for classes is to answer the training part's most frequent class always.
- Documents of the standard library are held out by whole modules; modules of one package can be on both sides. The
  families are those chapters of the library reference that have enough modules: with all chapters the task is harder.
- Dates: no date is in two parts, ways of writing are. Digits: writers are in all parts.
- *Exact* is the share of greedy outputs that are right to the last character, *tokens* the share of tokens that are
  right when the target is forced. BLEU is sacrebleu's corpus BLEU with its defaults, on detokenised text, greedy.
- *Told apart*: of pairs of targets in one sentence that have different classes, the share of which both are right.
  Whoever reads the sentence and not the target has none.
- Nodes of made-up citations are held out by whole graphs; a quarter of the nodes say nothing and are cited by all.
- What PSAC looks at in a film is not the moment that it answers about: the weight there is that of equal weights, which
  have more than half, as many questions are about all of a film.
- *Weight on it*: the share of a map's weight on the places that are right, which the task knows, and what equal weights
  have there; *strongest there*: how often the largest weight of a query is. Alignment errors are the error rate of Och
  and Ney (2003), on 447 sentences of another kind of text (parliament), each word linked to the one with most weight.
- The eyes of show, attend and tell, of hierarchical co-attention, MCAN and PSAC know digits before anything is asked:
  each cell learned to name the digit in whose box it lies (`models/limelight_models/recipes/vision_pretraining.py`), as
  those of the papers had learned ImageNet, or boxes and names. Which digit to look at, and when, is not taught by
  that; but an eye that knows nothing does not learn to see in so few epochs (show, attend and tell, *its eye taught
  nothing beforehand*).
- *Taught where*: the share of weight on the right places is part of what is learned (Liu et al. 2017), so that it says
  what can be taught, and not what is found by itself.
- movie_reviews+rationales_movies: the right places are phrases that people marked as reasons for the class (Zaidan et
  al. 2007, as DeYoung et al. 2020 hold them); nobody learned from them. Words behind the last that a model reads
  count as no place.
- Heads: the entropy of their weights; weight on the key before the query's own place, at it and after it (in a
  decoder's map of itself, the place is that of the token that went in last); on 200 held-out examples.
- Time is what training took on a shared machine at low priority: an upper bound.
"""


def pages(record: Record) -> dict[str, str]:
    """The pages, by the names of their files."""
    comparisons = compared(record)
    parts = [COMPARISONS, *papers(comparisons, record), UNNEEDED, *unneeded(record)]
    if found := beams(record):
        parts += ["\n## With beams, served\n", *found]
    return {
        "results.md": "".join([HEAD, *verdicts(comparisons), READING]),
        "results-comparisons.md": "".join(parts),
    }


def details(record: Record) -> str:
    """Details on request: every run and its command, controls and ablations, maps, heads."""
    builtin = {name: run for name, run in record.items() if is_made(run)}
    others = {name: run for name, run in record.items() if name not in builtin}
    parts = ["# Runs\n\n## Data that need no download\n", *table(builtin.values())]
    if others:
        parts += ["\n## Plain files\n", *table(others.values())]
    parts += ["\n## Beside controls and ablations\n", *besides(record)]
    parts += ["\n## Where they look, where that is known\n", *places(record)]
    if found := heads(record):
        parts += ["\n## What heads do\n", *found]
    parts += [READING_RUNS, "\n## Commands\n\n"]
    parts += [f"- `{run['command']}`{unfinished(run)}\n" for run in record.values()]
    return "".join(parts)


def table(runs: Iterable[Record]) -> list[str]:
    """One row a run."""
    heads = ("data", "model", "parameters", "train / held out", "epochs", "minutes", "held out", "baseline")
    rows = []
    for run in runs:
        data = run["data"]
        cells = (
            f"{data['name']} ({data['licence']})",
            called(run),
            f"{run['parameters']:,}",
            f"{data['training_examples']:,} / {data['held_out_examples']:,}",
            f"{run['epochs']} (best {run['best_epoch']})",
            f"{run['seconds'] / 60:.1f}",
            "; ".join(figure(metric, data["held_out_examples"]) for metric in judged(run)),
            "; ".join(f"{shown(m, m['baseline'])} ({m['baseline_name']})" for m in judged(run) if "baseline" in m),
        )
        rows.append(cells)
    return written(heads, rows)


def called(run: Record) -> str:
    """A run's model, and its seed where that is not 0."""
    return title(run["model"]) + (f", seed {run['settings']['seed']}" if run["settings"]["seed"] else "")


def judged(run: Record) -> list[Record]:
    """The figures of what a run's model puts out."""
    return [metric for metric in run["metrics"] if not metric["name"].startswith(LOOKS)]


def places(record: Record) -> list[str]:
    """Weight on the right place, map by map; of the best head where there are several."""
    heads = ("data", "model", "map", "weight on it", "equal weights", "strongest there", "alignment errors")
    rows = []
    for run in record.values():
        found = {metric["name"]: metric for metric in run["metrics"]}
        for name in found:
            what, _, where = name.partition(", ")
            if what != WEIGHT or f"{name}, best head" in found:
                continue
            described = [f"{kind}, {where}" for kind in (STRONGEST, ERRORS)]
            even = run["model"].endswith("-uniform")  # no key is the strongest
            values = [percent(found[each]["value"]) if each in found and not even else "" for each in described]
            cells = (run["data"]["name"], called(run), where, percent(found[name]["value"]))
            rows.append((*cells, percent(found[name]["baseline"]), *values))
    return written(heads, rows)


def heads(record: Record) -> list[str]:
    """Head by head, how spread the weights are and how much of them lies on neighbours and on the right place; nothing
    where no run has told.
    """
    shown = ("before", "at", "after", "right")
    rows = []
    compared = {other for others in ABLATIONS.values() for other in others}
    for run in record.values():
        if run["model"] in compared or run["model"].rpartition("-")[2] in CONTROLS:
            continue
        for head in run.get("heads", ()):
            cells = (run["data"]["name"], called(run), head["map"], str(head["head"]), f"{head['bits']:.2f}")
            shares = (percent(head[each]) if each in head else "" for each in shown)
            rows.append((*cells, *shares))
    titles = ("data", "model", "map", "head", "entropy, bits", "before", "at", "after", "right place")
    return written(titles, rows) if rows else []


def beams(record: Record) -> list[str]:
    """Figures of beam search, asked for through a server; empty where there was none."""
    heads = ("data", "model", "beams", "BLEU", "exact", "seconds for all")
    rows = [
        (
            *(run["data"]["name"], called(run), str(each["beams"])),
            *(f"{each['bleu']:.1f}", percent(each["exact match"]), f"{each['seconds']:.1f}"),
        )
        for run in record.values()
        for each in run.get("beams", ())
    ]
    return written(heads, rows) if rows else []


def besides(record: Record) -> list[str]:
    """Models beside their controls and ablations: means over the seeds that all have, and differences by pairs."""
    heads = ("data", "figure", "model", "beside", "model's", "other's", "difference (95 %)", "seeds")
    rows = [
        (each.data, each.figure, title(base), title(other), *each.cells)
        for base in TITLES
        for other in (*(f"{base}-{control}" for control in CONTROLS), *ABLATIONS.get(base, ()))
        for each in differences(record, base, other)
    ]
    return written(heads, rows)


def unfinished(run: Record) -> str:
    """Say where a run had not come to its end."""
    return "" if run["finished"] else " — stopped before its last epoch; `--resume` goes on"
