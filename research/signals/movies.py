"""Movie reviews in which people marked their reasons (Zaidan et al. 2007): signals I1, I2 and I4.

The model is hierarchical attention of the small task models. What is marked says where words and sentences should get
their weight (I1), or which sentences speak for which class (I2).
"""

import json
from collections.abc import Mapping
from functools import cache

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from limelight_bundle.text import Encoder
from limelight_models.attention.levels import Hierarchical
from limelight_models.attention.signals import (
    RationaleAttention,
    distillation_loss,
    gold_cross_entropy,
    rationale_loss,
    transfer,
)
from limelight_models.attention.weights import weights_of
from limelight_models.catalogue.testbed.document import DocumentModel, HierarchicalModel, sentence_map, word_map
from limelight_models.catalogue.testbed.document_forms import pool
from limelight_models.catalogue.testbed.text import Texts
from research.signals.overlap import document_marks, document_weights, overlap
from research.signals.reviews import MOVIE_WORDS, Part, Reviews, folder, load, tensors
from research.signals.training import fit, in_order, seeded

VARIANTS = (
    "unsupervised",
    "supervised attention",
    "distilled",
    "sentences by class alone",
    "preliminary training on rationales",
)
SIGNAL_WEIGHT = 1.0
STEPS, BATCH, RATE = 400, 16, 4e-3


