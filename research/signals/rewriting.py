"""Dates rewritten letter by letter: doubly stochastic attention (I6), which wants every letter looked at once in all.

The model is a small RNNsearch, the dates are generated: no data set is needed.
"""

from functools import cache

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from limelight_bundle.text import Encoder
from limelight_models.attention.signals import doubly_stochastic_penalty
from limelight_models.data import dates, tokenizers
from limelight_models.zoo.rnn_search.rnn_search import RnnSearch, RnnSearchConfig
from research.signals.training import fit, in_order, seeded

VARIANTS = ("without penalty", "doubly stochastic penalty")
TRAINING, HELD_OUT = 4_000, 1_000
STEPS, BATCH, RATE = 500, 32, 5e-3
PENALTY = 0.1  # λ: the penalty sums over some twenty letters
Part = dict[str, Tensor]


@cache
def load() -> tuple[Part, Part, RnnSearchConfig]:
    """Training and held-out part as ids, and the model's sizes."""
    data = dates.dataset(seed=0, training=TRAINING, held_out=HELD_OUT)
    sources, targets = (
        tokenizers.texts_of([each.instance[name] for each in data.train]) for name in ("text", "target")
    )
    source = tokenizers.characters(sources, lower=True, output=False)
    target = tokenizers.characters(targets, lower=False, output=True)
    begin, end = tokenizers.special_ids(target)
    config = RnnSearchConfig(
        source_vocabulary=tokenizers.size(source), target_vocabulary=tokenizers.size(target), begin=begin, end=end,
        d_embedding=24, d_encoder=24, d_decoder=48, d_attention=24, d_maxout=24,
    )  # fmt: skip

    def ids(examples: tuple, name: str, tokenizer: str) -> Tensor:
        texts = tokenizers.texts_of([each.instance[name] for each in examples])
        rows = [one.ids for one in Encoder(tokenizer, maximum=64).encode(list(texts))]
        if name == "target":
            rows = [(*row, end) if row[-1] != end else row for row in rows]
        found = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.int64)
        for place, row in enumerate(rows):
            found[place, : len(row)] = torch.tensor(row)
        return found

    def part(examples: tuple) -> Part:
        of_source, of_target = ids(examples, "text", source), ids(examples, "target", target)
        return {
            "source_ids": of_source, "source_mask": of_source != 0,
            "target_ids": of_target, "target_mask": of_target != 0,
        }  # fmt: skip

    return part(data.train), part(data.test), config


def run(variant: str, seed: int) -> dict[str, float]:
    """Train one variant; how much it rewrites rightly, and how evenly it looked at the letters."""
    train, test, config = load()
    seeded(seed)
    model = RnnSearch(config)

    def loss(index: np.ndarray) -> Tensor:
        batch = {name: tensor[index] for name, tensor in train.items()}
        answer = model(**batch)
        mask = batch["target_mask"]
        written = cross_entropy(answer.outputs["scores"][mask], batch["target_ids"][mask])
        return written + PENALTY * spread(answer.maps["decoder.cross"], batch) if variant == VARIANTS[1] else written

    fit(model, loss, count=TRAINING, steps=STEPS, batch=BATCH, rate=RATE)
    return measure(model, test)


def spread(weights: Tensor, batch: Part) -> Tensor:
    """The penalty of weights [batch, 1, step, letter]."""
    return doubly_stochastic_penalty(weights, batch["target_mask"], batch["source_mask"])


def measure(model: RnnSearch, part: Part) -> dict[str, float]:
    """Share of dates of which every letter is right (which is what greedy output gets), and the penalty."""
    right, penalties = 0, []
    with torch.no_grad():
        for index in in_order(HELD_OUT, 250):
            batch = {name: tensor[index] for name, tensor in part.items()}
            answer = model(**batch)
            wrong = (answer.outputs["scores"].argmax(-1) != batch["target_ids"]) & batch["target_mask"]
            right += int((~wrong.any(-1)).sum())
            penalties.append(float(spread(answer.maps["decoder.cross"], batch)))
    return {"accuracy": right / HELD_OUT, "penalty": float(np.mean(penalties)), "held_out": HELD_OUT}
