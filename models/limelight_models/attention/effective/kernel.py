"""Kernels by sums over keys: φ(q)ᵀ Σ φ(k) vᵀ, over all of them, or over those so far."""

from typing import NamedTuple

import torch
from torch import Tensor

from limelight_models.attention.effective.core import Effective
from limelight_models.attention.score.kernel import elu_plus_one
from limelight_models.in_turn import Tensors, in_turn

CHUNK = 128  # queries whose own keys a causal sum compares one by one


class Features(NamedTuple):
    """φ(q) [batch, head, query, m] and φ(k) [batch, head, key, m], zeros for keys that are not there.

    fading: log g [batch, head, key] of causal sums that fade: at each token, what was summed before it is times its g.
    """

    query: Tensor
    key: Tensor
    fading: Tensor | None = None


class Sums(NamedTuple):
    """Σ φ(k) vᵀ [batch, head, m, d_v] and Σ φ(k) [batch, head, m, 1] of the tokens so far."""

    values: Tensor
    keys: Tensor


class KernelSums(Effective[Features]):
    """Attention by a kernel κ(q, k) = φ(q)ᵀ φ(k) (Katharopoulos et al. 2020, eq. 4 to 6 and 9 to 12).

    c_i = φ(q_i)ᵀ S / φ(q_i)ᵀ z,  S = Σ_j φ(k_j) v_jᵀ,  z = Σ_j φ(k_j);  a_ij = φ(q_i)ᵀ φ(k_j) / φ(q_i)ᵀ z

    causal: both sums are over j ≤ i, and can be made token by token (`step`). A subclass gives φ in `features`. A query
    whose kernel values sum to nothing keeps them undivided.

    divides: whether sums are divided by φ(q_i)ᵀ z; without, the weights are φ(q_i)ᵀ φ(k_j).

    Shapes: as `Effective`.
    """

    divides = True

    def __init__(self, *, causal: bool = False, chunk: int = CHUNK) -> None:
        super().__init__(causal=causal)
        self.chunk = chunk

    def features(self, query: Tensor, key: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """φ(q) and φ(k); what φ says of keys that the mask leaves out is not read, and must be finite.

        Shapes: query, key [batch, head, position, d], mask boolean [batch, 1, key, 1] -> [batch, head, position, m].
        """
        raise NotImplementedError

    def prepare(self, query: Tensor, key: Tensor, mask: Tensor | None) -> Features:
        mask = None if mask is None else mask.transpose(-2, -1)
        asked, kept = self.features(query, key, mask)
        return Features(asked, kept if mask is None else kept * mask)

    def step(self, query: Tensor, key: Tensor, value: Tensor, before: Sums | None = None) -> tuple[Tensor, Sums]:
        """Context vectors of the next token of causal attention, from the sums before it, in time that does not grow.

        Shapes: query, key, value [batch, head, 1, d] -> context vectors [batch, head, 1, d_v], the sums with the token.
        """
        asked, kept = self.features(query, key, None)
        kept = kept.transpose(-2, -1)
        now = Sums(kept @ value, kept)
        now = now if before is None else Sums(before.values + now.values, before.keys + now.keys)
        found = asked @ now.values
        return self.divided(found, asked @ now.keys) if self.divides else found, now

    def read(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> tuple[Sums, Tensor]:
        """The sums behind the last token, from which `step` goes on, and φ(k) [batch, head, key, m]."""
        kept = self.prepare(query, key, mask).key
        turned = kept.transpose(-2, -1)
        return Sums(turned @ value, turned.sum(-1, keepdim=True)), kept

    def shares(self, query: Tensor, kept: Tensor, now: Sums) -> Tensor:
        """Weights of some keys [batch, head, query, key] among all that the sums are of, by their φ(k)."""
        asked, _ = self.features(query, query, None)
        return self.divided(asked @ kept.transpose(-2, -1), asked @ now.keys)

    def sums(self, prepared: Features, value: Tensor) -> Tensor:
        if not self.divides:
            return self.summed(prepared, value)
        counted = torch.cat([value, torch.ones_like(value[..., :1])], -1)  # sums of keys are those of values that are 1
        found = self.summed(prepared, counted)
        return self.divided(found[..., :-1], found[..., -1:])

    def divided(self, found: Tensor, total: Tensor) -> Tensor:
        """Sums over φ(q_i)ᵀ z, where that is not 0."""
        return found / torch.where(total == 0, torch.ones_like(total), total)

    def summed(self, prepared: Features, value: Tensor) -> Tensor:
        """φ(q_i)ᵀ Σ_j φ(k_j) v_jᵀ [batch, head, query, d_v]."""
        if self.causal:
            return causal_sums(*prepared, value, self.chunk)
        return prepared.query @ (prepared.key.transpose(-2, -1) @ value)

    def rows(self, prepared: Features, index: Tensor) -> Tensor:
        found = prepared.query[:, :, index] @ prepared.key.transpose(-2, -1)
        if self.causal:
            before = index.unsqueeze(-1) >= torch.arange(found.shape[-1], device=index.device)
            found = found * before
            if prepared.fading is not None:
                fading = prepared.fading.unsqueeze(2) * before  # of a query, of each token up to it
                found = found * (fading.flip(-1).cumsum(-1).flip(-1) - fading).exp()  # of all tokens behind a key
        return self.divided(found, found.sum(-1, keepdim=True)) if self.divides else found


class LinearAttention(KernelSums):
    """V'_i = φ(Q_i)ᵀ Σ_j φ(K_j) V_jᵀ / φ(Q_i)ᵀ Σ_j φ(K_j), φ(x) = elu(x) + 1 (Katharopoulos et al. 2020, eq. 4–7).

    Shapes: as `KernelSums`.
    """

    def features(self, query: Tensor, key: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        return elu_plus_one(query), elu_plus_one(key)


def causal_sums(query: Tensor, key: Tensor, fading: Tensor | None, value: Tensor, chunk: int) -> Tensor:
    """Σ_{j ≤ i} (q_iᵀ k_j) v_j, in time that grows with the positions: chunk by chunk, and by sums before each chunk.

    Shapes: query, key [batch, head, position, m], fading [batch, head, position] as `Features` has it, value [batch,
        head, position, d_v] -> as value.
    """
    count = key.shape[2]
    places, inside = in_chunks(key, chunk, spare=int(fading is not None))  # a loop's exporter has to know of several
    query, key, value = (each[:, :, places] for each in (query, key, value))  # [batch, head, chunk, place, …]
    key = key * inside.unsqueeze(-1)
    near = query @ key.transpose(-2, -1)
    if fading is None:
        before = before_each((key.transpose(-2, -1) @ value).cumsum(2))
    else:
        fading = (fading[:, :, places] * inside).cumsum(-1).unsqueeze(-1)  # from a chunk's begin to each place
        near = near * (fading - fading.transpose(-2, -1)).tril().exp()
        whole = fading[..., -1:, :]
        before = faded((key * (whole - fading).exp()).transpose(-2, -1) @ value, whole)
        query = query * fading.exp()
    return out_of_chunks(query @ before + near.tril() @ value, count)


def faded(sums: Tensor, fading: Tensor) -> Tensor:
    """Σ of the sums of chunks before each chunk, which fade. Shapes: [batch, head, chunk, m, d] and [..., 1, 1]."""

    def step(left: Tensors, now: Tensor) -> tuple[Tensors, Tensors]:
        (before,) = left
        return (before * now[..., -1:].exp() + now[..., :-1],), (before,)

    inputs = torch.cat([sums.flatten(3), fading.flatten(3)], -1).transpose(1, 2)  # [batch, chunk, head, …]
    (before,) = in_turn(step, (torch.zeros_like(inputs[:, 0, :, :-1]),), inputs)
    return before.permute(1, 2, 0, 3).unflatten(-1, sums.shape[-2:])


def in_chunks(sequence: Tensor, chunk: int, *, spare: int = 0) -> tuple[Tensor, Tensor]:
    """Cut the positions of [batch, head, position, …] into chunks, so many empty ones behind.

    Returns: INT64 and BOOL [chunk, place]: which position stands there, and whether one does. The last ones of the last
        chunk repeat the last position where none is left.
    """
    places, count = chunk_places(sequence, chunk, spare), sequence.shape[2]
    return places.clamp(max=count - 1), places < count


def chunk_places(sequence: Tensor, chunk: int, spare: int) -> Tensor:
    """The same INT64 [chunk, place] with positions that are not, behind the end."""
    chunks = torch.arange((sequence.shape[2] + chunk - 1) // chunk + spare, device=sequence.device)
    return chunks.unsqueeze(-1) * chunk + torch.arange(chunk, device=sequence.device)


def out_of_chunks(chunked: Tensor, count: int) -> Tensor:
    """Undo `in_chunks` for so many positions: [batch, head, chunk, place, d] -> [batch, head, position, d]."""
    return chunked.flatten(2, 3)[:, :, torch.arange(count, device=chunked.device)]


def before_each(totals: Tensor) -> Tensor:
    """Running totals up to each chunk's begin, of those to its end. Shapes: [batch, head, chunk, …] -> the same."""
    return torch.cat([torch.zeros_like(totals[:, :, :1]), totals[:, :, :-1]], 2)
