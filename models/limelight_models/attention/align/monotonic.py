"""Online alignments (C15): hard monotonic, and monotonic chunkwise (MoChA)."""

import torch
from torch import Tensor, nn

from limelight_models.attention.alignment import Align, in_single, keep, log_sigmoid, softmax
from limelight_models.attention.context import Context
from limelight_models.attention.errors import CombinationError
from limelight_models.attention.scoring import Score


def expected_alignment(scores: Tensor, previous: Tensor | None, mask: Tensor | None) -> Tensor:
    """Probability of stopping at each key, given where the step before stopped (Raffel et al. 2017, eq. 8–11).

    a_j = p_j Σ_{k≤j} a'_k Π_{k≤l<j} (1 - p_l), p = sigmoid(e); without a previous step, a' is all on the first key.
    A running sum in logarithms, so that no product can vanish; time and memory are query × key. A key whose a' is
    exactly 0 gets no gradient.
    """
    stop = keep(scores.sigmoid(), mask)
    # Behind a key that stops almost surely, differences of the sums are small, and the sums are not.
    passing = keep(log_sigmoid(-scores), mask).double()
    passed = passing.cumsum(-1) - passing  # Σ_{l<j} log(1 - p_l)
    if previous is not None:
        begun = previous.double().clamp_min(torch.finfo(torch.double).tiny).log()
        passed = passed + (begun - passed).logcumsumexp(-1)
    return stop * passed.exp().to(stop.dtype)


def first_stop(stops: Tensor, previous: Tensor | None) -> Tensor:
    """True at the first stop that is not before the previous step's. Shapes: stops [..., query, key]."""
    if previous is not None:
        stops = stops & (previous.cumsum(-1) > 0)
    return stops & (stops.int().cumsum(-1) == 1)


class HardMonotonic(Align):
    """Hard monotonic attention (Raffel et al. 2017, algorithm 1; survey C §8.1).

    serving: the first key j, not before the previous step's, with p_j > 1/2 (or noise_j < p_j), p = sigmoid(e + r)
    training: a_j = p_j Σ_{k≤j} a'_k Π_{k≤l<j} (1 - p_l), with normal noise of `noise_scale` added to the scores

    r is the learned offset of the energy, one a head. It starts below 0: where most keys stop attention with p = 1/2,
    the expectation reaches nothing but the first of them. Each row of scores is one output step of its own; the step
    before it is context.previous_weights (None: the first step). A step that stops nowhere gets zeros, and so do the
    steps after it.

    Shapes: scores [..., query, key], context.previous_weights and context.noise [batch, head, query, key]
        -> weights of the scores' shape, whose sums are at most 1.
    """

    normalised = False
    stochastic = True
    sparse = True
    shift_invariant = False
    scale_hardens = False
    key_order = True
    context_fields: tuple[str, ...] = ("previous_weights", "noise")

    def __init__(self, *, noise_scale: float = 1.0, heads: int = 1, start: float = -1.0) -> None:
        super().__init__()
        self.noise_scale = noise_scale
        self.offset = nn.Parameter(torch.full((heads, 1, 1), start))

    def forward(self, scores: Tensor, mask: Tensor | None, context: Context) -> Tensor:
        single, previous = in_single(scores + self.offset), context.previous_weights
        if self.training:
            noisy = single + self.noise_scale * torch.randn_like(single)
            return expected_alignment(noisy, previous, mask).to(scores.dtype)
        stops = single > 0 if context.noise is None else context.noise < single.sigmoid()
        return first_stop(stops if mask is None else stops & mask, previous).to(scores.dtype)


class MonotonicChunkwise(HardMonotonic):
    """Monotonic chunkwise attention, MoChA (Chiu & Raffel 2018, eq. 20–23; survey C §8.1).

    b_j = Σ_{k=j}^{j+w-1} a_k exp(u_j) / Σ_{l=k-w+1}^{k} exp(u_l), a from hard monotonic attention

    u is an energy of its own, `chunk`: any score of query and key. The previous step's weights must be those of the
    monotonic part, `stops`, because a chunk reaches back.

    Shapes: scores [..., query, key], context.query [batch, head, query, d_q], context.key [batch, head, key, d_k]
        -> weights of the scores' shape.
    Memory: query × key × width numbers.
    Raises: CombinationError at construction where `chunk` gives several scores a key or heads of its own; ShapeError
        where query or key do not fit it.
    """

    carries = True

    def __init__(
        self, *, width: int, chunk: Score, noise_scale: float = 1.0, heads: int = 1, start: float = -1.0
    ) -> None:
        super().__init__(noise_scale=noise_scale, heads=heads, start=start)
        if chunk.multidimensional or chunk.makes_heads:
            raise CombinationError(f"a chunk's energy is one score a key; {type(chunk).__name__} gives several")
        self.width, self.chunk, self.d_q = width, chunk, chunk.d_q
        self.needs_query = not chunk.query_free
        self.context_fields = tuple(dict.fromkeys((*super().context_fields, *chunk.context_fields)))

    def carried(self, scores: Tensor, mask: Tensor | None, context: Context) -> Tensor:
        return self.stops(scores, mask, context)

    def stops(self, scores: Tensor, mask: Tensor | None, context: Context) -> Tensor:
        """The monotonic part: where each step stops."""
        return super().forward(scores, mask, context)

    def forward(self, scores: Tensor, mask: Tensor | None, context: Context) -> Tensor:
        query, key = context.query, context.required("key", self)
        self.chunk.check(query, key)
        if query is None:
            query = key.new_zeros(()).expand(*key.shape[:2], 1, 1)  # one row, for an energy that ignores it
        chunk_scores = self.chunk(query, key, context).expand(scores.shape)
        keys, back = scores.shape[-1], torch.arange(self.width, device=scores.device)
        place = torch.arange(keys, device=scores.device).unsqueeze(-1)
        near, ahead = place - back, place + back  # of a stop, the keys of its chunk; of a key, the stops that reach it
        allowed, near = near >= 0, near.clamp(min=0)
        if mask is not None:
            allowed = allowed & mask.expand(*mask.shape[:-1], keys)[..., near]
        within = softmax(chunk_scores[..., near], allowed)  # [..., query, stop, back]
        shares = (self.stops(scores, mask, context).unsqueeze(-1) * within).flatten(-2)
        return (shares[..., ahead.clamp(max=keys - 1) * self.width + back] * (ahead < keys)).sum(-1)
