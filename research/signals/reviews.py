"""Movie reviews as token ids, read from the data folder; nothing of them is written anywhere."""

import gzip
import json
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from limelight_bundle.text import Encoder
from limelight_models.catalogue.testbed.text import Texts
from limelight_models.data import tokenizers

VOCABULARY = 8000
MOVIE_SENTENCES, MOVIE_WORDS = 20, 32  # longer documents and sentences are cut


@dataclass(frozen=True)
class Part:
    """Reviews of one part: ids [sentence, word], classes, and the documents (to find the rationales)."""

    rows: list[np.ndarray]
    labels: np.ndarray
    documents: list[dict[str, Any]]


@dataclass(frozen=True)
class Reviews:
    """Texts (tokenizer, classes), what is learned from, what is held out."""

    texts: Texts
    train: Part
    held_out: Part


def folder() -> Path:
    """The folder of the data sets. Raises: FileNotFoundError saying how to name it."""
    path = Path(os.environ.get("LIMELIGHT_DATA", Path(__file__).parents[3] / "shared" / "data"))
    if not path.is_dir():
        raise FileNotFoundError(f"{path} is no folder: set LIMELIGHT_DATA to the data sets")
    return path


@cache
def load() -> Reviews:
    """movie_reviews: train; dev and test held out together; marks of rationales_movies."""
    train = _jsonl("movie_reviews", "train")
    held_out = _jsonl("movie_reviews", "dev") + _jsonl("movie_reviews", "test")
    evidence = {each["id"]: each["evidence"] for part in ("dev", "test") for each in _jsonl("rationales_movies", part)}
    for each in held_out:
        each["evidence"] = evidence.get(each["id"], [])
    corpus = [sentence for each in train for sentence in each["sentences"]]
    labels = tuple(sorted({str(each["label"]) for each in train}))
    texts = Texts(tokenizer=tokenizers.words(corpus, vocabulary=VOCABULARY), labels=labels)
    encoder = Encoder(texts.tokenizer, maximum=MOVIE_WORDS)
    return Reviews(texts, _part(train, encoder, texts), _part(held_out, encoder, texts))


def _part(examples: list[dict[str, Any]], encoder: Encoder, texts: Texts) -> Part:
    rows = []
    for each in examples:
        encoded = [one.ids for one in encoder.encode(each["sentences"][:MOVIE_SENTENCES]) if one.ids]
        ids = np.zeros((len(encoded), max(map(len, encoded))), dtype=np.int64)
        for place, tokens in zip(ids, encoded, strict=True):
            place[: len(tokens)] = tokens
        rows.append(ids)
    return Part(rows, np.array([texts.labels.index(str(each["label"])) for each in examples]), examples)


def _jsonl(name: str, part: str) -> list[dict[str, Any]]:
    plain = folder() / name / f"{part}.jsonl"
    with plain.open(encoding="utf-8") if plain.exists() else gzip.open(f"{plain}.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def tensors(part: Part, index: np.ndarray) -> dict[str, Tensor]:
    """One batch: `token_ids` padded to the largest review [batch, sentence, word], and `token_mask`."""
    arrays = [part.rows[i] for i in index]
    ids = np.zeros((len(arrays), *(max(array.shape[axis] for array in arrays) for axis in range(2))), dtype=np.int64)
    for place, array in zip(ids, arrays, strict=True):
        place[: array.shape[0], : array.shape[1]] = array
    return {"token_ids": torch.from_numpy(ids), "token_mask": torch.from_numpy(ids != 0)}
