"""Writes docs/results.md from what was measured; every number on the page comes from the record."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

Record = Mapping[str, Any]

TITLES = {
    "han": "hierarchical attention",
    "han-mean": "the same encoders, plain averages",
    "bahdanau": "RNNsearch",
    "bahdanau-last": "the same decoder, last states only",
    "gat": "graph attention",
    "gat-mean": "the same network, plain averages",
    "vit": "Vision Transformer",
    "cct": "compact convolutional Transformer",
    "cct-supervised": "the same, taught where the digit is",
    "han-code": "hierarchical attention over lines of code",
    "han-code-supervised": "the same, taught where the slip is",
    "rnn-capsule": "RNN-Capsule",
    "rnn-capsule-probability": "the same without reconstruction in the loss",
    "dme": "dynamic meta-embeddings",
    "dme-contextualised": "the same, contextualised",
    "dme-neighbours": "embeddings counted from neighbours alone",
    "dme-spelling": "embeddings counted from spelling alone",
    "dme-learned": "learned embeddings alone",
    "luong": "global attention with input feeding, general score",
    "luong-dot": "the same, dot score",
    "luong-concat": "the same, concat score",
    "luong-location": "the same, location-based score",
    "luong-local-m": "the same in a window around the output's place",
    "luong-local-p": "the same in a window around a predicted place",
    "luong-unfed": "the same without input feeding",
    "transformer": "Transformer",
    "mme": "hierarchical meta-embeddings",
    "mme-words": "several embeddings of words alone",
    "mme-characters": "characters alone",
    "mme-neighbours": "embeddings of words from neighbours alone",
    "mme-spelling": "embeddings of words from spelling alone",
    "mme-learned": "learned embeddings of words alone",
    "disan": "directional self-attention",
    "lcr-rot-hop": "LCR-Rot-hop, three hops",
    "lcr-rot-hop-one": "one hop (LCR-Rot)",
    "rban": "reinforced bidirectional attention, two samplers",
    "rban-soft": "the same, soft attention over all words",
    "hatn": "hierarchical attention transfer",
    "hatn-source": "the same, from the labelled domain alone",
    "hatn-pnet": "its P-net alone",
    "disan-bilstm": "a bidirectional LSTM of about the same size, averaged",
    "show-attend-tell": "show, attend and tell",
    "show-attend-tell-hard": "the same with hard attention",
    "show-attend-tell-free": "the same without the doubly stochastic penalty",
    "show-attend-tell-supervised": "the same, taught where the digit is",
    "attention-unet": "attention U-Net",
    "attention-unet-features": "the same with a coefficient for each feature",
    "sagan": "SAGAN",
    "sagan-plain": "the same without attention",
    "hiecoatt": "hierarchical co-attention",
    "hiecoatt-alternating": "the same, alternating",
    "hiecoatt-question": "the same, question attention alone",
    "hiecoatt-image": "the same, image attention alone",
    "mcan": "MCAN, two layers",
    "mcan-one": "MCAN, one layer",
    "mcan-four": "MCAN, four layers",
    "mcan-stacked": "MCAN, two layers, stacked",
    "psac": "positional self-attention with co-attention",
    "psac-question": "the same, question attention alone",
    "psac-video": "the same, video attention alone",
}
# What a model is compared with, where more than attention is left out, and what every model's controls are called.
ABLATIONS = {
    "rnn-capsule": ("rnn-capsule-probability",),
    "dme": ("dme-neighbours", "dme-spelling", "dme-learned", "dme-contextualised"),
    "disan": ("disan-bilstm",),
    "luong": tuple(f"luong-{other}" for other in ("dot", "concat", "location", "local-m", "local-p", "unfed")),
    "mme": tuple(f"mme-{other}" for other in ("words", "characters", "neighbours", "spelling", "learned")),
    "show-attend-tell": ("show-attend-tell-hard", "show-attend-tell-free", "show-attend-tell-supervised"),
    "han-code": ("han-code-supervised",),
    "cct": ("cct-supervised",),
    "attention-unet": ("attention-unet-features",),
    "sagan": ("sagan-plain",),
    "hiecoatt": ("hiecoatt-alternating", "hiecoatt-question", "hiecoatt-image"),
    "mcan": ("mcan-one", "mcan-four", "mcan-stacked"),
    "psac": ("psac-question", "psac-video"),
    "lcr-rot-hop": ("lcr-rot-hop-one",),
    "hatn": ("hatn-source", "hatn-pnet"),
    "rban": ("rban-soft",),
}
# Figures of where a model looks, which have a table of their own.
LOOKS = WEIGHT, STRONGEST, ERRORS = "weight on the right place", "strongest on the right place", "alignment error rate"
# The figure that a model's paper claims something of, where it is not the first.
CLAIMED = {
    "show-attend-tell": "weight on the right place, decoder.cross",
    "attention-unet": "intersection over union, small objects",
    "sagan": "Fréchet distance",
}
POINTS = ("bleu", "Fréchet distance")  # no shares
MEANS = ("weight on", "strongest on", "intersection over", "alignment error")  # no counts of held-out examples
CONTROLS = {"uniform": "uniform weights", "frozen": "frozen random attention"}
# Quantiles of Student's t at 97.5 % with 1, 2, … degrees of freedom.
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
HEAD = """# Results

