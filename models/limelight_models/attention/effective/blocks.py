"""Softmax over chosen keys: queries in blocks, each of which reads a list of positions."""

from typing import NamedTuple

import torch
from torch import Tensor

from limelight_models.attention.alignment import softmax
from limelight_models.attention.effective.core import Effective
from limelight_models.attention.effective.kernel import chunk_places


class Lists(NamedTuple):
    """Which queries stand in a block, and which keys they read; INT64 positions.

    asked [batch or 1, head or 1, block, place]: each query once, where `home` finds it; others stand for none.
    home [batch or 1, head or 1, query]: where a query stands in `asked`, its last two axes taken as one.
    read [batch or 1, head or 1, block, slot]: no position twice in a block, -1 for none.
    """

    asked: Tensor
    home: Tensor
    read: Tensor


class Blocked(NamedTuple):
    """Queries and keys [batch, head, position, d], their lists, and the mask of keys [batch, 1, 1, key]."""

    query: Tensor
    key: Tensor
    lists: Lists
    mask: Tensor | None


class Blocks(Effective[Blocked]):
    """Scaled dot products with the keys of a query's list alone.

    c_i = Σ_{j ∈ S_i} softmax_{j ∈ S_i}(q_iᵀ k_j / √d) v_j

    S_i holds the keys that the block of i reads (`lists`, which a subclass gives), of which `within` may leave some
    out. Cost grows with the places of all blocks times their slots; a row costs as many dot products as there are keys.

    whole: how many queries, the first ones, read every key.

    Shapes: as `Effective`.
    """

    chooses = True

    def __init__(self, *, causal: bool = False, whole: int = 0) -> None:
        super().__init__(causal=causal)
        self.whole = whole

    def lists(self, query: Tensor, key: Tensor, mask: Tensor | None) -> Lists:
        """Blocks of queries, and what each reads."""
        raise NotImplementedError

    def within(self, query: Tensor, key: Tensor) -> Tensor:
        """Whether queries at these positions, INT64, attend to keys at these, which their blocks read."""
        return query >= key if self.causal else (query == query) & (key == key)

    def prepare(self, query: Tensor, key: Tensor, mask: Tensor | None) -> Blocked:
        return Blocked(query, key, self.lists(query, key, mask), mask)

    def sums(self, prepared: Blocked, value: Tensor) -> Tensor:
        query, key, (asked, home, read), mask = prepared
        allowed = (read >= 0).unsqueeze(-2) & self.within(asked.unsqueeze(-1), read.unsqueeze(-2))
        if mask is not None:
            allowed = allowed & gathered(mask.transpose(-2, -1), read).transpose(-2, -1)
        # [batch, head, block, place, slot]
        scores = scaled(gathered(query, asked)) @ gathered(key, read).transpose(-2, -1)
        found = gathered((softmax(scores, allowed) @ gathered(value, read)).flatten(2, 3), home)
        if not self.whole:
            return found
        place = torch.arange(query.shape[2], device=query.device)
        first = torch.arange(self.whole, device=query.device).clamp(max=query.shape[2] - 1)
        all_read = self.rows(prepared, first) @ value
        return torch.where(place.unsqueeze(-1) < self.whole, all_read[:, :, place.clamp(max=self.whole - 1)], found)

    def rows(self, prepared: Blocked, index: Tensor) -> Tensor:
        scores = scaled(prepared.query[:, :, index]) @ prepared.key.transpose(-2, -1)
        return softmax(scores, self.allowed(prepared, index, prepared.key, prepared.mask))

    def allowed(self, prepared: Blocked, index: Tensor, key: Tensor, mask: Tensor | None) -> Tensor:
        asked, home, read = prepared.lists
        count = key.shape[2]
        read = gathered(read, home[:, :, index] // asked.shape[-1])  # [batch or 1, head or 1, row, slot]
        # False everywhere, by what is there: an export takes it that there are as many rows as queries.
        nowhere = (read[..., :1] < -1) & (torch.arange(count + 1, device=key.device) < 0)
        places = torch.where(read < 0, count, read)
        listed = nowhere.scatter(-1, places, places >= 0)[..., :count]  # as many as there are, likewise
        place = index.unsqueeze(-1)
        found = (listed | (place < self.whole)) & self.within(place, torch.arange(count, device=key.device))
        return found if mask is None else found & mask


class Band(Blocks):
    """Scaled dot products with the keys at most `band` positions away.

    Shapes: as `Effective`.
    """

    def __init__(self, band: int) -> None:
        super().__init__()
        self.band = band

    def lists(self, query: Tensor, key: Tensor, mask: Tensor | None) -> Lists:
        return of_blocks(key, self.band, around(key, self.band, 1, 1)[None, None])

    def within(self, query: Tensor, key: Tensor) -> Tensor:
        return (query - key).abs() <= self.band


class LastKeys(Blocks):
    """Scaled dot products with the own key and so many before it: j ≤ i, i - j ≤ `before`.

    Shapes: as `Effective`.
    """

    def __init__(self, before: int) -> None:
        super().__init__(causal=True)
        self.before = before

    def lists(self, query: Tensor, key: Tensor, mask: Tensor | None) -> Lists:
        return of_blocks(key, self.before, around(key, self.before, 1, 0)[None, None])

    def within(self, query: Tensor, key: Tensor) -> Tensor:
        return (query >= key) & (query - key <= self.before)


def scaled(query: Tensor) -> Tensor:
    """q / √d, whose products with keys are scores."""
    return query * query.shape[-1] ** -0.5


def gathered(sequence: Tensor, places: Tensor) -> Tensor:
    """Rows of a sequence by one gather: any row for a place that is not in it.

    Shapes: sequence [batch, head, position, d], places INT64 [batch or 1, head or 1, …] -> [batch, head, …, d].
    """
    batch, heads, count = sequence.shape[:3]
    batches, head = (torch.arange(size, device=places.device) for size in (batch, heads))
    begin = (batches.unsqueeze(-1) * heads + head) * count
    return sequence.flatten(0, 2)[places.clamp(0, count - 1) + begin[(..., *[None] * (places.dim() - 2))]]


def in_blocks(sequence: Tensor, size: int) -> Tensor:
    """Positions of [batch, head, position, …] in blocks of one size, the last of which is spare: INT64 [block, place].

    Behind the end there are positions that are not. An export takes an axis of one block, which a short sequence would
    have without the spare one, for one that is always so short.
    """
    return chunk_places(sequence, size, spare=1)


def of_blocks(sequence: Tensor, size: int, chosen: Tensor) -> Lists:
    """Lists of queries that stand in a row in blocks of one size, as their keys do.

    Shapes: sequence [batch, head, position, d]; chosen INT64 [batch or 1, head or 1, block, slot], the blocks of keys
        that a block reads, each once: below 0, or behind the end, for none.
    """
    home = torch.arange(sequence.shape[2], device=chosen.device)
    read = (chosen.unsqueeze(-1) * size + torch.arange(size, device=chosen.device)).flatten(-2)
    return Lists(in_blocks(sequence, size)[None, None], home[None, None], there(sequence, read))


def of_each(sequence: Tensor, read: Tensor) -> Lists:
    """Lists of queries that read keys of their own, INT64 [batch or 1, head or 1, query, slot], each once."""
    home = torch.arange(sequence.shape[2], device=read.device)
    return Lists(home[None, None, :, None], home[None, None], there(sequence, read))


def largest(scores: Tensor, most: int) -> Tensor:
    """Places of so many of the largest scores […, place], -1 where fewer are above -∞: INT64 […, most].

    Scores are to differ: each runtime ranks equal ones in its own way.
    """
    none = torch.full_like(scores[..., :1], -torch.inf).expand(*scores.shape[:-1], most)  # a text may have fewer
    found = torch.cat([scores, none], -1).topk(most)
    return torch.where(found.values == -torch.inf, -1, found.indices)


def of_remainders(sequence: Tensor, stride: int) -> Lists:
    """Lists of queries in blocks of every stride-th position, a block for each remainder, which reads its own."""
    places = in_blocks(sequence, stride).T  # [remainder, turn]
    place = torch.arange(sequence.shape[2], device=sequence.device)
    home = place % stride * places.shape[1] + place // stride
    return Lists(places[None, None], home[None, None], there(sequence, places)[None, None])


def there(sequence: Tensor, places: Tensor) -> Tensor:
    """Places of a sequence [batch, head, position, …], -1 for those before and behind it."""
    return torch.where(places < sequence.shape[2], places, -1).clamp(min=-1)


def around(sequence: Tensor, size: int, before: int, after: int) -> Tensor:
    """The blocks around each, so many before and after: INT64 [block, slot], some of which there are not."""
    own = in_blocks(sequence, size)[:, :1] // size
    return own + torch.arange(-before, after + 1, device=sequence.device)
