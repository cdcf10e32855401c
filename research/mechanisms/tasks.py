"""The tasks of the study: their questions, readers and budgets."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from limelight_models.data import dates, folder, recall, rows, stories, transductions
from limelight_models.data.dataset import Dataset
from research.mechanisms import reading
from research.mechanisms.data import TaskData

TRAINING, HELD_OUT = 8_000, 1_000
LETTERS = (4, 10)  # of words that are rewritten; up to twice as many in longer ones
FEWER = {"expand": (3, 7)}  # where more is written than read
SEED = 0  # of the data; the seeds of a run are those of weights and of the order of examples


@dataclass(frozen=True, kw_only=True)
class Task:
    """A task, and what a run of it may cost.

    form: of the model (see `lines`). steps: at most; every: steps between two looks at the dev part; rates: those that
    are tried. plain: the mechanism whose controls all others are compared with. folder: a set of the data folder that
    it needs; "" where it is generated. training: the examples that it is learned from. further: the same task in longer
    texts, by name. drawn: whether the entropy of its weights over training is kept and drawn.
    """

    name: str
    title: str
    form: str
    load: Callable[[], TaskData]
    plain: str
    steps: int
    every: int
    batch: int = 64
    seeds: int = 5
    rates: tuple[float, ...] = (2e-3, 5e-3, 1.2e-2)
    folder: str = ""
    training: int = TRAINING
    further: tuple[str, ...] = ()
    drawn: bool = False


class Folder:
    """The folder of the data sets: `--data`, LIMELIGHT_DATA, or ../shared/data."""

    path = Path(os.environ.get("LIMELIGHT_DATA", Path(__file__).parents[3] / "shared" / "data"))


def present(task: Task) -> bool:
    """Whether what the task is learned from is here."""
    return not task.folder or (Folder.path / task.folder).exists()


@cache
def load(name: str) -> TaskData:
    """A task's data, read or made once."""
    return TASKS[name].load()


def _rewritten(rule: str) -> TaskData:
    lengths = FEWER.get(rule, LETTERS)
    make = partial(transductions.dataset, rule, seed=SEED, training=TRAINING, held_out=HELD_OUT, lengths=lengths)
    return reading.written(make(), longer=make(longer=True), words=False)


def _dates() -> TaskData:
    return reading.written(dates.dataset(seed=SEED, training=TRAINING, held_out=HELD_OUT), words=False)


def _recall(form: str, read: Callable[..., TaskData], tokens: int, training: int = TRAINING) -> TaskData:
    make = partial(recall.dataset, form, seed=SEED, training=training, held_out=HELD_OUT, tokens=tokens)
    return read(make(), longer=make(longer=2 * tokens))


def _files(name: str, kind: folder.Kind, fields: Sequence[str]) -> TaskData:
    dataset: Dataset = folder.load(Folder.path / name, kind)
    return reading.classified(dataset, fields=fields)


def _stories(file: str) -> TaskData:
    return reading.told(stories.dataset(Folder.path / "babi" / f"{file}_train.txt", seed=SEED))


_LIST = (
    Task(
        name="recall", title="Recall: the value that stood behind a key, 64 tokens", form="asking",
        load=partial(_recall, "recall", reading.asked, 64),
        plain="scaled multiplicative", steps=1500, every=100, further=("recall-256", "recall-1024"),
        drawn=True,
    ),
    Task(
        name="snli", title="Inference between two sentences (SNLI)", form="pair", folder="snli_small",
        load=partial(_files, "snli_small", rows.TEXT_PAIRS, ("pair.first", "pair.second")),
        plain="interactive co-attention", steps=900, every=90, rates=(1e-3, 3e-3, 8e-3), training=9_842,
        drawn=True,
    ),
    Task(
        name="copy", title="Copying a word letter by letter", form="writing", load=partial(_rewritten, "copy"),
        plain="additive", steps=1000, every=100,
    ),
    Task(
        name="reverse", title="Writing a word backwards", form="writing", load=partial(_rewritten, "reverse"),
        plain="additive", steps=1000, every=100,
    ),
    Task(
        name="induction", title="Induction: the word that followed a mark, 64 tokens", form="sentence",
        load=partial(_recall, "induction", reading.classified, 64),
        plain="self-attentive query, left out", steps=800, every=80, seeds=10,
    ),
    Task(
        name="neighbour", title="Induction again, by words that know no neighbours, 32 tokens", form="beside",
        load=partial(_recall, "induction", reading.beside, 32),
        plain="scaled multiplicative", steps=1200, every=100,
    ),
    Task(
        name="expand", title="Letters written as often as they say", form="writing",
        load=partial(_rewritten, "expand"), plain="additive", steps=1000, every=100,
    ),
    Task(
        name="delay", title="Letters written late", form="writing", load=partial(_rewritten, "delay"),
        plain="additive", steps=1000, every=100,
    ),
    Task(
        name="mams", title="What a sentence says of a target in it (MAMS)", form="aspect", folder="mams_atsa",
        load=partial(_files, "mams_atsa", rows.ASPECTS, ("left", "target", "right")),
        plain="rotatory attention", steps=1400, every=140, seeds=10, rates=(1e-3, 3e-3, 8e-3),
        training=11_186,
    ),
    Task(
        name="babi1", title="One supporting fact (bAbI 1)", form="story", folder="babi",
        load=partial(_stories, "en-10k/qa1_single-supporting-fact"),
        plain="multiplicative (dot)", steps=1000, every=100, seeds=10, training=9_000,
    ),
    Task(
        name="babi2", title="Two supporting facts (bAbI 2)", form="story", folder="babi",
        load=partial(_stories, "en-10k/qa2_two-supporting-facts"),
        plain="multi-hop, 3 hops", steps=2000, every=200, seeds=10, training=9_000, drawn=True,
    ),
    Task(
        name="sort", title="Sorting letters", form="writing", load=partial(_rewritten, "sort"),
        plain="additive", steps=1000, every=100, drawn=True,
    ),
    Task(
        name="selective", title="Selective copying: eight words among 56 fillers", form="writing",
        load=partial(_recall, "selective", reading.written, 64),
        plain="additive", steps=700, every=70, batch=32,
    ),
    Task(
        name="sentiment", title="Negative control: sentiment of a sentence", form="sentence", folder="mr_polarity",
        load=partial(_files, "mr_polarity", rows.TEXTS, ("text",)),
        plain="self-attentive query, left out", steps=500, every=50, seeds=10, rates=(1e-3, 3e-3, 8e-3),
        training=8_528, drawn=True,
    ),
    Task(
        name="dates", title="Dates as people write them, rewritten as ISO 8601 writes them", form="writing",
        load=_dates, plain="additive", steps=1400, every=140,
    ),
    Task(
        name="recall-256", title="Recall, 256 tokens", form="asking",
        load=partial(_recall, "recall", reading.asked, 256, 6_000),
        plain="scaled multiplicative", steps=1200, every=100, batch=16, seeds=3, training=6_000,
        further=("recall-1024",),
    ),
    Task(
        name="recall-1024", title="Recall, 1,024 tokens", form="asking",
        load=partial(_recall, "recall", reading.asked, 1024, 3_000),
        plain="scaled multiplicative", steps=500, every=100, batch=8, seeds=3, training=3_000, drawn=True,
    ),
    Task(
        name="babi3", title="Three supporting facts (bAbI 3)", form="story", folder="babi",
        load=partial(_stories, "en/qa3_three-supporting-facts"),
        plain="multi-hop, 3 hops", steps=1000, every=100,
        seeds=3, training=900,
    ),
)  # fmt: skip
TASKS = {task.name: task for task in _LIST}