What the models of the zoo reach on held-out data, beside what is reached without their attention. Written by
`python benchmarks/results.py write` from `benchmarks/results/training.json`; the commands are below.
"""
READING = """
## How to read this

- Differences within an interval say nothing. Intervals are Wilson's, 95 %, for the number
  of held-out examples alone: what another seed or another split would change comes on top.
- Training ends by the dev loss or at the stated number of epochs; the weights with the lowest dev loss are judged.
- The families and settings of the documents were chosen with figures of seed 0 in sight, its held-out part among them;
  the rows with other seeds hold out other modules, and were run once, with everything decided. Settings of the other
  rows were changed once or twice, to cost less or to start better, after earlier runs whose held-out figures were seen.
- *Baseline* for classes is to answer the training part's most frequent class always.
- Documents of the standard library are held out by whole modules; modules of one package can be on both sides. The
  families are those chapters of the library reference that have enough modules: with all chapters the task is harder.
- Dates: no date is in two parts, ways of writing are. Digits: writers are in all parts.
- *Exact* is the share of greedy outputs that are right to the last character, *tokens* the share of tokens that are
  right when the target is forced. BLEU is sacrebleu's corpus BLEU with its defaults, on detokenised text, greedy.
- Models and data are small and trained for minutes on one core: the figures show that the parts work, and are not to be
  compared with published ones. Cora is the exception: the public split (140, 500 and 1,000 nodes) and the sizes and
  settings of Veličković et al. (2018), but for a learning rate that rises and falls; they report 83.0 ± 0.7 % over 100
  runs. How long and how high was decided after a few runs of seeds 0 to 2, whose held-out figures were seen.
- *Told apart*: of pairs of targets in one sentence that have different classes, the share of which both are right.
  Whoever reads the sentence and not the target has none.
- mr_polarity+mams_atsa: film reviews with classes and restaurant sentences without; held out are restaurant sentences
  whose targets agree but for neutral ones. Epochs are chosen by the films: nothing is known of restaurants.
- Nodes of made-up citations are held out by whole graphs; a quarter of the nodes say nothing and are cited by all.
- Controls: *uniform weights* is the same network with the same weight for every key; *frozen random attention* keeps
  the parameters that decide weights as they were drawn, and everything else learns. A difference is that of two runs
  with the same seed, its interval Student's over the seeds: with three it is wide, and where it holds 0 nothing was
  shown.
- *Weight on it*: the share of a map's weight on the places that are right, which the task knows, and what equal weights
  have there; *strongest there*: how often the largest weight of a query is. Alignment errors are the error rate of Och
  and Ney (2003), on 447 sentences of another kind of text (parliament), each word linked to the one with most weight.
- *Taught where*: the share of weight on the right places is part of what is learned (Liu et al. 2017), so that it says
  what can be taught, and not what is found by itself.
- Heads: the entropy of their weights; weight on the key before the query's own place, at it and after it (in a
  decoder's map of itself, the place is that of the token that went in last); on 200 held-out examples.