class RationaleModel(DocumentModel):
    """Words make sentences by attention; sentences are weighed by how surely they are somebody's reason (I2)."""

    def __init__(self, texts: Texts) -> None:
        words, sentences = pool(texts), RationaleAttention(d_k=texts.d, classes=len(texts.labels))
        word, sentence = weights_of(words, sentences)
        maps = {"word": word_map(texts, word), "sentence": sentence_map(texts, sentence)}
        super().__init__(texts, maps, d_in=texts.d)
        self.words, self.sentences = words, sentences

    def read(self, words: Tensor, mask: Tensor) -> tuple[Tensor, Mapping[str, Tensor]]:
        sentences, weights = self.sentence_vectors(words, mask)
        vector, chosen = self.sentences(sentences, mask.any(-1))
        return vector, {"word": weights, "sentence": chosen}

    def sentence_vectors(self, words: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """[batch, sentence, d], and the words' weights [batch, head, sentence, word]."""
        vectors, weights = self.words(words.flatten(0, 1), None, mask.flatten(0, 1))
        return vectors.unflatten(0, words.shape[:2]), weights.squeeze(2).unflatten(0, words.shape[:2]).movedim(2, 1)

    def logits(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Scores of each sentence as neutral, or as a reason for one of the classes [batch, sentence, 1 + class]."""
        ids, mask = batch["token_ids"], batch["token_mask"]
        words = self.features(ids.flatten(0, 1), mask.flatten(0, 1)).unflatten(0, ids.shape[:2])
        return self.sentences.logits(self.sentence_vectors(words, mask)[0])


@cache
def marks() -> list[np.ndarray]:
    """Of every review learned from, which of its tokens are marked [sentence, word]."""
    data = load()
    file = folder() / "rationales_movies" / "train.jsonl"
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    evidence = {each["id"]: each["evidence"] for each in rows}
    encoder = Encoder(data.texts.tokenizer, maximum=MOVIE_WORDS)
    found = []
    for row, document in zip(data.train.rows, data.train.documents, strict=True):
        placed = np.zeros(row.shape, dtype=bool)
        placed[row != 0] = document_marks(encoder, document["sentences"], evidence.get(document["id"], []))
        found.append(placed)
    return found


def gold(index: np.ndarray, mask: Tensor) -> Tensor:
    """Marks of a batch [batch, sentence, word], padded like its mask."""
    together = torch.zeros(mask.shape)
    for place, number in enumerate(index):
        one = torch.from_numpy(marks()[number])
        together[place, : one.shape[0], : one.shape[1]] = one
    return together


def shares(counts: Tensor) -> Tensor:
    """Counts over the last axis as shares; zeros where nothing is counted."""
    return counts / counts.sum(-1, keepdim=True).clamp(min=1)


def run(variant: str, seed: int) -> dict[str, float]:
    """Train one variant; accuracy, and how its weights agree with what people marked."""
    data = load()
    seeded(seed)
    if variant in ("sentences by class alone", "preliminary training on rationales"):
        model = by_rationales(data, preliminary=variant.startswith("preliminary"))
    else:
        teacher = None
        if variant == "distilled":
            teacher = hierarchical(data, supervised=True).requires_grad_(False)
            seeded(seed)
        model = hierarchical(data, supervised=variant == "supervised attention", teacher=teacher)
    return measure(model, data)


def hierarchical(data: Reviews, *, supervised: bool, teacher: DocumentModel | None = None) -> DocumentModel:
    """Hierarchical attention that learned from classes, and from marks or a teacher's weights where told so."""
    model = HierarchicalModel(data.texts, Hierarchical(word=pool(data.texts), sentence=pool(data.texts)))

    def loss(index: np.ndarray) -> Tensor:
        batch = tensors(data.train, index)
        answer = model(**batch)
        classified = cross_entropy(answer.outputs["logits"], labels(data.train, index))
        if supervised:
            marked = gold(index, batch["token_mask"])
            wanted = {"word": shares(marked)[:, None], "sentence": shares(marked.sum(-1))[:, None, None]}
            told = sum(gold_cross_entropy(answer.maps[name], wanted[name]) for name in wanted)
            classified = classified + SIGNAL_WEIGHT * told
        if teacher is not None:
            theirs = teacher(**batch).maps
            sentences = batch["token_mask"].any(-1)[:, None]  # rows of word weights that are of a sentence
            classified = classified + SIGNAL_WEIGHT * (
                distillation_loss(answer.maps["word"], theirs["word"], sentences)
                + distillation_loss(answer.maps["sentence"], theirs["sentence"])
            )
        return classified

    fit(model, loss, count=len(data.train.rows), steps=STEPS, batch=BATCH, rate=RATE)
    return model


def by_rationales(data: Reviews, *, preliminary: bool) -> DocumentModel:
    """Sentences weighed as reasons; with preliminary training from what is marked, which is then kept as it is."""
    model = RationaleModel(data.texts)
    count = len(data.train.rows)

    def judged(index: np.ndarray) -> Tensor:
        batch = tensors(data.train, index)
        reason = gold(index, batch["token_mask"]).any(-1)
        kind = torch.where(reason, labels(data.train, index)[:, None] + 1, 0)
        return rationale_loss(model.logits(batch), kind, batch["token_mask"].any(-1))

    def classified(index: np.ndarray) -> Tensor:
        return cross_entropy(model(**tensors(data.train, index)).outputs["logits"], labels(data.train, index))

    if preliminary:
        fit(model, judged, count=count, steps=STEPS, batch=BATCH, rate=RATE)
        learned = model.sentences
        model.sentences = RationaleAttention(d_k=data.texts.d, classes=len(data.texts.labels))
        transfer(learned, model.sentences)
        # What it judges stays what it learned to judge.
        model.features.requires_grad_(False)
        model.words.requires_grad_(False)
    fit(model, classified, count=count, steps=STEPS, batch=BATCH, rate=RATE)
    return model


def labels(part: Part, index: np.ndarray) -> Tensor:
    """Classes of a batch."""
    return torch.from_numpy(part.labels[index])


def measure(model: DocumentModel, data: Reviews) -> dict[str, float]:
    """Accuracy and agreement with the marks on what is held out."""
    right, weights = 0, {}
    with torch.no_grad():
        for index in in_order(len(data.held_out.rows), BATCH):
            batch = tensors(data.held_out, index)
            answer = model(**batch)
            right += int((answer.outputs["logits"].argmax(-1) == labels(data.held_out, index)).sum())
            maps = {name: found.numpy() for name, found in answer.maps.items()}
            weights |= dict(zip(index.tolist(), document_weights(maps, batch["token_mask"].numpy()), strict=True))
    agreement = overlap(data, weights)
    return {
        "accuracy": right / len(data.held_out.rows),
        "weight on marked words": agreement.correctness,
        "AUPRC against the marks": agreement.precision,
        "held_out": len(data.held_out.rows),
    }
