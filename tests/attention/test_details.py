"""What the small instances of the registry do not show: options, training modes, decoders that go step by step."""

from itertools import product

import numpy as np
import torch
from torch import Tensor

from models.attention import Attention, Context
from models.attention.align import (
    DistanceAware,
    GaussianGrid,
    Hard,
    HardMonotonic,
    LocalMonotonic,
    MonotonicChunkwise,
    Reinforced,
)
from models.attention.align.monotonic import expected_alignment
from models.attention.score import CoverageAware, Dot, LocationAware, RelationAware
from tests.oracles import alignments


def enumerated(size: int) -> list[Tensor]:
    return [torch.tensor(kept) for kept in product([False, True], repeat=size)]


def test_draws_of_hard_attention_follow_the_softmax() -> None:
    scores = torch.tensor([2.0, 0.0, -1.0, 5.0]).expand(20_000, 1, 1, 4)
    mask = torch.tensor([True, True, True, False])
    generator = torch.Generator().manual_seed(1)
    drawn = Hard()(scores, mask, Context(noise=torch.rand(scores.shape, generator=generator)))
    torch.testing.assert_close(drawn.mean((0, 1, 2))[:3], scores[0, 0, 0, :3].softmax(-1), atol=0.01, rtol=0)
    assert drawn[..., 3].sum() == 0


def test_log_probability_of_hard_attention_is_that_of_its_softmax() -> None:
    scores = torch.randn(1, 1, 2, 4)
    mask = torch.tensor([[True, True, False, True], [False] * 4])
    for key in (0, 1, 3):
        weights = torch.eye(4)[key] * mask
        expected = torch.log_softmax(scores[0, 0, 0, mask[0]], -1)[[0, 1, 3].index(key)]
        found = Hard().log_probability(weights.expand(1, 1, 2, 4), scores, mask)
        torch.testing.assert_close(found[0, 0], torch.stack([expected, torch.tensor(0.0)]))


def test_straight_through_is_one_key_forward_and_softmax_backward() -> None:
    scores, direction = torch.randn(2, 1, 3, 5), torch.randn(2, 1, 3, 5)
    ours, soft = scores.clone().requires_grad_(), scores.clone().requires_grad_()
    weights = Hard(straight_through=True).eval()(ours, None, Context())
    torch.testing.assert_close(weights, torch.nn.functional.one_hot(scores.argmax(-1), 5).float())
    (weights * direction).sum().backward()
    (soft.softmax(-1) * direction).sum().backward()
    torch.testing.assert_close(ours.grad, soft.grad)


def test_probabilities_of_all_selections_sum_to_one_and_have_the_gradient_of_the_expectation() -> None:
    align = Reinforced(d_k=3, d_hidden=4).double()
    context = Context(key=torch.randn(1, 1, 4, 3).double())
    mask = torch.tensor([True, True, False, True])[None, None, None]
    reward = torch.randn(8).double()
    selections = [torch.cat([s[:2], torch.tensor([False]), s[2:]])[None, None, None] for s in enumerated(3)]
    logs = torch.stack([align.log_probability(s, mask, context).squeeze() for s in selections])
    torch.testing.assert_close(logs.exp().sum(), torch.tensor(1.0).double())
    parameters = list(align.parameters())
    exact = torch.autograd.grad((logs.exp() * reward).sum(), parameters, retain_graph=True)
    reinforce = torch.autograd.grad((logs.exp().detach() * reward * logs).sum(), parameters)
    for one, other in zip(exact, reinforce, strict=True):
        torch.testing.assert_close(one, other)


def test_expected_monotonic_alignment_equals_the_recursion_and_the_mean_of_draws() -> None:
    scores, mask = torch.randn(1, 1, 3, 6).double(), torch.rand(1, 1, 3, 6) > 0.2
    previous = torch.rand(1, 1, 3, 6).double().softmax(-1)
    for before in (None, previous):
        found = expected_alignment(scores, before, mask)[0, 0]
        for i in range(3):
            given = None if before is None else before[0, 0, i].numpy()
            expected = alignments.expected_monotonic(scores[0, 0, i].numpy(), mask[0, 0, i].numpy(), given)
            np.testing.assert_allclose(found[i].numpy(), expected, atol=1e-12)
    align = HardMonotonic().eval()
    noise = torch.rand(20_000, 1, 3, 6, generator=torch.Generator().manual_seed(2)).double()
    drawn = align(scores.expand(20_000, -1, -1, -1), mask, Context(noise=noise))
    torch.testing.assert_close(drawn.mean(0), expected_alignment(scores, None, mask)[0], atol=0.015, rtol=0)