- Entities are right where both ends and the kind are (F1, precision, recall over all of them).
- Time is what training took on a shared machine at low priority: an upper bound.
"""


def page(record: Record) -> str:
    """The whole page."""
    plain = " --data ../"
    builtin = {name: run for name, run in record.items() if plain not in run["command"]}
    others = {name: run for name, run in record.items() if name not in builtin}
    parts = [HEAD, "\n## Data that need no download\n", *table(builtin.values())]
    if others:
        parts += ["\n## Plain files\n", *table(others.values())]
    parts += ["\n## With attention and without\n\n", *comparisons(record)]
    parts += ["\n## Beside controls and ablations of equal size\n", *claims(record)]
    parts += ["\n## Where they look, where that is known\n", *places(record)]
    if found := heads(record):
        parts += ["\n## What heads do\n", *found]
    parts += [READING, "\n## Commands\n\n"]
    parts += ["`python benchmarks/results.py train` runs these, one after another:\n\n"]
    parts += [f"- `{run['command']}`{unfinished(run)}\n" for run in record.values()]
    return "".join(parts)


def table(runs: Iterable[Record]) -> list[str]:
    """One row a run."""
    heads = ("data", "model", "parameters", "train / held out", "epochs", "minutes", "held out", "baseline")
    rows = ["\n| " + " | ".join(heads) + " |\n", "|" + "---|" * len(heads) + "\n"]
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
        rows.append("| " + " | ".join(cells) + " |\n")
    return rows


def called(run: Record) -> str:
    """A run's model, and its seed where that is not 0."""
    return title(run["model"]) + (f", seed {run['settings']['seed']}" if run["settings"]["seed"] else "")


def judged(run: Record) -> list[Record]:
    """The figures of what a run's model puts out."""
    return [metric for metric in run["metrics"] if not metric["name"].startswith(LOOKS)]


def places(record: Record) -> list[str]:
    """How much weight lies on the right place, map by map; of the best head where there are several."""
    rows = ["\n| data | model | map | weight on it | equal weights | strongest there | alignment errors |\n"]
    rows += ["|" + "---|" * 7 + "\n"]
    for run in record.values():
        found = {metric["name"]: metric for metric in run["metrics"]}
        for name in found:
            what, _, where = name.partition(", ")
            if what != WEIGHT or f"{name}, best head" in found:
                continue
            described = [f"{kind}, {where}" for kind in (STRONGEST, ERRORS)]
            values = [percent(found[each]["value"]) if each in found else "" for each in described]
            cells = (run["data"]["name"], called(run), where, percent(found[name]["value"]))
            rows.append("| " + " | ".join((*cells, percent(found[name]["baseline"]), *values)) + " |\n")
    return rows


def heads(record: Record) -> list[str]:
    """Head by head, how spread the weights are and how much of them lies on neighbours and on the right place; nothing
    where no run has told.
    """
    shown = ("before", "at", "after", "right")
    rows: list[str] = []
    compared = {other for others in ABLATIONS.values() for other in others}
    for run in record.values():
        if run["model"] in compared or run["model"].rpartition("-")[2] in CONTROLS:
            continue
        for head in run.get("heads", ()):
            cells = (run["data"]["name"], called(run), head["map"], str(head["head"]), f"{head['bits']:.2f}")
            shares = (percent(head[each]) if each in head else "" for each in shown)
            rows.append("| " + " | ".join((*cells, *shares)) + " |\n")
    titles = [
        "\n| data | model | map | head | entropy, bits | before | at | after | right place |\n",
        "|" + "---|" * 9 + "\n",
    ]
    return [*titles, *rows] if rows else []


def title(model: str) -> str:
    """What a model is called on the page; a control after the model that it is of."""
    base, _, control = model.rpartition("-")
    return f"{TITLES[base]}, {CONTROLS[control]}" if control in CONTROLS else TITLES[model]


def claims(record: Record) -> list[str]:
    """Models beside their controls and ablations: means over the seeds that all have, and differences by pairs."""
    rows = [
        "\n| data | figure | model | beside | seeds | model | other | difference (95 %) |\n",
        "|" + "---|" * 8 + "\n",
    ]
    for base in TITLES:
        for other in (*(f"{base}-{control}" for control in CONTROLS), *ABLATIONS.get(base, ())):
            for (data, name), values in sorted(paired(record, base, other).items()):
                ours, theirs = (sum(column) / len(values) for column in zip(*values, strict=True))
                cells = (data, name, title(base), title(other), str(len(values)), f"{ours:.1f}", f"{theirs:.1f}")
                rows.append("| " + " | ".join((*cells, difference([a - b for a, b in values]))) + " |\n")
    return rows


