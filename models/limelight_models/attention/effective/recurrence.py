"""Attention by a matrix as state, which fades and is written to token after token: in chunks of tokens.

Inside of a chunk tokens are compared two by two; from chunk to chunk the state goes by one Scan. Of a chunk, Γ_i is the
sum of the logarithms of what its tokens up to i let stay, so that exp(Γ_i - Γ_j) is what is left at i of j.
"""

from typing import Generic, NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from limelight_models.attention.effective.core import Effective
from limelight_models.attention.effective.kernel import in_chunks, out_of_chunks
from limelight_models.in_turn import Tensors, in_turn

CHUNK = 64  # tokens that are compared two by two

P = TypeVar("P")


class Tokens(NamedTuple):
    """What tokens ask, write and let fade.

    query, key [batch, head, token, d_k]; strength β [batch, head, token, 1]; decay log α, at most 0, of the whole state
    [batch, head, token, 1] or of each feature of keys [batch, head, token, d_k].
    """

    query: Tensor
    key: Tensor
    strength: Tensor
    decay: Tensor


class Steps(nn.Module):
    """Δ = softplus(x + b) and log α = -exp(a) Δ, a and b of each head (Dao & Gu 2024; Yang et al. 2024).

    They begin as in the authors' code, with exp(a) from 1 to 16 and Δ from 0.001 to 0.1. features: of x.

    Shapes: x [batch, head, token, feature] -> Δ, log α of the same shape.
    """

    def __init__(self, *, heads: int, features: int = 1) -> None:
        super().__init__()
        self.log_a = nn.Parameter((1 + 15 * torch.arange(heads) / max(heads - 1, 1)).log().reshape(-1, 1, 1))
        self.bias = nn.Parameter((10 ** (torch.rand(heads, 1, features) * 2 - 3)).expm1().log())

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        step = softplus(x + self.bias)
        return step, -self.log_a.exp() * step


