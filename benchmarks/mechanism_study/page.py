"""`docs/mechanisms.md`, written from the results."""

from collections.abc import Iterator, Sequence
from statistics import fmean

from benchmarks.mechanism_study.configurations import Configuration
from benchmarks.mechanism_study.results import Results
from benchmarks.mechanism_study.summary import REFERENCE, Line, lines, smallest_difference
from benchmarks.mechanism_study.training import SCHEDULES

TITLES = {
    "sentence": "Sentence sentiment (mr_polarity)",
    "pair": "Natural language inference (snli_small)",
    "aspect": "Aspect sentiment (mams_atsa)",
    "document": "Movie reviews (movie_reviews, rationales_movies)",
}
GROUPS = (
    "reference",
    "general",
    "features",
    "levels",
    "representations",
    "score",
    "alignment",
    "dimensionality",
    "queries",
)
HEADER = """# Every mechanism on equal terms

Written by `python -m benchmarks.mechanisms` from `benchmarks/results/mechanisms.jsonl`. Do not edit.

The same small task model (`models/testbed/*.py`: 32 features, a word with its two neighbours, nothing else that
looks further) is trained with one mechanism after the other: same data, same number of steps, same rate, seeds 0, 1
and 2. Nothing was tuned for any mechanism, and training is short (one to four passes over the data, seconds of one
core): the tables say how mechanisms compare in a small model that is trained briefly, not what the best of each could
be.

- **accuracy**: on held-out data, mean ± standard deviation over seeds. Beside each table stands the smallest difference
  of two of its lines that this study could find: the one that a test at 5 % shows four times out of five, given the
  spread over seeds and the size of the held-out part. Smaller differences say nothing, and where a table has many lines
  some larger ones arise by chance as well: the test is not corrected for their number.
- **parameters**: all but the embedding and the convolution, which are the same everywhere.
- **training**: processor seconds of one thread; the machine was shared and noisy: only large differences mean anything.
- **latency**: ONNX Runtime, exported graph with its maps, one instance of typical length (sentence 20 words; pair 14
  and 8; aspect 12, 2 and 12; document 20 × 24), one thread, median of 200, shared machine.
- **entropy**: of the weights, divided by the logarithm of the number of keys, held-out mean: 1 is the plain average, 0
  is one word. Weights that are signed or do not sum to 1 are taken by their size and divided by their sum. "none": no
  weights at all, from an alignment that never stops anywhere.
"""
DOCUMENTS = """
For documents, how the words' weights agree with the phrases that people marked as reasons (word weight × sentence
weight; the part of a review that the model reads: 20 sentences of up to 32 tokens):

- **on marked**: the share of all weight that is on marked words (attention correctness, N4), mean over documents;
  **× share**: that, divided by the share of words that are marked, which equal weights for all words would reach: 1 is
  no agreement.
- **AUPRC**: area under the precision-recall curve of the weights against the marks; a random order reaches the share of
  marked words, {marked:.3f}. **rank**: Spearman correlation of weights and marks (N5).

Averaging twice is not one equal weight a word: words of short sentences get more, and that alone is the agreement of
the unweighted line with two levels. Equal weights order nothing: their correlation is 0 by convention.
"""


def page(configurations: Sequence[Configuration], results: Results) -> str:
    """The whole page."""
    found = lines(configurations, results)
    return HEADER + "".join(part for task in TITLES for part in _section(task, configurations, found, results))


def _section(
    task: str, configurations: Sequence[Configuration], found: dict[str, Line], results: Results
) -> Iterator[str]:
    mine = [each for each in configurations if each.task == task]
    present = [found[each.key] for each in mine if each.key in found]
    reference = found.get(REFERENCE[task])
    if reference is None:
        return
    plan = SCHEDULES[task]
    yield f"\n## {TITLES[task]}\n\n{plan.steps} steps of {plan.batch}, Adam at {plan.rate}; "
    yield f"{reference.held_out:,} held out. Smallest difference that could be found between two lines:"
    yield f" {100 * smallest_difference(present):.1f} points.\n\n{_reading(present, reference)}\n"
    if task == "document":
        yield DOCUMENTS.format(marked=reference.overlap["marked"])
    yield "\n" + _head(task)
    for group in GROUPS:
        for each in present:
            if each.configuration.group == group:
                yield _row(each)
    refused = [each for each in mine if results.known("refused", each.key)]
    if refused:
        yield "\nNot possible:\n\n"
    for each in refused:
        reason = next(results.of("refused", each.key))["reason"]
        yield f"- {each.name}: {reason}\n"


def _head(task: str) -> str:
    names = ["column", "mechanism", "accuracy", "parameters", "training, s", "latency, ms", "entropy"]
    names += ["on marked", "× share", "AUPRC", "rank"] if task == "document" else []
    return f"| {' | '.join(names)} |\n|{'---|' * len(names)}\n"


def _row(each: Line) -> str:
    cells = [
        each.configuration.group,
        _name(each.configuration),
        f"{100 * each.accuracy:.1f} ± {100 * each.deviation:.1f}",
        f"{each.parameters:,}",
        f"{each.seconds:.1f}",
        "" if each.latency is None else f"{each.latency:.3f}",
        "none" if each.entropy is None else f"{each.entropy:.2f}",
    ]
    if each.overlap:
        correctness, marked = each.overlap["correctness"], each.overlap["marked"]
        cells += [f"{correctness:.3f}", f"{correctness / marked:.2f}"]
        cells += [f"{each.overlap['precision']:.3f}", f"{each.overlap['correlation']:.3f}"]
    return f"| {' | '.join(cells)} |\n"


def _name(configuration: Configuration) -> str:
    if not configuration.same_as:
        return configuration.name
    return f"{configuration.name} (= {configuration.same_as.rsplit(' / ', 1)[1]})"


def _reading(present: Sequence[Line], reference: Line) -> str:
    """What the numbers say, in sentences that follow from them."""
    others = [each for each in present if each.configuration.group != "reference" and not each.configuration.same_as]
    best, worst = (choose(others, key=lambda each: each.accuracy) for choose in (max, min))
    said = [
        f"The unweighted average reaches {100 * reference.accuracy:.1f} %; the {len(others)} lines with attention"
        f" {100 * fmean(each.accuracy for each in others):.1f} % on average, from {100 * worst.accuracy:.1f} %"
        f" ({worst.configuration.name}) to {100 * best.accuracy:.1f} % ({best.configuration.name})."
    ]
    flat = [each for each in others if each.entropy is not None and each.entropy > 0.99]
    said.append(f"{len(flat)} of {len(others)} hardly left the plain average (entropy above 0.99).")
    return " ".join(said)
