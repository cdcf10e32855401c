"""From the features of a text to one vector, by one attention mechanism: pooled, token to token, or step by step.

Which of the three a mechanism needs follows from what it reads: positions of its queries, or its own earlier weights.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from limelight.v1 import attention_pb2
from models.attention import Attention
from models.attention.align import GaussianGrid, Hard, MonotonicChunkwise, Reinforced
from models.attention.context import Context
from models.attention.general import FeatureAttention
from models.attention.queries.specialised import average

STEPS = 3  # how often a stepwise reader looks
TEXT, TOKENS = "text", "tokens"  # label sets: the text as one thing, its tokens


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What the axes of a reader's weights are.

    queries: the label set of the query axis; names: its entries where it is a fixed set.
    """

    queries: str = TEXT
    names: tuple[str, ...] = ()
    label_kind: attention_pb2.LabelKind = attention_pb2.LABEL_KIND_ONE
    heads: int = 1
    features: int = 0
    kind: attention_pb2.MapKind = attention_pb2.MAP_KIND_POOL


class Reader(nn.Module):
    """Reads features by attention.

    Shapes: features [batch, token, d], mask [batch, token], noise uniform [batch, (step,) token] or None
        -> vector [batch, d_out], weights [batch, head, query, key(, feature)].
    """

    layout: Layout
    attention: Attention  # whose capabilities the map declares
    query_kind: str = "specialised"  # column of the taxonomy
    noise_steps: int | None = None  # noise for so many steps; 0: one row of it; None: no noise

    def forward(self, features: Tensor, mask: Tensor, noise: Tensor | None = None) -> tuple[Tensor, Tensor]:
        raise NotImplementedError

    def width(self, d: int) -> int:
        """d_out, found by reading two tokens."""
        with torch.no_grad():
            return int(self(torch.zeros(1, 2, d), torch.ones(1, 2, dtype=torch.bool))[0].shape[-1])


class Pooled(Reader):
    """One look at the text: a specialised query, the average of its features, pools them (BF §3.3.1, H2).

    q = W_q mean(F);  c, a = attention(q, W_K F, W_V F)
    """

    def __init__(self, *, attention: Attention, d: int) -> None:
        super().__init__()
        self.attention = attention
        self.query = nn.Linear(d, d)
        self.module = FeatureAttention(attention=attention, d_f=d, d_k=d, d_v=d)
        self.noise_steps = 0 if "noise" in attention.align.context_fields else None
        names = ()
        if isinstance(attention.align, GaussianGrid):
            names = tuple(f"filter {number + 1}" for number in range(attention.align.filters))
        self.layout = Layout(
            queries="filters" if names else TEXT,
            names=names,
            label_kind=attention_pb2.LABEL_KIND_LATENTS if names else attention_pb2.LABEL_KIND_ONE,
            heads=getattr(attention.score, "outputs", 1),
            features=d if attention.score.multidimensional else 0,
        )

    def forward(self, features: Tensor, mask: Tensor, noise: Tensor | None = None) -> tuple[Tensor, Tensor]:
        context, keys = self.call(mask, noise)
        vectors, weights = self.module(self.query(average(features, mask)), features, keys, context)
        return vectors.flatten(1), weights

    def call(self, mask: Tensor, noise: Tensor | None) -> tuple[Context, Tensor]:
        """The context record, and the mask with head and query axes."""
        return Context(noise=None if noise is None else noise[:, None, None, :]), mask[:, None, None, :]

    def log_probability(self, features: Tensor, mask: Tensor, noise: Tensor) -> Tensor:
        """Log-probability of what this noise made the alignment draw [batch], for REINFORCE."""
        context, keys = self.call(mask, noise)
        key = self.module.key_map(features).unsqueeze(1)
        query = self.query(average(features, mask)).unsqueeze(1)
        context = Context(noise=context.noise, query=query, key=key, mask=keys)
        align = self.attention.align
        if isinstance(align, Reinforced):
            return align.log_probability(align.selection(keys, context), keys, context).sum(-1)
        assert isinstance(align, Hard)
        scores = self.attention.score(query, key, context)
        return align.log_probability(align(scores, keys, context), scores, keys).sum((-2, -1))