def paired(record: Record, base: str, other: str) -> dict[tuple[str, str], list[tuple[float, float]]]:
    """The claimed figure of two models, in %, for each seed that both have, by data and the figure's name."""
    found: dict[str, dict[tuple[str, str, int], float]] = {base: {}, other: {}}
    for run in record.values():
        if run["model"] in found:
            metric = claimed(base, run["metrics"])
            value = metric.get("value", 0.0) * (1 if metric["name"] in POINTS else 100)
            found[run["model"]][run["data"]["name"], metric["name"], run["settings"]["seed"]] = value
    values: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for (data, name, seed), figure_ in found[base].items():
        if (data, name, seed) in found[other]:
            values.setdefault((data, name), []).append((figure_, found[other][data, name, seed]))
    return values


def claimed(base: str, metrics: list[dict[str, Any]]) -> dict[str, Any]:
    """The figure by which a model is compared: the first, unless its paper claims something of another."""
    return next((each for each in metrics if each["name"] == CLAIMED.get(base)), metrics[0])


def difference(values: list[float]) -> str:
    """The mean of differences, with Student's interval over the seeds; what one seed says, it says alone."""
    mean = sum(values) / len(values)
    if len(values) < 2:
        return f"{mean:+.1f} (one seed)"
    deviation = math.sqrt(sum((each - mean) ** 2 for each in values) / (len(values) - 1))
    spread = STUDENT[min(len(values), len(STUDENT) + 1) - 2] * deviation / math.sqrt(len(values))
    return f"{mean:+.1f} ({mean - spread:+.1f} to {mean + spread:+.1f})"


def comparisons(record: Record) -> list[str]:
    """For each data set and seed, the model beside its variant without attention; means where there are more seeds."""
    pairs: dict[str, list[tuple[float, float]]] = {}
    for run in record.values():
        plain = {"han": "han-mean", "bahdanau": "bahdanau-last", "gat": "gat-mean"}.get(run["model"])
        for other in record.values():
            same_data = other["data"]["fingerprint"] == run["data"]["fingerprint"]
            if other["model"] == plain and same_data and other["settings"]["seed"] == run["settings"]["seed"]:
                for ours, theirs in zip(run["metrics"], other["metrics"], strict=True):
                    share = 1 if ours["name"] == "bleu" else 100
                    values = share * ours.get("value", 0.0), share * theirs.get("value", 0.0)
                    pairs.setdefault(f"{run['data']['name']}, {ours['name']}", []).append(values)
    lines = []
    for name, values in pairs.items():
        with_, without = (", ".join(f"{value:.1f}" for value in column) for column in zip(*values, strict=True))
        means = [sum(column) / len(values) for column in zip(*values, strict=True)]
        mean = f" (means {means[0]:.1f} and {means[1]:.1f})" if len(values) > 1 else ""
        lines.append(f"- {name}: {with_} with attention, {without} without{mean}\n")
    return lines


def figure(metric: Mapping[str, Any], count: int) -> str:
    """A figure, with an interval where it is a share of the held-out examples."""
    value = metric.get("value", 0.0)
    if metric["name"] == "bleu":
        return f"BLEU {value:.1f}"
    if metric["name"] == "token accuracy":
        return f"tokens {percent(value)}"
    if metric["name"].startswith("entity"):
        return f"{metric['name'].removeprefix('entity ')} {percent(value)}"
    if metric["name"] in POINTS or metric["name"].startswith(MEANS):
        return f"{metric['name']} {shown(metric, value)}"
    if metric["name"] == "told apart":
        return f"told apart {percent(value)}"
    low, high = wilson(value, count)
    name = "exact" if metric["name"] == "exact match" else metric["name"]
    return f"{name} {percent(value)} ({100 * low:.1f}–{100 * high:.1f})"


def shown(metric: Mapping[str, Any], value: float) -> str:
    """A value of a figure: a share as a percentage."""
    return f"{value:.1f}" if metric["name"] in POINTS else percent(value)


def percent(value: float) -> str:
    """A share as a percentage."""
    return f"{100 * value:.1f} %"


def wilson(share: float, count: int, z: float = 1.96) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson 1927)."""
    middle = share + z * z / (2 * count)
    spread = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return tuple((middle + sign * spread) / (1 + z * z / count) for sign in (-1, 1))  # type: ignore[return-value]


def unfinished(run: Record) -> str:
    """Say where a run had not come to its end."""
    return "" if run["finished"] else " — stopped before its last epoch; `--resume` goes on"
