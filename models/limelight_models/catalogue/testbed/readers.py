"""From the features of a text to one vector, by one attention mechanism: pooled, token to token, or step by step.

Which of the three a mechanism needs follows from what it reads: positions of its queries, or its own earlier weights.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.context import Context
from limelight_models.attention.flat import average
from limelight_models.attention.general import FeatureAttention
from limelight_models.cards.labels import numbered
from limelight_models.cards.maps import Map, map_of
from limelight_models.catalogue.testbed.text import ATTENTION, TEXT, TOKENS

STEPS = 3  # how often a stepwise reader looks


class Reader(nn.Module):
    """Reads the features of a text by attention.

    maps: what it puts out; query: its kind, for the taxonomy; noise_steps: how many rows of noise it
    takes (0: one, without an axis; None: no noise).

    Shapes: features [batch, token, d], mask [batch, token], noise uniform [batch, (step,) token] or None
        -> vector [batch, d_out], maps [batch, head, query, key(, feature)] by name.
    """

    maps: Mapping[str, Map]
    query: str = "specialised"
    classifies: bool = False  # its vector is the class scores already
    noise_steps: int | None = None

    def forward(
        self, features: Tensor, mask: Tensor, noise: Tensor | None = None
    ) -> tuple[Tensor, Mapping[str, Tensor]]:
        raise NotImplementedError

    def signals(self, features: Tensor, mask: Tensor, noise: Tensor | None) -> Mapping[str, Tensor]:
        """Inputs of the loss besides the answer, in training (see `SmallModel.loss`)."""
        return {}

    def width(self, d: int) -> int:
        """d_out, found by reading two tokens."""
        with torch.no_grad():
            return int(self(torch.zeros(1, 2, d), torch.ones(1, 2, dtype=torch.bool))[0].shape[-1])


class FeatureReader(Reader):
    """A reader around one attention over features."""

    module: FeatureAttention

    @property
    def attention(self) -> Attention:
        """The mechanism."""
        return self.module.attention


class Pooled(FeatureReader):
    """One look at the text: a specialised query, the average of its features, pools them (BF §3.3.1, H2).

    q = W_q mean(F), or none where the score reads none;  c, a = attention(q, W_K F, W_V F)
    """

    def __init__(self, *, attention: Attention, d: int) -> None:
        super().__init__()
        self.ask = None if attention.score.query_free and not attention.align.needs_query else nn.Linear(d, d)
        self.query = "self-attentive" if self.ask is None else "specialised"
        self.module = FeatureAttention(attention=attention, d_f=d, d_k=d, d_v=d)
        self.noise_steps = 0 if "noise" in attention.align.context_fields else None
        rows = attention.align.rows
        queries = TEXT if rows == 1 else numbered("filters", "latents", "filter", rows)
        self.maps = {ATTENTION: map_of(attention, "pool", queries=queries, keys=TOKENS, features=d)}

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
        """Those of the alignment."""
        question = self.question(features, mask)
        if question is None:
            return {}
        query, keys = question.unsqueeze(1), mask[:, None, None, :]
        key = self.module.key_map(features).unsqueeze(1)
        context = Context(noise=noise_row(noise).noise, query=query, key=key, mask=keys)
        return self.attention.align.signals(self.attention.score(query, key, context), keys, context)


class EachToken(FeatureReader):
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
        self.maps = {ATTENTION: map_of(attention, "self", queries=TOKENS, keys=TOKENS, features=d)}

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
        """Those of the alignment."""
        query, key = self.ask(features).unsqueeze(1), self.module.key_map(features).unsqueeze(1)
        context = replace(self.context(features, noise), query=query, key=key, mask=pairs_of(mask))
        return self.attention.align.signals(self.attention.score(query, key, context), pairs_of(mask), context)


class Stepwise(FeatureReader):
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
        looks = numbered("looks", "hops", "look", STEPS)
        self.maps = {ATTENTION: map_of(attention, "pool", queries=looks, keys=TOKENS, features=d)}

    def forward(
        self, features: Tensor, mask: Tensor, noise: Tensor | None = None
    ) -> tuple[Tensor, Mapping[str, Tensor]]:
        keys = mask[:, None, None, :]
        start = self.ask(average(features, mask))
        nothing = torch.zeros_like(keys, dtype=features.dtype)
        previous: Tensor | None = None
        found: Tensor | None = None
        rows: list[Tensor] = []
        vectors = []
        for step, place in enumerate(self.place.unbind(0)):
            coverage = self.covered(rows, nothing, features)
            context = Context(
                previous_weights=previous,
                coverage=coverage,
                upper_bounds=(1 - coverage).clamp(min=0),
                previous_context=found,
                noise=None if noise is None else noise[:, None, step : step + 1, :],
            )
            carried = self.carried(start + place, features, keys, context)
            vector, weights = self.module(start + place, features, keys, context)
            previous = weights if carried is None else carried
            found = vector.unsqueeze(1)
            vectors.append(vector)
            rows.append(weights)
        return torch.cat(vectors, -1).squeeze(1), {ATTENTION: torch.cat(rows, 2)}

    def covered(self, rows: Sequence[Tensor], nothing: Tensor, features: Tensor) -> Tensor:
        """Summed weight of each word at the steps before, of the shape of `nothing`."""
        return sum(rows, nothing)

    def carried(self, query: Tensor, features: Tensor, mask: Tensor, context: Context) -> Tensor | None:
        """The next step's previous weights, where they are something else than the weights."""
        align = self.attention.align
        if not align.carries:
            return None
        asking, key = query.unsqueeze(1), self.module.key_map(features).unsqueeze(1)
        context = replace(context, query=asking, key=key, mask=mask)
        scores = self.attention.score(asking, key, context)
        if not self.training:
            return align.carried(scores, mask, context)
        with torch.random.fork_rng(devices=[]):  # the attention itself then draws the same numbers again
            return align.carried(scores, mask, context)


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