class TokenToToken(Reader):
    """Every token looks at the text, and what they saw is averaged (self-attention, BF eq. 35–37, H3).

    q_i = W_Q f_i;  c_i, a_i = attention(q_i, W_K F, W_V F);  c = mean_i c_i

    Distances, for alignments that want some, are those in the text: no parser is at hand here.
    """

    def __init__(self, *, attention: Attention, d: int) -> None:
        super().__init__()
        self.attention = attention
        self.query = nn.Linear(d, d)
        self.module = FeatureAttention(attention=attention, d_f=d, d_k=d, d_v=d)
        self.layout = Layout(
            queries=TOKENS,
            label_kind=attention_pb2.LABEL_KIND_TOKENS,
            features=d if attention.score.multidimensional else 0,
            kind=attention_pb2.MAP_KIND_SELF,
        )

    def forward(self, features: Tensor, mask: Tensor, noise: Tensor | None = None) -> tuple[Tensor, Tensor]:
        position = torch.arange(mask.shape[1], device=mask.device)
        apart = (position.unsqueeze(-1) - position).abs().to(features.dtype)
        pairs = (mask.unsqueeze(2) & mask.unsqueeze(1)).unsqueeze(1)
        context = Context(distances=apart[None, None])
        vectors, weights = self.module(self.query(features), features, pairs, context)
        return average(vectors, mask).squeeze(1), weights


class Stepwise(Reader):
    """Three looks one after the other, each knowing where the others were (as a decoder would).

    q_t = W_q mean(F) + p_t;  c_t, a_t = attention(q_t, W_K F, W_V F; a_{t-1}, Σ_{s<t} a_s);  c = [c_1; c_2; c_3]

    Upper bounds, for alignments that want them, are what is left of 1 for each word: 1 - Σ_{s<t} a_s.
    """

    def __init__(self, *, attention: Attention, d: int) -> None:
        super().__init__()
        self.attention = attention
        self.query = nn.Linear(d, d)
        self.place = nn.Parameter(torch.randn(STEPS, 1, 1, d) * 0.1)
        self.module = FeatureAttention(attention=attention, d_f=d, d_k=d, d_v=d)
        self.noise_steps = STEPS if "noise" in attention.align.context_fields else None
        self.layout = Layout(
            queries="steps",
            names=tuple(f"look {step + 1}" for step in range(STEPS)),
            label_kind=attention_pb2.LABEL_KIND_HOPS,
        )

    def forward(self, features: Tensor, mask: Tensor, noise: Tensor | None = None) -> tuple[Tensor, Tensor]:
        keys = mask[:, None, None, :]
        query = self.query(average(features, mask))
        coverage = torch.zeros_like(keys, dtype=features.dtype)
        previous, rows, vectors = None, [], []
        for step, place in enumerate(self.place.unbind(0)):
            context = Context(
                previous_weights=previous,
                coverage=coverage,
                upper_bounds=(1 - coverage).clamp(min=0),
                noise=None if noise is None else noise[:, None, step : step + 1, :],
            )
            chunk = self.stops(query + place, features, keys, context)
            vector, weights = self.module(query + place, features, keys, context)
            previous = weights if chunk is None else chunk
            coverage = coverage + weights
            vectors.append(vector)
            rows.append(weights)
        return torch.cat(vectors, -1).squeeze(1), torch.cat(rows, 2)

    def stops(self, query: Tensor, features: Tensor, mask: Tensor, context: Context) -> Tensor | None:
        """The monotonic part of chunkwise attention, which is what its next step starts from; None for others."""
        align = self.attention.align
        if not isinstance(align, MonotonicChunkwise):
            return None
        scores = self.attention.score(query.unsqueeze(1), self.module.key_map(features).unsqueeze(1), context)
        if not self.training:
            return align.stops(scores, mask, context)
        with torch.random.fork_rng(devices=[]):  # the attention itself then draws the same numbers again
            return align.stops(scores, mask, context)


def reader(attention: Attention, *, d: int) -> Reader:
    """The reader that gives this attention what it needs."""
    needs = {*attention.score.context_fields, *attention.align.context_fields}
    if needs & {"previous_weights", "coverage", "upper_bounds"}:
        return Stepwise(attention=attention, d=d)
    if needs & {"query_positions", "distances"}:
        return TokenToToken(attention=attention, d=d)
    return Pooled(attention=attention, d=d)