def test_monotonic_training_without_noise_is_the_expected_alignment() -> None:
    scores = torch.randn(1, 1, 2, 5)
    align = HardMonotonic(noise_scale=0.0).train()
    torch.testing.assert_close(align(scores, None, Context()), expected_alignment(scores, None, None))


def test_chunkwise_attention_uses_the_scores_where_it_gets_no_others() -> None:
    scores = torch.tensor([[[[-1.0, -2.0, 3.0, 1.0]]]])
    weights = MonotonicChunkwise(width=2).eval()(scores, None, Context())
    torch.testing.assert_close(weights[0, 0, 0, 1:3], scores[0, 0, 0, 1:3].softmax(-1))
    assert weights[0, 0, 0, [0, 3]].sum() == 0


def test_monotonic_steps_never_go_back() -> None:
    align, previous, places = HardMonotonic().eval(), None, []
    for _ in range(6):
        previous = align(torch.randn(1, 1, 1, 9) + 0.5, None, Context(previous_weights=previous))
        places.append(int(previous.argmax()) if previous.any() else 9)
    assert places == sorted(places)


def test_a_decoder_may_attend_step_by_step() -> None:
    query, key = torch.randn(1, 1, 5, 4), torch.randn(1, 1, 7, 4)
    for attention in (
        Attention(score=Dot(), align=LocalMonotonic(radius=1)),
        Attention(score=RelationAware(d=4, reach=2)),
    ):
        together = attention(query, key)[1]
        for t in range(5):
            step = Context(query_positions=torch.tensor([t]))
            torch.testing.assert_close(attention(query[:, :, [t]], key, context=step)[1], together[:, :, [t]])


def test_first_step_of_hybrid_scores_is_a_step_after_nothing() -> None:
    query, key = torch.randn(2, 1, 3, 4), torch.randn(2, 1, 5, 4)
    nothing = torch.zeros(2, 1, 3, 5)
    aware = LocationAware(d_q=4, d_k=4, d_w=3)
    torch.testing.assert_close(aware(query, key, Context()), aware(query, key, Context(previous_weights=nothing)))
    covered = CoverageAware(d_q=4, d_k=4, d_w=3)
    torch.testing.assert_close(covered(query, key, Context()), covered(query, key, Context(coverage=nothing)))


def test_distance_may_halve_weights_and_leave_them_undivided() -> None:
    distances = torch.tensor([0.0, 1.0, 2.0, 5.0]).expand(1, 1, 1, 4)
    context, scores = Context(distances=distances), torch.zeros(1, 1, 1, 4)
    weights = DistanceAware(radius=2, decay="halving", renormalise=False)(scores, None, context)
    torch.testing.assert_close(weights.squeeze(), torch.tensor([1.0, 0.5, 0.25, 0.0]) / 3)
    weights = DistanceAware(radius=2, decay="halving")(scores, None, context)
    torch.testing.assert_close(weights.squeeze(), torch.tensor([4.0, 2.0, 1.0, 0.0]) / 7)


def test_grid_on_an_image_is_the_product_of_a_grid_down_and_a_grid_across() -> None:
    rows, columns, filters = 4, 5, 2
    align = GaussianGrid(d_q=3, filters=filters, columns=columns)
    query = torch.randn(1, 1, 1, 3)
    found = align(torch.zeros(1, 1, 1, rows * columns), None, Context(query=query)).detach()
    assert found.shape == (1, 1, filters**2, rows * columns)
    x, y, log_variance, log_stride = align.parameters_of(query).detach().flatten().double().numpy()
    # DRAW has one stride for both directions, from the longer side.
    stride = np.log((max(rows, columns) - 1) / (columns - 1)) + log_stride
    across = alignments.gaussian_grid(columns, np.ones(columns, bool), filters, x, log_variance, stride)
    stride = np.log((max(rows, columns) - 1) / (rows - 1)) + log_stride
    down = alignments.gaussian_grid(rows, np.ones(rows, bool), filters, y, log_variance, stride)
    expected = np.einsum("ir,jc->ijrc", down, across).reshape(filters**2, rows * columns)
    np.testing.assert_allclose(found[0, 0].numpy(), expected, atol=1e-6)
