"""From the features of a text to one vector, by one attention mechanism: pooled, token to token, or step by step.

Which of the three a mechanism needs follows from what it reads: positions of its queries, or its own earlier weights.
"""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from limelight.v1 import attention_pb2
from models.attention import Attention
from models.attention.align import AdaptiveSpan, GaussianGrid, Hard, MonotonicChunkwise, Reinforced
from models.attention.context import Context
from models.attention.general import FeatureAttention
from models.attention.queries.specialised import average
from models.attention.signals.reinforce import selection_cost
from models.attention.signals.span import span_penalty
from models.testbed.layout import ATTENTION, TOKENS, Layout, layout_of

STEPS = 3  # how often a stepwise reader looks
PRICE = 0.01  # λ of reinforced sampling, for keeping every token
SPAN_PRICE = 0.01  # λ of adaptive spans, a word


class Reader(nn.Module):
    """Reads the features of a text by attention.

    layouts: what the axes of each map are; query: its kind, for the taxonomy; noise_steps: how many rows of noise it
    takes (0: one, without an axis; None: no noise).

    Shapes: features [batch, token, d], mask [batch, token], noise uniform [batch, (step,) token] or None
        -> vector [batch, d_out], maps [batch, head, query, key(, feature)] by name.
    """

    layouts: Mapping[str, Layout]
    query: str = "specialised"
    classifies: bool = False  # its vector is the class scores already
    noise_steps: int | None = None

    def forward(
        self, features: Tensor, mask: Tensor, noise: Tensor | None = None
    ) -> tuple[Tensor, Mapping[str, Tensor]]:
        raise NotImplementedError

    def signals(self, features: Tensor, mask: Tensor, noise: Tensor | None) -> Mapping[str, Tensor]:
        """What the loss reads besides the answer, in training (see `SmallModel.loss`)."""
        return {}

    def width(self, d: int) -> int:
        """d_out, found by reading two tokens."""
        with torch.no_grad():
            return int(self(torch.zeros(1, 2, d), torch.ones(1, 2, dtype=torch.bool))[0].shape[-1])


class Pooled(Reader):
    """One look at the text: a specialised query, the average of its features, pools them (BF §3.3.1, H2).

    q = W_q mean(F), or none where the score reads none;  c, a = attention(q, W_K F, W_V F)
    """

    def __init__(self, *, attention: Attention, d: int) -> None:
        super().__init__()
        self.ask = None if attention.score.query_free and not attention.align.needs_query else nn.Linear(d, d)
        self.query = "self-attentive" if self.ask is None else "specialised"
        self.module = FeatureAttention(attention=attention, d_f=d, d_k=d, d_v=d)
        self.noise_steps = 0 if "noise" in attention.align.context_fields else None
        filters = attention.align.filters if isinstance(attention.align, GaussianGrid) else 0
        self.layouts = {
            ATTENTION: layout_of(
                attention,
                d=d,
                queries="filters" if filters else "text",
                names=tuple(f"filter {number + 1}" for number in range(filters)),
                label_kind=attention_pb2.LABEL_KIND_LATENTS if filters else attention_pb2.LABEL_KIND_ONE,
            )
        }

    def forward(
        self, features: Tensor, mask: Tensor, noise: Tensor | None = None
    ) -> tuple[Tensor, Mapping[str, Tensor]]:
        query = self.question(features, mask)
        vectors, weights = self.module(query, features, mask[:, None, None, :], noise_row(noise))
        return vectors.flatten(1), {ATTENTION: weights}

    def question(self, features: Tensor, mask: Tensor) -> Tensor | None:
        """The query [batch, 1, d]."""
        return None if self.ask is None else self.ask(average(features, mask))

    def signals(self, features: Tensor, mask: Tensor, noise: Tensor | None) -> Mapping[str, Tensor]:
        """Of what the noise made the alignment draw, for REINFORCE: log-probability, entropy or cost, all [batch]."""
        score, align = self.module.attention.score, self.module.attention.align
        question = self.question(features, mask)
        if noise is None or question is None or not isinstance(align, Hard | Reinforced):
            return {}
        key, keys = self.module.key_map(features).unsqueeze(1), mask[:, None, None, :]
        query = question.unsqueeze(1)
        context = Context(noise=noise_row(noise).noise, query=query, key=key, mask=keys)
        if isinstance(align, Reinforced):
            return drawn(align, keys, context, mask)
        if align.straight_through:
            return {}
        scores = score(query, key, context)
        return {
            "log_probability": align.log_probability(align(scores, keys, context), scores, keys).sum((-2, -1)),
            "entropy": align.entropy(scores, keys).sum((-2, -1)),
        }


def drawn(align: Reinforced, pairs: Tensor, context: Context, mask: Tensor) -> Mapping[str, Tensor]:
    """Log-probability of what samplers kept, and its price: λ times the share of the tokens, for each sampler."""
    kept = align.selection(pairs, context)
    rows = [kept.keys.squeeze(2)] if kept.queries is None else [kept.keys.squeeze(2), kept.queries.squeeze(3)]
    cost = torch.stack([selection_cost(row.squeeze(1), mask) for row in rows]).sum(0)
    return {"log_probability": align.log_probability(kept, pairs, context).sum(-1), "cost": PRICE * cost}


