"""Monotonic multi-head attention, P20 (Ma, Pino, Cross, Puzon & Gu 2020).

The Transformer with other attention over the source: each head of the decoder moves onward by itself and stops at one
token, before each token that is put out. What is put out can be written when the last head has stopped, while the rest
of the source is still to come; so the encoder looks back alone. The paper's MMA-H, whose heads look where they stop.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from limelight_models.attention import Attention, Context, masks
from limelight_models.attention.align import HardMonotonic
from limelight_models.attention.cached import CrossAttention, KVCache
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.attention.score import ScaledDot
from limelight_models.attention.signals import average_lagging, expected_delays, slowest, spread
from limelight_models.attention.weights import AroundAttention
from limelight_models.cards.language import State, carried_states
from limelight_models.data import transductions
from limelight_models.network import Answer
from limelight_models.recipes import Blueprint, Card, preset
from limelight_models.recipes.rewriting import rewriting
from limelight_models.zoo.transformer.encoder_decoder import PRESETS, EncoderDecoder, EncoderDecoderConfig, parts

_CERTAIN = 1e4  # of a score: neither noise nor an offset makes a head go on


class MonotonicMultiheadConfig(EncoderDecoderConfig):
    """Sizes, which are those of the Transformer.

    moving: heads of a layer that move over the source, 0 for as many as look elsewhere. delay, apart: λ_avg and λ_var,
    what it costs to lag behind the source, and that heads are far from each other. noise: of energies in training; the
    more there is, the sooner heads decide, and what was learned of expectations holds where they stop.
    """

    moving: int = 0
    delay: float = 0.0
    apart: float = 0.1
    noise: float = 1.0

    def movers(self) -> int:
        """Heads of a layer that move over the source."""
        return self.moving or self.heads

    def of_source(self) -> "Onward":
        return Onward(self.multi_head())

    def of_memory(self) -> "MonotonicAttention":
        attention = Attention(score=ScaledDot(), align=Stopping(heads=self.movers(), noise_scale=self.noise))
        return MonotonicAttention(MultiHead(attention=attention, d_model=self.d_model, heads=self.movers()))

    def states(self) -> list[State]:
        return [*super().states(), *carried_states(*(f"aligned.{number}" for number in range(self.layers)))]


class Onward(AroundAttention, nn.Module):
    """Self-attention that looks back alone, so that a token is read before those behind it are there.

    Shapes: as `MultiHead`, mask bool [batch, 1, 1, key].
    """

    attention: MultiHead

    def __init__(self, attention: MultiHead) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, query: Tensor, key: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        place = torch.arange(key.shape[1], device=key.device)
        attended: tuple[Tensor, Tensor] = self.attention(query, key, mask=mask & masks.causal(place[:, None], place))
        return attended


class Stopping(HardMonotonic):
    """Hard monotonic attention that stops at the last key where it stops nowhere before it.

    p_ij = sigmoid(e_ij + r), and 1 for the last key
    serving: the first j, not before the step's before, with p_ij > 1/2
    training: α_ij = p_ij Σ_{k≤j} α_{i-1,k} Π_{k≤l<j} (1 - p_il)

    The authors' code calls it preservation of mass: the weights of a step sum to 1.

    Shapes: as `HardMonotonic`.
    """

    normalised = True

    def forward(self, scores: Tensor, mask: Tensor | None, context: Context) -> Tensor:
        there = torch.ones_like(scores[:, :1, :1], dtype=torch.bool) if mask is None else mask
        return super().forward(torch.where(last(there), _CERTAIN, scores), mask, context)


def last(mask: Tensor) -> Tensor:
    """The last place that a mask allows, of each row. Shapes: mask bool [..., place] -> the same."""
    return mask & (mask.flip(-1).cumsum(-1).flip(-1) == 1)


@dataclass(frozen=True)
class Followed(KVCache):
    """Keys and values of the source, and where heads stopped before [batch, head, 1, source]; None: nowhere yet."""

    aligned: Tensor | None = None


class MonotonicAttention(CrossAttention):
    """Each head h is at α_i^h, reached from α_{i-1}^h (paper §3).

    Shapes: features [batch, token, d_model], kept `Followed` -> as `CrossAttention`.
    """

    def forward(self, features: Tensor, kept: KVCache, mask: Tensor) -> tuple[Tensor, Tensor]:
        heads, contexts, rows = self.attention, [], []
        before = kept.aligned if isinstance(kept, Followed) else None
        for query in heads.split(heads.query_map(features)).split(1, 2):
            context = Context(previous_weights=before)
            found, before = heads.attention(query, kept.keys, kept.values, mask[:, None, None], context)
            contexts.append(found)
            rows.append(before)
        return heads.join(torch.cat(contexts, 2)), torch.cat(rows, 2)


class MonotonicMultihead(EncoderDecoder):
    """Text -> text, written while it is read.

    L = -log p(y|x) + λ_avg C(g) + λ_var D(g): C is how far the slowest head is behind the source, D how far heads are
    apart, of the expected delays g_i^h = Σ_j j α_ij^h of every head (paper §3).

    Shapes: as `EncoderDecoder`; in training target_mask as well, and signals `delay` and `apart`, a number each.
    """

    def __init__(self, config: MonotonicMultiheadConfig) -> None:
        super().__init__(config)
        self.final = nn.Parameter(torch.randn(config.d_model))
        self.heads, self.prices = config.movers(), {"delay": config.delay, "apart": config.apart}

    def embed_source(self, ids: Tensor, mask: Tensor) -> Tensor:
        """As the Transformer's; the last token is marked, as no other tells that the source has ended."""
        return super().embed_source(ids, mask) + last(mask).unsqueeze(-1) * self.final

    def encode(self, **tensors: Tensor) -> Mapping[str, Tensor]:
        """As the Transformer's, and where heads begin: at the first token."""
        ids = tensors["source_ids"]
        first = (torch.arange(ids.shape[1], device=ids.device) == 0).to(self.source_embedding.weight.dtype)
        begun = first.expand(ids.shape[0], self.heads, ids.shape[1])
        return {
            **super().encode(**tensors),
            **{f"initial_aligned.{number}": begun for number in range(len(self.decoder))},
        }

    def memory(self, number: int, tensors: Mapping[str, Tensor]) -> KVCache:
        read, aligned = super().memory(number, tensors), tensors.get(f"aligned.{number}")
        return Followed(read.keys, read.values, None if aligned is None else aligned.unsqueeze(2))

    def left(self, number: int, cross: Tensor) -> dict[str, Tensor]:
        return {f"aligned.{number}": cross[:, :, 0]}

    def forward(self, **tensors: Tensor) -> Answer:
        answer = super().forward(**tensors)
        if not self.training:
            return answer
        g = torch.cat([expected_delays(answer.maps[f"decoder.{n}.cross"]) for n in range(len(self.decoder))], 1)
        put_out = tensors["target_mask"]
        lagging = average_lagging(slowest(g), put_out, tensors["source_mask"])
        return replace(answer, signals={"delay": lagging, "apart": spread(g, put_out)})

    def objective(self, losses: Tensor, answer: Answer, target: Tensor) -> Tensor:
        """Cross-entropy, and for each token the prices of the mean delay and of the mean distance of heads."""
        costs = [price * answer.signals[name] for name, price in self.prices.items() if name in answer.signals]
        return losses.sum() + len(losses) * sum(costs, losses.new_zeros(()))


def card(network: MonotonicMultihead, blueprint: Blueprint[Any]) -> Card:
    """Describe the model."""
    return blueprint.card(
        network,
        title="Monotonic multi-head attention",
        summary="Rewrites a text token by token; each head moves over the source by itself, and only onward.",
        taxonomy="scaled multiplicative, alignment: monotonic, basic, multi-head, multi-hop",
        citation="Ma, Pino, Cross, Puzon, Gu (2020): Monotonic Multihead Attention. ICLR",
        **parts(network, blueprint),
    )


# Letters, each so late as a digit in front of them says: they can be written while they are read.
MONOTONIC_MULTIHEAD = rewriting(
    MonotonicMultiheadConfig,
    MonotonicMultihead,
    card,
    {**PRESETS, "demo": preset(16, 64, 4e-3, layers=1, noise=3.0)},
    builtin=partial(transductions.dataset, "delay", lengths=(2, 8)),
)
# One head of a layer moves, as in the models before it.
MONOTONIC_MULTIHEAD_ONE = MONOTONIC_MULTIHEAD.changed(moving=1)
