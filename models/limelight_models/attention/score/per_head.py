"""A score of its own for every head: one head that is trained on syntax beside ordinary ones (I3)."""

from collections.abc import Sequence
from dataclasses import fields, replace

import torch
from torch import Tensor, nn

from limelight_models.attention.context import Context
from limelight_models.attention.errors import CombinationError, ShapeError
from limelight_models.attention.scoring import Score


class PerHead(Score):
    """Heads that score differently (one syntactic head, Strubell et al. 2018, §2.2, eq. 3; survey G §4.1.2).

    e_h = score_h(q_h, k_h)

    With `[BiasedGeneral(…), *[ScaledDot()] * 3]` the first of four heads is linguistically informed self-attention's:
    the bilinear form of a dependency parser, for `syntax_head_loss`; the others are what they were.

    Shapes: query [batch, head, query, d_q], key [batch, head, key, d_k] -> scores [batch, head, query, key].
    Raises: CombinationError at construction where a score gives several scores a key or heads of its own; ShapeError
        where there are other than as many heads.
    """

    def __init__(self, *, scores: Sequence[Score]) -> None:
        super().__init__()
        for score in scores:
            if score.multidimensional or score.makes_heads:
                raise CombinationError(f"a head has one score a key; {type(score).__name__} gives several")
        self.scores = nn.ModuleList(scores)
        self.query_free = all(score.query_free for score in scores)
        self.kernel = all(score.kernel for score in scores)
        self.signed = any(score.signed for score in scores)
        self.key_order = any(score.key_order for score in scores)
        self.key_free = all(score.key_free for score in scores)
        self.context_fields = tuple(dict.fromkeys(field for score in scores for field in score.context_fields))

    def check(self, query: Tensor | None, key: Tensor) -> None:
        if key.shape[1] != len(self.scores):
            raise ShapeError(f"PerHead was built for {len(self.scores)} heads; key has {key.shape[1]}")
        for score in self.scores:
            assert isinstance(score, Score)
            score.check(query, key)

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        rows = []
        for head, score in enumerate(self.scores):
            part = slice(head, head + 1)
            rows.append(score(query[:, part], key[:, part], head_of(context, part)))
        return torch.cat(rows, 1)


def head_of(context: Context, part: slice) -> Context:
    """One head's part of a context; fields shared by all heads stay."""
    given = {f.name: getattr(context, f.name) for f in fields(context)}
    own = {n: t[:, part] for n, t in given.items() if t is not None and t.dim() >= 3 and t.shape[1] > 1}
    return replace(context, **own)