class EachToken(Reader):
    """Every token looks at the text, and what they saw is averaged (self-attention, BF eq. 35–37, H3).

    q_i = W_Q f_i;  c_i, a_i = attention(q_i, W_K F, W_V F);  c = mean_i c_i

    Distances, for alignments that want some, are those in the text: no parser is at hand here.
    """

    query = "self-attentive"

    def __init__(self, *, attention: Attention, d: int) -> None:
        super().__init__()
        self.ask = nn.Linear(d, d)
        self.module = FeatureAttention(attention=attention, d_f=d, d_k=d, d_v=d)
        self.noise_steps = 2 if "query_noise" in attention.align.context_fields else None
        layout = layout_of(attention, d=d, queries=TOKENS, kind=attention_pb2.MAP_KIND_SELF)
        self.layouts = {ATTENTION: layout}

    def forward(
        self, features: Tensor, mask: Tensor, noise: Tensor | None = None
    ) -> tuple[Tensor, Mapping[str, Tensor]]:
        context = self.context(features, noise)
        vectors, weights = self.module(self.ask(features), features, pairs_of(mask), context)
        return average(vectors, mask).squeeze(1), {ATTENTION: weights}

    def context(self, features: Tensor, noise: Tensor | None) -> Context:
        """Distances in the text, and draws about keys and about queries where there are some."""
        position = torch.arange(features.shape[1], device=features.device)
        apart = (position.unsqueeze(-1) - position).abs().to(features.dtype)
        if noise is None:
            return Context(distances=apart[None, None])
        return Context(distances=apart[None, None], noise=noise[:, None, :1], query_noise=noise[:, 1:])

    def signals(self, features: Tensor, mask: Tensor, noise: Tensor | None) -> Mapping[str, Tensor]:
        """The price of a span; what samplers drew, for REINFORCE."""
        align = self.module.attention.align
        if isinstance(align, AdaptiveSpan):
            return {"penalty": span_penalty(align.span, SPAN_PRICE)}
        if not isinstance(align, Reinforced) or noise is None:
            return {}
        query, key = self.ask(features).unsqueeze(1), self.module.key_map(features).unsqueeze(1)
        return drawn(align, pairs_of(mask), replace(self.context(features, noise), query=query, key=key), mask)


class Stepwise(Reader):
    """Three looks one after the other, each knowing where the others were (as a decoder would).

    q_t = W_q mean(F) + p_t;  c_t, a_t = attention(q_t, W_K F, W_V F; a_{t-1}, c_{t-1}, Σ_{s<t} a_s)
    c = [c_1; c_2; c_3]

    Upper bounds, for alignments that want them, are what is left of 1 for each word: 1 - Σ_{s<t} a_s.
    """

    def __init__(self, *, attention: Attention, d: int) -> None:
        super().__init__()
        self.ask = nn.Linear(d, d)
        self.place = nn.Parameter(torch.randn(STEPS, 1, 1, d) * 0.1)
        self.module = FeatureAttention(attention=attention, d_f=d, d_k=d, d_v=d)
        self.noise_steps = STEPS if "noise" in attention.align.context_fields else None
        self.layouts = {
            ATTENTION: layout_of(
                attention,
                d=d,
                queries="looks",
                names=tuple(f"look {step + 1}" for step in range(STEPS)),
                label_kind=attention_pb2.LABEL_KIND_HOPS,
            )
        }

    def forward(
        self, features: Tensor, mask: Tensor, noise: Tensor | None = None
    ) -> tuple[Tensor, Mapping[str, Tensor]]:
        keys = mask[:, None, None, :]
        start = self.ask(average(features, mask))
        coverage = torch.zeros_like(keys, dtype=features.dtype)
        previous: Tensor | None = None
        found: Tensor | None = None
        rows, vectors = [], []
        for step, place in enumerate(self.place.unbind(0)):
            context = Context(
                previous_weights=previous,
                coverage=coverage,
                upper_bounds=(1 - coverage).clamp(min=0),
                previous_context=found,
                noise=None if noise is None else noise[:, None, step : step + 1, :],
            )
            stops = self.stops(start + place, features, keys, context)
            vector, weights = self.module(start + place, features, keys, context)
            previous = weights if stops is None else stops
            coverage, found = coverage + weights, vector.unsqueeze(1)
            vectors.append(vector)
            rows.append(weights)
        return torch.cat(vectors, -1).squeeze(1), {ATTENTION: torch.cat(rows, 2)}

    def stops(self, query: Tensor, features: Tensor, mask: Tensor, context: Context) -> Tensor | None:
        """The monotonic part of chunkwise attention, which is what its next step starts from; None for others."""
        align = self.module.attention.align
        if not isinstance(align, MonotonicChunkwise):
            return None
        scores = self.module.attention.score(query.unsqueeze(1), self.module.key_map(features).unsqueeze(1), context)
        if not self.training:
            return align.stops(scores, mask, context)
        with torch.random.fork_rng(devices=[]):  # the attention itself then draws the same numbers again
            return align.stops(scores, mask, context)


def pairs_of(mask: Tensor) -> Tensor:
    """Real tokens that meet real tokens [batch, 1, token, token]."""
    return (mask.unsqueeze(2) & mask.unsqueeze(1)).unsqueeze(1)


def noise_row(noise: Tensor | None) -> Context:
    """Noise [batch, token] for one query of one head."""
    return Context(noise=None if noise is None else noise[:, None, None, :])


def reader(attention: Attention, *, d: int) -> Reader:
    """The reader that gives this attention what it needs."""
    needs = {*attention.score.context_fields, *attention.align.context_fields}
    if needs & {"previous_weights", "previous_context", "coverage", "upper_bounds"}:
        return Stepwise(attention=attention, d=d)
    if needs & {"query_positions", "distances", "query_noise"}:
        return EachToken(attention=attention, d=d)
    return Pooled(attention=attention, d=d)
