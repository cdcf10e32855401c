"""The study's four tasks as token ids, read from the data folder; nothing of it is written anywhere."""

import csv
import gzip
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from bundle.text import Encoder
from models.data import tokenizers
from models.testbed.text import Texts

Row = dict[str, np.ndarray]  # token ids by name, [token] or [sentence, word]

VOCABULARY = 8000
MOVIE_SENTENCES, MOVIE_WORDS = 20, 32  # longer documents and sentences are cut


@dataclass(frozen=True)
class Part:
    """Examples of one part: rows, classes, and for documents their sentences (to find the rationales)."""

    rows: list[Row]
    labels: np.ndarray
    documents: list[dict[str, Any]]


@dataclass(frozen=True)
class TaskData:
    """One task: its texts (tokenizer, classes), what is learned from, what is held out."""

    texts: Texts
    train: Part
    held_out: Part
    source: str


def folder() -> Path:
    """Where the data sets are. Raises: FileNotFoundError saying how to say so."""
    path = Path(os.environ.get("LIMELIGHT_DATA", Path(__file__).parents[3] / "shared" / "data"))
    if not path.is_dir():
        raise FileNotFoundError(f"{path} is no folder: set LIMELIGHT_DATA to the data sets")
    return path


@cache
def load(task: str) -> TaskData:
    """Read a task: sentence, pair, aspect or document."""
    return {"sentence": _sentences, "pair": _pairs, "aspect": _aspects, "document": _documents}[task]()


def _sentences() -> TaskData:
    def read(part: str) -> list[dict[str, Any]]:
        with (folder() / "mr_polarity" / f"{part}.tsv").open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))

    return _task(read("train"), read("test"), {"token_ids": lambda each: each["sentence"]}, "mr_polarity, test part")


def _pairs() -> TaskData:
    fields = {"first_ids": lambda each: each["premise"], "second_ids": lambda each: each["hypothesis"]}
    return _task(_jsonl("snli_small", "train"), _jsonl("snli_small", "dev"), fields, "snli_small, dev part")


def _aspects() -> TaskData:
    # A context may be empty at either end of a sentence; the model needs a token to stand there.
    fields: dict[str, Callable[[dict[str, Any]], str]] = {
        "left_ids": lambda each: each["left"] or ".",
        "target_ids": lambda each: each["target"],
        "right_ids": lambda each: each["right"] or ".",
    }
    return _task(_jsonl("mams_atsa", "train"), _jsonl("mams_atsa", "test"), fields, "mams_atsa, test part")


def _documents() -> TaskData:
    train = _jsonl("movie_reviews", "train")
    held_out = _jsonl("movie_reviews", "dev") + _jsonl("movie_reviews", "test")
    evidence = {each["id"]: each["evidence"] for part in ("dev", "test") for each in _jsonl("rationales_movies", part)}
    for each in held_out:
        each["evidence"] = evidence.get(each["id"], [])
    texts = _texts([sentence for each in train for sentence in each["sentences"]], train)
    encoder = Encoder(texts.tokenizer, maximum=MOVIE_WORDS)
    return TaskData(
        texts,
        _document_part(train, encoder, texts),
        _document_part(held_out, encoder, texts),
        "movie_reviews, dev and test parts; rationales_movies",
    )


def _document_part(examples: list[dict[str, Any]], encoder: Encoder, texts: Texts) -> Part:
    rows = []
    for each in examples:
        encoded = [one.ids for one in encoder.encode(each["sentences"][:MOVIE_SENTENCES]) if one.ids]
        ids = np.zeros((len(encoded), max(map(len, encoded))), dtype=np.int64)
        for place, tokens in zip(ids, encoded, strict=True):
            place[: len(tokens)] = tokens
        rows.append({"token_ids": ids})
    return Part(rows, _classes(examples, texts), examples)


def _jsonl(name: str, part: str) -> list[dict[str, Any]]:
    plain = folder() / name / f"{part}.jsonl"
    with plain.open(encoding="utf-8") if plain.exists() else gzip.open(f"{plain}.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def _task(
    train: list[dict[str, Any]],
    held_out: list[dict[str, Any]],
    fields: dict[str, Callable[[dict[str, Any]], str]],
    source: str,
) -> TaskData:
    texts = _texts([read(each) for each in train for read in fields.values()], train)
    encoder = Encoder(texts.tokenizer, maximum=texts.max_tokens)

    def part(examples: list[dict[str, Any]]) -> Part:
        columns = {
            name: [np.array(one.ids or (1,), dtype=np.int64) for one in encoder.encode([read(e) for e in examples])]
            for name, read in fields.items()
        }
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        return Part(rows, _classes(examples, texts), [])

    return TaskData(texts, part(train), part(held_out), source)


def _texts(corpus: list[str], train: list[dict[str, Any]]) -> Texts:
    labels = tuple(sorted({str(each["label"]) for each in train}))
    return Texts(tokenizer=tokenizers.words(corpus, vocabulary=VOCABULARY), labels=labels)


def _classes(examples: list[dict[str, Any]], texts: Texts) -> np.ndarray:
    return np.array([texts.labels.index(str(each["label"])) for each in examples])


def collate(rows: list[Row]) -> dict[str, np.ndarray]:
    """Pad rows to the longest; every `…ids` gets its `…mask`."""
    batch: dict[str, np.ndarray] = {}
    for name in rows[0]:
        arrays = [row[name] for row in rows]
        shape = [max(array.shape[axis] for array in arrays) for axis in range(arrays[0].ndim)]
        ids = np.zeros((len(rows), *shape), dtype=np.int64)
        for place, array in zip(ids, arrays, strict=True):
            place[tuple(slice(size) for size in array.shape)] = array
        batch[name] = ids
        batch[name.removesuffix("ids") + "mask"] = ids != 0
    return batch


def batches(part: Part, size: int, generator: np.random.Generator | None) -> Iterator[np.ndarray]:
    """Indices of batches of similar lengths: one pass, shuffled by the generator (None: by length)."""
    length = np.array([sum(array.size for array in row.values()) for row in part.rows])
    if generator is None:
        order = length.argsort(kind="stable")
        yield from (order[begin : begin + size] for begin in range(0, len(order), size))
        return
    order = generator.permutation(len(length))
    pool = 16 * size
    chunks = [order[begin : begin + pool] for begin in range(0, len(order), pool)]
    sorted_chunks = [chunk[length[chunk].argsort(kind="stable")] for chunk in chunks]
    found = [chunk[begin : begin + size] for chunk in sorted_chunks for begin in range(0, len(chunk), size)]
    for place in generator.permutation(len(found)):
        yield found[place]
