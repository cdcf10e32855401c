"""Reformer, M2 (Kitaev et al. 2020): tokens are sorted by a hash, so that those that are alike stand in one chunk.

§2 and appendix A of the paper; here tokens look both ways, where its language model looks back. Rotations are drawn
once, with the parameters, and a text of any length has as many buckets. Its reversible layers are plain ones.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from limelight_models.attention.alignment import fill, softmax
from limelight_models.attention.effective.blocks import gathered, in_blocks
from limelight_models.attention.effective.core import Effective
from limelight_models.attention.errors import ShapeError
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.attention.score.similarity import unit
from limelight_models.recipes import Blueprint, Card, classifying_texts, preset
from limelight_models.zoo.long.encoder import LongConfig, LongEncoder, builtin, parts, presets

OWN = -1e4  # score of a token for itself, which counts where nothing else does; half precision has no -1e5


class Hashed(NamedTuple):
    """Queries and keys [batch, head, token, d], the mask of keys, and what a round of hashing makes of the tokens.

    order, home: INT64 [batch, head, round, token], which token stands where when they are sorted, and where one stands.
    group INT32 [batch, head, token, round]: a number for a bucket in a chunk; only that of its next chunk is 1 more.
    """

    query: Tensor
    key: Tensor
    order: Tensor
    home: Tensor
    group: Tensor
    mask: Tensor | None


class HashedAttention(Effective[Hashed]):
    """o_i = Σ_{j ∈ P_i} softmax_{j ∈ P_i}(q_iᵀ k_j) v_j, k_j = q_j / ‖q_j‖, P_i = P_i^1 ∪ … ∪ P_i^R.

    P_i^r: tokens of the bucket of i, h_r(x) = argmax [x R_r; -x R_r], that stand in its chunk or in the one before when
    tokens are sorted by bucket, then by place. A token counts for itself only where no other does. One that is in N of
    the P_i^r has 1/N of its exponential in each, and rounds are joined by their normalisers (appendix A). Padding is
    sorted behind all buckets, so that it moves no token to another chunk.

    Shapes: as `Effective`, of so many heads of d features, as many queries as keys; the keys themselves are not read.
    """

    def __init__(self, *, heads: int, d: int, chunk: int, buckets: int, rounds: int) -> None:
        super().__init__()
        self.chunk = chunk
        self.register_buffer("rotations", torch.randn(heads, rounds, d, buckets // 2))

    def prepare(self, query: Tensor, key: Tensor, mask: Tensor | None) -> Hashed:
        count = query.shape[2]
        if not torch.compiler.is_exporting() and count != key.shape[2]:
            raise ShapeError(f"queries are the keys; {count} and {key.shape[2]} differ")
        turned = query.unsqueeze(2) @ self.get_buffer("rotations")  # [batch, head, round, token, bucket / 2]
        bucket = torch.cat([turned, -turned], -1).argmax(-1)
        bucket = bucket if mask is None else torch.where(mask, bucket, 2 * turned.shape[-1])
        place = torch.arange(count, device=query.device).expand_as(bucket)
        order = (bucket * count + place).argsort(-1)
        home = torch.zeros_like(order).scatter(-1, order, place)
        group = 2 * bucket + home // self.chunk  # in the order of buckets, chunks never fall
        return Hashed(query, unit(query), order, home, group.transpose(-2, -1).int(), mask)

    def sums(self, prepared: Hashed, value: Tensor) -> Tensor:
        shown = value if prepared.mask is None else value * prepared.mask.transpose(-2, -1)  # padding sees only padding
        counted = torch.cat([shown, torch.ones_like(value[..., :1])], -1)
        rounds = [self.by_round(prepared, number, counted) for number in range(prepared.order.shape[2])]
        summed, largest = (torch.stack(each) for each in zip(*rounds, strict=True))
        found = (summed * (largest - largest.amax(0)).exp()).sum(0)
        return found[..., :-1] / torch.where(found[..., -1:] > 0, found[..., -1:], 1)

    def by_round(self, prepared: Hashed, number: int, value: Tensor) -> tuple[Tensor, Tensor]:
        """Values times exponentials of the scores of a round, over the exponential of the largest; and that score."""
        query, key, order, home, group, _ = prepared
        ranks = in_blocks(query, self.chunk)
        tokens = order[:, :, number, ranks.clamp(max=query.shape[2] - 1)]
        asked = torch.where(ranks < query.shape[2], tokens, -1)  # [batch, head, chunk, place]
        read = torch.cat([torch.cat([torch.full_like(asked[:, :, :1], -1), asked[:, :, :-1]], 2), asked], -1)
        together = together_in(gathered(group, asked), gathered(group, read))
        own = torch.eye(2 * self.chunk, dtype=torch.bool, device=query.device)[self.chunk :]
        scores = torch.where(own, OWN, gathered(query, asked) @ gathered(key, read).transpose(-2, -1))
        scores = fill(scores, together[number] & (read >= 0).unsqueeze(-2))
        largest = scores.amax(-1, keepdim=True).clamp(min=2 * OWN)  # far above what is filled in
        times = sum((each.to(value.dtype) for each in together), torch.zeros_like(scores))  # N
        summed = ((scores - largest).exp() / times.clamp(min=1)) @ gathered(value, read)
        of_token = gathered(torch.cat([summed, largest], -1).flatten(2, 3), home[:, :, number])
        return of_token[..., :-1], of_token[..., -1:]

    def rows(self, prepared: Hashed, index: Tensor) -> Tensor:
        scores = prepared.query[:, :, index] @ prepared.key.transpose(-2, -1)
        own = index.unsqueeze(-1) == torch.arange(scores.shape[-1], device=index.device)
        return softmax(torch.where(own, OWN, scores), self.allowed(prepared, index, prepared.key, prepared.mask))

    def allowed(self, prepared: Hashed, index: Tensor, key: Tensor, mask: Tensor | None) -> Tensor:
        found = torch.stack(together_in(prepared.group[:, :, index], prepared.group)).any(0)
        return found if mask is None else found & mask


def together_in(group: Tensor, other: Tensor) -> list[Tensor]:
    """Whether tokens [batch, head, …, query, round] have others [batch, head, …, key, round] in P_i^r, by round."""
    pairs = zip(group.unbind(-1), other.unbind(-1), strict=True)
    apart = [one.unsqueeze(-1) - two.unsqueeze(-2) for one, two in pairs]
    return [each == each.clamp(0, 1) for each in apart]


class ReformerConfig(LongConfig):
    """Sizes. chunk: tokens of one. buckets: of a hash, an even number. rounds: of hashing."""

    chunk: int = 32
    buckets: int = 16
    rounds: int = 2

    def attention(self) -> HashedAttention:
        hashed = {"chunk": self.chunk, "buckets": self.buckets, "rounds": self.rounds}
        return HashedAttention(heads=self.heads, d=self.d_head, **hashed)

    def multi_head(self, number: int) -> MultiHead:
        """Queries are the keys."""
        made = super().multi_head(number)
        made.key_map = made.query_map
        return made


def card(network: LongEncoder, blueprint: Blueprint[ReformerConfig]) -> Card:
    """Describe the model."""
    return blueprint.card(
        network,
        title="Reformer",
        summary="Classifies a long text by attention among tokens that fall into one bucket of a hash.",
        taxonomy="multiplicative, alignment: hashed buckets, self-attentive, multi-head",
        citation="Kitaev, Kaiser, Levskaya (2020): Reformer: The Efficient Transformer. ICLR",
        **parts(network, blueprint),
    )


# Of enwik8 (§5): 3 layers and texts of 64 thousand tokens; 8 rounds are its best. What it leaves out is as usual.
PRESETS = presets(
    preset(10, 8, 1e-3, patience=2, vocabulary=320).sized(
        d_model=1024, layers=3, heads=8, d_hidden=4096, max_tokens=65_536, chunk=64, buckets=2048, rounds=8
    )
)
PRESETS["tiny"] = PRESETS["tiny"].sized(chunk=3, buckets=4)

REFORMER = classifying_texts(ReformerConfig, LongEncoder, card, PRESETS, builtin=builtin)
REFORMER_ONE = REFORMER.changed(rounds=1)
