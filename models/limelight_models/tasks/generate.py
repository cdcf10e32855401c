"""A sequence put out token by token."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from limelight_bundle.detokenizing import Detokenizer
from limelight_models.cards.by_example import ByExample, mean, ratios
from limelight_models.cards.card import Card, Metric
from limelight_models.cards.results import Written
from limelight_models.data import tokenizers
from limelight_models.data.dataset import Example
from limelight_models.network import Answer, GeneratingNetwork, Network
from limelight_models.tasks.stepping import Stepping
from limelight_models.tasks.task import Batch, HeldOut, Task


@dataclass(frozen=True)
class Generate(Task):
    """Cross-entropy of the scores `scores` [batch, step, token] with the target forced; exact match, tokens, BLEU.

    Targets are an input here: the tensor `<target>_ids` and its mask.
    """

    target: str = "target"

    def losses(self, answer: Answer, batch: Batch) -> tuple[Tensor, Tensor]:
        mask = batch.tensors[f"{self.target}_mask"]
        target = batch.tensors[f"{self.target}_ids"][mask]
        return cross_entropy(answer.outputs["scores"][mask], target, reduction="none"), target

    def judge(self, network: Network, card: Card, held_out: HeldOut, training: Sequence[Example]) -> list[Metric]:
        """Greedy output: share that is exactly right (of each kind, where examples have labels), BLEU; with the target
        forced: share of tokens that are right.

        Raises: TypeError where the network does not generate, or its card does not say how.
        """
        if not isinstance(network, GeneratingNetwork) or card.written is None:
            raise TypeError(f"{type(network).__name__} does not generate, or its card does not say how")
        tokens: dict[int, tuple[int, int]] = {}
        answers: dict[int, str] = {}
        detokenizer = Detokenizer(card.written.tokenizer.text)
        with torch.no_grad():
            for batch in held_out.in_order():
                mask, ids = batch.tensors[f"{self.target}_mask"], batch.tensors[f"{self.target}_ids"]
                best = network(**batch.tensors).outputs["scores"].argmax(-1)
                counts = (((best == ids) & mask).sum(1).tolist(), mask.sum(1).tolist())
                tokens |= zip(batch.indices, zip(*counts, strict=True), strict=True)
                for index, put_out in zip(batch.indices, greedy(network, card.written, batch.tensors), strict=True):
                    answers[index] = detokenizer.text(put_out)
        written = [answers[index] for index in range(len(answers))]
        wanted = tokenizers.texts_of([example.instance[self.target] for example in held_out.examples])
        exact = np.array([a == b for a, b in zip(written, wanted, strict=True)])
        kinds = np.array([example.label for example in held_out.examples])
        return [
            Metric.over(mean(exact), name="exact match"),
            *(
                Metric(name=f"exact match, {kind}", value=float(exact[kinds == kind].mean()))
                for kind in sorted(set(kinds.tolist()) - {""})
            ),
            Metric.over(ratios(tokens), name="token accuracy"),
            *self.of_texts(written, wanted),
        ]

    def of_texts(self, written: Sequence[str], wanted: Sequence[str]) -> list[Metric]:
        """Further figures of what was written, text by text."""
        return bleu(written, wanted) if any(" " in text for text in wanted) else []


@dataclass(frozen=True)
class Continue(Generate):
    """The same of what many other sequences could stand for, so that none is right: the target is forced."""

    def judge(self, network: Network, card: Card, held_out: HeldOut, training: Sequence[Example]) -> list[Metric]:
        """Share of tokens that are the most likely ones; bits that a token costs, -log₂ of its probability."""
        right, bits = dict[int, tuple[float, float]](), dict[int, tuple[float, float]]()
        with torch.no_grad():
            for batch in held_out.in_order():
                mask, ids = batch.tensors[f"{self.target}_mask"], batch.tensors[f"{self.target}_ids"]
                scores = network(**batch.tensors).outputs["scores"]
                costs = cross_entropy(scores.transpose(1, 2), ids, reduction="none") / math.log(2)
                counts = mask.sum(1).tolist()
                for found, each in ((right, scores.argmax(-1) == ids), (bits, costs)):
                    found |= zip(batch.indices, zip((each * mask).sum(1).tolist(), counts, strict=True), strict=True)
        return [Metric.over(ratios(right), name="token accuracy"), Metric.over(ratios(bits), name="bits per token")]


def greedy(network: GeneratingNetwork, written: Written, tensors: Mapping[str, Tensor]) -> list[tuple[int, ...]]:
    """The most likely token, again and again, until each row has put out its end token (included) or the most allowed,
    the end token apart.

    tensors: inputs and masks, batch first; the target is not read.
    """
    inputs = {name: tensor for name, tensor in tensors.items() if name != written.target_tensor}
    stepping = Stepping(network, written, inputs)
    ended = torch.zeros_like(stepping.token, dtype=torch.bool)
    steps: list[Tensor] = []
    while len(steps) <= written.max_new_tokens and not ended.all():
        token = stepping.step().scores.argmax(-1)
        stepping.token = token
        steps.append(token)
        ended |= token == written.end
    rows = [until(row, written.end) for row in torch.stack(steps, 1).tolist()]
    return [row if row[-1] == written.end else row[: written.max_new_tokens] for row in rows]


def until(tokens: list[int], end: int) -> tuple[int, ...]:
    """The tokens up to the first `end`, that one included."""
    return tuple(tokens[: tokens.index(end) + 1] if end in tokens else tokens)


def bleu(written: Sequence[str], wanted: Sequence[str]) -> list[Metric]:
    """Corpus BLEU by sacrebleu's defaults, from 0 to 100; nothing where sacrebleu is not installed."""
    try:
        from sacrebleu import BLEU
    except ImportError:
        print("BLEU is left out: sacrebleu is not installed (pip install sacrebleu)")
        return []
    of_one = BLEU(effective_order=True)  # which changes no count, and spares a warning a text
    scores = [of_one.sentence_score(one, [other]) for one, other in zip(written, wanted, strict=True)]
    found = ByExample(np.array([(*each.counts, each.sys_len, each.ref_len) for each in scores], float), "bleu")
    return [Metric(name="bleu", value=BLEU().corpus_score(list(written), [list(wanted)]).score, by_example=found)]