class Recurrence(Effective[P], Generic[P]):
    """Causal attention by a state S ∈ ℝ^{d_k × d_v} a head, in which weights are signed and not normalised.

    A subclass for a network gives `tokens`, one of this file the rest. Keys carry numbers of their tokens besides,
    behind their features, from which strengths and decays are made. chunk: tokens of a chunk.

    Shapes: as `Effective`; key [batch, head, key, d_k and what else a subclass reads].
    """

    normalised = False
    signed = True

    def __init__(self, *, chunk: int = CHUNK) -> None:
        super().__init__(causal=True)
        self.chunk = chunk

    def tokens(self, query: Tensor, key: Tensor) -> Tokens:
        """Queries, keys, strengths and decays of what is called query and key outside."""
        raise NotImplementedError

    def there(self, query: Tensor, key: Tensor, mask: Tensor | None) -> Tokens:
        """The same, where a token that is not there writes nothing and lets all stay."""
        made = self.tokens(query, key)
        if mask is None:
            return made
        kept = mask.transpose(-2, -1)
        return made._replace(strength=made.strength * kept, decay=made.decay * kept)

    def places(self, sequence: Tensor) -> tuple[Tensor, Tensor]:
        """As `in_chunks`, with an empty chunk behind: an exporter has to know that there are several."""
        return in_chunks(sequence, self.chunk, spare=1)

    def at(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """The chunks of positions, and their places in them."""
        number = torch.div(index, self.chunk, rounding_mode="floor")
        return number, index - number * self.chunk

    def cut(self, tokens: Tokens) -> Tokens:
        """Tokens in chunks [batch, head, chunk, place, …], with Γ in the place of decays."""
        places, inside = self.places(tokens.key)
        query, key, strength, decay = (gathered(each, places) for each in tokens)
        return Tokens(query, key, strength * inside.unsqueeze(-1), (decay * inside.unsqueeze(-1)).cumsum(-2))


class Decayed(Recurrence[Tokens]):
    """A state that fades (Dao & Gu 2024, eq. 3 and §6; Yang et al. 2024, gated linear attention).

    S_t = α_t S_{t-1} + β_t k_t v_tᵀ,  o_t = S_tᵀ q_t;  a_ij = q_iᵀ k_j β_j Π_{l=j+1}^{i} α_l, j ≤ i

    Shapes: as `Recurrence`; α is a number a token.
    """

    def prepare(self, query: Tensor, key: Tensor, mask: Tensor | None) -> Tokens:
        return self.there(query, key, mask)

    def sums(self, prepared: Tokens, value: Tensor) -> Tensor:
        query, key, strength, total = self.cut(prepared)
        value = strength * gathered(value, self.places(value)[0])
        end = total[..., -1:, :]
        stays = torch.diag_embed(end.exp().expand(*end.shape[:-2], 1, key.shape[-1]).squeeze(-2))
        before = states(stays, (key * (end - total).exp()).transpose(-2, -1) @ value)
        found = (query * total.exp()) @ before + compared(query, key, total) @ value
        return out_of_chunks(found, prepared.query.shape[2])

    def rows(self, prepared: Tokens, index: Tensor) -> Tensor:
        query, key, strength, decay = prepared
        # Differences of the sums are small where weights are not, and the sums may be large.
        total = decay.squeeze(-1).double().cumsum(-1)
        left = (total[:, :, index].unsqueeze(-1) - total.unsqueeze(-2)).clamp(max=0).to(query.dtype)
        before = index.unsqueeze(-1) >= torch.arange(key.shape[2], device=key.device)
        return query[:, :, index] @ (key * strength).transpose(-2, -1) * left.exp() * before


class Corrections(NamedTuple):
    """Chunks of `Delta`: what a token of one is asked and writes, as linear maps.

    own [batch, head, chunk, place, place]: of what is written in the chunk; written, of the same shape: from values to
    that, without what the state held; asked [batch, head, chunk, place, d_k]: of the state before the chunk; key, of
    the same shape: to the state behind it; stays [batch, head, chunk, d_k, d_k]: from state to state. tokens: how many.
    """

    own: Tensor
    written: Tensor
    asked: Tensor
    key: Tensor
    stays: Tensor
    tokens: int


class Delta(Recurrence[Corrections]):
    """The delta rule: a token takes away what the state held under its key (Yang et al. 2024, §3).

    S_t = (I - β_t k_t k_tᵀ) Diag(α_t) S_{t-1} + β_t k_t v_tᵀ,  o_t = S_tᵀ q_t

    α a number a token is the gated delta rule (eq. 10), a number a feature is Kimi's (Kimi Team 2025, eq. 1), 1 the
    delta rule alone. Of a chunk, what is written is U = T (β v - β e^Γ k S), S the state before it,
    T = (I + tril(β_i k_iᵀ k_j exp(Γ_i - Γ_j), -1))⁻¹. Weights of a query are read off backwards, chunk by chunk.

    Shapes: as `Recurrence`.
    Memory: with a decay of each feature, token × chunk × d_k numbers.
    """

    def prepare(self, query: Tensor, key: Tensor, mask: Tensor | None) -> Corrections:
        tokens = self.there(query, key, mask)
        query, key, strength, total = self.cut(tokens)
        written = inverse(strength * compared(key, key, total).tril(-1)) * strength.transpose(-2, -1)
        own, end = compared(query, key, total), total[..., -1:, :]
        kept, erased = key * (end - total).exp(), written @ (key * total.exp())
        stays = torch.diag_embed(end.exp().expand(*end.shape[:-2], 1, key.shape[-1]).squeeze(-2))
        return Corrections(
            own,
            written,
            query * total.exp() - own @ erased,
            kept,
            stays - kept.transpose(-2, -1) @ erased,
            tokens.query.shape[2],
        )

    def sums(self, prepared: Corrections, value: Tensor) -> Tensor:
        written = prepared.written @ gathered(value, self.places(value)[0])
        before = states(prepared.stays, prepared.key.transpose(-2, -1) @ written)
        return out_of_chunks(prepared.asked @ before + prepared.own @ written, prepared.tokens)

    def rows(self, prepared: Corrections, index: Tensor) -> Tensor:
        number, place = self.at(index)
        own, asked = prepared.own[:, :, number, place], prepared.asked[:, :, number, place]
        mine = number == torch.arange(prepared.own.shape[2], device=index.device).unsqueeze(-1)  # [chunk, row]
        found = of_ends(prepared.stays, asked, number) @ prepared.key.transpose(-2, -1)
        found = (found + own.unsqueeze(2) * mine.unsqueeze(-1)) @ prepared.written  # [batch, head, chunk, row, place]
        # Not reshaped: how many rows are asked for is not in their shape while a graph is exported.
        every = self.at(torch.arange(prepared.tokens, device=index.device))
        return found.transpose(-2, -1)[:, :, *every].transpose(-2, -1)


def gathered(sequence: Tensor, places: Tensor) -> Tensor:
    """[batch, head, position, …] at INT64 places [chunk, place]: as indexing, which exports with transposed copies."""
    return sequence.index_select(2, places.flatten()).unflatten(2, places.shape)


def compared(query: Tensor, key: Tensor, total: Tensor) -> Tensor:
    """Σ_d q_id k_jd exp(Γ_id - Γ_jd) for j ≤ i, else 0. Shapes: [..., place, d] or Γ [..., place, 1] -> [..., i, j]."""
    if total.shape[-1] == 1:
        return (query @ key.transpose(-2, -1) * (total - total.transpose(-2, -1)).clamp(max=0).exp()).tril()
    left = (total.unsqueeze(-2) - total.unsqueeze(-3)).clamp(max=0).exp()
    return (query.unsqueeze(-2) * left * key.unsqueeze(-3)).sum(-1).tril()


def inverse(lower: Tensor) -> Tensor:
    """(I + L)⁻¹ of matrices L [..., n, n] that are 0 on and above the diagonal.

    Inverses of blocks on the diagonal become those of blocks twice as large, n = 1, 2, 4, …: [[A, 0], [L, B]] has
    [[A⁻¹, 0], [-B⁻¹ L A⁻¹, B⁻¹]]. The product of I + (-L)^{2^n}, as exact on paper, has terms of 1e8 where 32 keys are
    alike, which cancel.
    """
    size, made = lower.shape[-1], 1
    found = torch.eye(size, dtype=lower.dtype, device=lower.device)
    while made < size:
        block = torch.div(torch.arange(size, device=lower.device), made, rounding_mode="floor")
        between = (block.unsqueeze(-1) == block + 1) & (block % 2 == 0)
        found = found - found @ (lower * between) @ found
        made *= 2
    return found


def states(stays: Tensor, added: Tensor) -> Tensor:
    """The state before each chunk: M_{c-1} S_{c-1} + N_{c-1}, none before the first.

    Shapes: M [batch, head, chunk, d_k, d_k], N [batch, head, chunk, d_k, d_v] -> as N.
    """
    heads, d_k = stays.shape[1], stays.shape[-1]

    def step(left: Tensors, now: Tensor) -> tuple[Tensors, Tensors]:
        (state,), both = left, now.unflatten(-1, (heads, d_k, -1))
        return (both[..., :d_k] @ state + both[..., d_k:],), (state,)

    inputs = torch.cat([stays, added], -1).transpose(1, 2).flatten(2)
    (found,) = in_turn(step, (torch.zeros_like(added[:, :, 0]),), inputs)
    return found.permute(1, 2, 0, 3, 4)


def of_ends(stays: Tensor, asked: Tensor, number: Tensor) -> Tensor:
    """What queries ask of the state at the end of each chunk, backwards from their own; nothing of that and later ones.

    Shapes: M [batch, head, chunk, d_k, d_k], asked [batch, head, row, d_k] of the state before the chunk of INT64
        number [row] -> [batch, head, chunk, row, d_k].
    """
    heads, d_k = stays.shape[1], stays.shape[-1]
    numbers = torch.arange(stays.shape[2], device=stays.device).to(stays.dtype)

    def step(left: Tensors, now: Tensor) -> tuple[Tensors, Tensors]:
        (asks,), here = left, (number == now[:, -1:]).unsqueeze(1).unsqueeze(-1)  # [batch, 1, row, 1]
        return (asks @ now[:, :-1].unflatten(-1, (heads, d_k, d_k)) + asked * here,), (asks,)

    inputs = torch.cat([stays.transpose(1, 2).flatten(2), numbers.expand(stays.shape[0], -1).unsqueeze(-1)], -1)
    (found,) = in_turn(step, (torch.zeros_like(asked),), inputs.flip(1))
    return found.flip(0).permute(1, 2, 0, 3, 4)
