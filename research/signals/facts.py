"""Questions about little stories, whose supporting facts are known (bAbI, Weston et al. 2015): signals I1 and I4.

The model is a memory network (Sukhbaatar et al. 2015): facts and question are sums of their words, attention hops over
the facts, what it found and the question give the answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from limelight_models.attention import Attention
from limelight_models.attention.flat import over_keys
from limelight_models.attention.queries.multi_hop import MultiHop
from limelight_models.attention.score import Dot
from limelight_models.attention.signals import distillation_loss, gold_cross_entropy
from research.signals.reviews import folder
from research.signals.training import fit, in_order, seeded

TASKS = {
    "one supporting fact": ("qa1_single-supporting-fact", 1),
    "two supporting facts": ("qa2_two-supporting-facts", 2),
}
TRAINING = 1_000  # questions: few, so that knowing where to look can help
MOST_FACTS = 40  # the latest
STEPS, BATCH, RATE = 600, 64, 5e-3
SIZE, STUDENT_SIZE = 32, 12
SIGNAL_WEIGHT = 1.0
VARIANTS = ("unsupervised", "supervised attention", "small, alone", "small, distilled")


@dataclass(frozen=True)
class Question:
    """words of each fact, words of the question, the answer, and which facts support it, in order."""

    facts: tuple[tuple[str, ...], ...]
    words: tuple[str, ...]
    answer: str
    support: tuple[int, ...]


def read(text: str) -> list[Question]:
    """Questions of a bAbI file; stories begin where the numbering falls back to 1."""
    found, facts, place_of = [], [], {}
    for line in text.splitlines():
        number, rest = line.split(" ", 1)
        if number == "1":
            facts, place_of = [], {}
        if "\t" not in rest:
            place_of[number] = len(facts)
            facts.append(split(rest))
            continue
        words, answer, support = rest.split("\t")
        dropped = max(0, len(facts) - MOST_FACTS)
        places = [place_of[each] - dropped for each in support.split()]
        found.append(Question(tuple(facts[dropped:]), split(words), answer, tuple(places)))
    return found


def split(text: str) -> tuple[str, ...]:
    """Lower-cased words without the mark at the end."""
    return tuple(text.lower().strip(" .?").split())


@dataclass(frozen=True)
class Part:
    """Questions as tensors: facts [question, fact, word], words [question, word], answers, gold weights by hop."""

    facts: Tensor
    words: Tensor
    answers: Tensor
    gold: Tensor


def tensors(questions: Sequence[Question], vocabulary: dict[str, int], hops: int) -> Part:
    """Pad to the longest; facts that are not among the latest have no gold weight."""
    longest = max(len(fact) for each in questions for fact in (*each.facts, each.words))
    count = max(len(each.facts) for each in questions)
    facts = torch.zeros(len(questions), count, longest, dtype=torch.int64)
    words = torch.zeros(len(questions), longest, dtype=torch.int64)
    gold = torch.zeros(len(questions), 1, hops, count)
    for row, each in enumerate(questions):
        for place, fact in enumerate(each.facts):
            facts[row, place, : len(fact)] = torch.tensor([vocabulary.get(word, 1) for word in fact])
        words[row, : len(each.words)] = torch.tensor([vocabulary.get(word, 1) for word in each.words])
        for hop, place in enumerate(each.support[:hops]):
            if place >= 0:
                gold[row, 0, hop, place] = 1
    return Part(facts, words, torch.tensor([vocabulary[each.answer] for each in questions]), gold)


@cache
def load(task: str) -> tuple[Part, Part, int]:
    """Training and test part of a task, and the size of the vocabulary."""
    name, hops = TASKS[task]

    def text(part: str) -> str:
        return Path(folder(), "babi", "en-10k", f"{name}_{part}.txt").read_text(encoding="utf-8")

    train, test = read(text("train"))[:TRAINING], read(text("test"))
    known = sorted({word for each in train for words in (*each.facts, each.words, (each.answer,)) for word in words})
    vocabulary = {word: number + 2 for number, word in enumerate(known)}
    return tensors(train, vocabulary, hops), tensors(test, vocabulary, hops), len(vocabulary) + 2


class Reader(nn.Module):
    """A memory network.

    k_i = Σ_j l_j ⊙ A x_ij + T_i;  v_i likewise with C;  q = Σ_j l_j ⊙ B u_j;  answer = W (q + c of the last hop)
    l are position weights of the words in a sentence, T says how long ago a fact was.

    `hops` reads the facts, one query each story; `most`: facts whose age is told apart.

    Shapes: facts int64 [batch, fact, word], words int64 [batch, word]
        -> scores of the answers [batch, answer], weights [batch, head, hop, fact].
    """

    deciding = ("key", "ask")  # parts whose parameters decide weights

    def __init__(self, *, vocabulary: int, answers: int, hops: nn.Module, d: int, most: int = MOST_FACTS) -> None:
        super().__init__()
        self.key, self.value, self.ask = (nn.Embedding(vocabulary, d, padding_idx=0) for _ in range(3))
        for embedding in (self.key, self.value, self.ask):
            nn.init.normal_(embedding.weight, std=0.1)
        self.key_age, self.value_age = (nn.Parameter(0.1 * torch.randn(most, d)) for _ in range(2))
        self.hops = hops
        self.answer = nn.Linear(d, answers)

    def forward(self, facts: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
        mask = facts.ne(0).any(-1)
        age = (mask.sum(-1, keepdim=True) - 1 - torch.arange(facts.shape[1])).clamp(min=0)
        query = placed(self.ask(words)).sum(-2).unsqueeze(1)
        keys = placed(self.key(facts)).sum(-2) + self.key_age[age]
        values = placed(self.value(facts)).sum(-2) + self.value_age[age]
        found, weights = self.hops(query, keys, values, over_keys(mask))
        return self.answer((query + found).squeeze(1)), weights


def placed(embedded: Tensor) -> Tensor:
    """Words weighed by their place, l_kj = (1 - j/J) - (k/d)(1 - 2j/J) (Sukhbaatar et al. 2015, §4.1)."""
    length, d = embedded.shape[-2:]
    j = (torch.arange(length) + 1).unsqueeze(-1) / length
    k = (torch.arange(d) + 1) / d
    return embedded * ((1 - j) - k * (1 - 2 * j))


def run(task: str, variant: str, seed: int) -> dict[str, float]:
    """Train one variant; its share of right answers, and how it looks at the facts that support them."""
    train, test, vocabulary = load(task)
    hops = TASKS[task][1]
    seeded(seed)
    teacher = None
    if variant == "small, distilled":
        teacher = trained(train, vocabulary, hops, SIZE, supervised=True).requires_grad_(False)
        seeded(seed)
    small = variant.startswith("small")
    model = trained(
        train, vocabulary, hops, STUDENT_SIZE if small else SIZE, supervised=variant == "supervised attention",
        teacher=teacher,
    )  # fmt: skip
    return measure(model, test)


def trained(
    part: Part, vocabulary: int, hops: int, d: int, *, supervised: bool = False, teacher: Reader | None = None
) -> Reader:
    """A reader that learned from answers, and from gold weights or a teacher's where told so."""
    model = Reader(vocabulary=vocabulary, answers=vocabulary, hops=MultiHop(hops=[Attention(score=Dot())] * hops), d=d)

    def loss(index: np.ndarray) -> Tensor:
        facts, words, gold = part.facts[index], part.words[index], part.gold[index]
        scores, weights = model(facts, words)
        answered = cross_entropy(scores, part.answers[index])
        if supervised:
            answered = answered + SIGNAL_WEIGHT * gold_cross_entropy(weights, gold)
        if teacher is not None:
            answered = answered + SIGNAL_WEIGHT * distillation_loss(weights, teacher(facts, words)[1])
        return answered

    fit(model, loss, count=len(part.answers), steps=STEPS, batch=BATCH, rate=RATE)
    return model


def measure(model: Reader, part: Part) -> dict[str, float]:
    """Share of right answers, weight on supporting facts, and how often they get the most."""
    right, on_gold, first = 0.0, [], []
    with torch.no_grad():
        for index in in_order(len(part.answers), 256):
            scores, weights = model(part.facts[index], part.words[index])
            right += float((scores.argmax(-1) == part.answers[index]).sum())
            gold = part.gold[index]
            told = gold.sum(-1) > 0
            on_gold.append((weights * gold).sum(-1)[told])
            first.append((weights.argmax(-1) == gold.argmax(-1))[told].float())
    return {
        "accuracy": right / len(part.answers),
        "weight on supporting facts": float(torch.cat(on_gold).mean()),
        "supporting fact first": float(torch.cat(first).mean()),
        "held_out": len(part.answers),
    }
