"""Details that the registry's small instances do not show: options, training modes, decoders that go step by step."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from torch import Tensor

from limelight_models.attention import Attention, Context, ShapeError, masks
from limelight_models.attention.align import (
    DeAttention,
    DistanceAware,
    GaussianGrid,
    Hard,
    HardMonotonic,
    LocalMonotonic,
    MonotonicChunkwise,
    PositionalMask,
    Reinforced,
    SelfAdaptiveTemperature,
)
from limelight_models.attention.align.monotonic import expected_alignment
from limelight_models.attention.align.reinforced import Selection
from limelight_models.attention.queries.multi_hop import MultiHop
from limelight_models.attention.queries.question_hop import QuestionHops
from limelight_models.attention.queries.transforms import AddContext, ContextAsQuery, QueryTransform
from limelight_models.attention.score import (
    Additive,
    CoverageAware,
    Dot,
    General,
    LocationAware,
    MultiDimensional,
    RelationAware,
)
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


def test_a_share_of_hard_draws_can_be_their_expected_value() -> None:
    """Xu et al. 2015, end of §4.1; which, uniform numbers of the queries say."""
    scores, align = torch.randn(1, 1, 3, 4), Hard(expected=0.5)
    context = Context(noise=torch.rand(scores.shape), query_noise=torch.tensor([[[0.2, 0.5, 0.9]]]))
    found = align(scores, None, context)
    torch.testing.assert_close(found[..., 0, :], scores[..., 0, :].softmax(-1))
    torch.testing.assert_close(found[..., 1:, :], Hard()(scores, None, context)[..., 1:, :])
    torch.testing.assert_close(align(scores, None, Context(noise=context.noise)), Hard()(scores, None, context))


@pytest.mark.parametrize(
    "score", [Additive(d_q=2, d_k=3, d_w=4, offset=True), MultiDimensional(d_q=2, d_k=3, d_w=4, d_v=5, offset=True)]
)
def test_an_offset_is_added_to_every_score(score: Additive | MultiDimensional) -> None:
    query, key = torch.randn(1, 1, 2, 2), torch.randn(1, 1, 3, 3)
    before = score(query, key, Context())
    assert score.importance.bias is not None
    score.importance.bias.data += 2
    torch.testing.assert_close(score(query, key, Context()), before + 2)


def test_expected_monotonic_alignment_equals_the_recursion_and_the_mean_of_draws() -> None:
    scores, mask = torch.randn(1, 1, 3, 6).double(), torch.rand(1, 1, 3, 6) > 0.2
    previous = torch.rand(1, 1, 3, 6).double().softmax(-1)
    for before in (None, previous):
        found = expected_alignment(scores, before, mask)[0, 0]
        for i in range(3):
            given = None if before is None else before[0, 0, i].numpy()
            expected = alignments.expected_monotonic(scores[0, 0, i].numpy(), mask[0, 0, i].numpy(), given)
            np.testing.assert_allclose(found[i].numpy(), expected, atol=1e-12)
    align = HardMonotonic(start=0.0).eval()
    noise = torch.rand(20_000, 1, 3, 6, generator=torch.Generator().manual_seed(2)).double()
    drawn = align(scores.expand(20_000, -1, -1, -1), mask, Context(noise=noise))
    torch.testing.assert_close(drawn.mean(0), expected_alignment(scores, None, mask)[0], atol=0.015, rtol=0)


def test_expected_monotonic_alignment_learns_as_the_recursion_does() -> None:
    """Gradients of the running sum in logarithms are those of the recursion, key by key."""
    scores, previous = torch.randn(2, 7).double().requires_grad_(), torch.rand(2, 7).double().requires_grad_()
    stop, reached, steps = scores.sigmoid(), torch.zeros(2).double(), []
    for j in range(7):
        reached = reached + previous[:, j]
        steps.append(stop[:, j] * reached)
        reached = reached * (1 - stop[:, j])
    direction = torch.randn(2, 7).double()
    wanted = torch.autograd.grad((torch.stack(steps, -1) * direction).sum(), (scores, previous))
    found = torch.autograd.grad((expected_alignment(scores, previous, None) * direction).sum(), (scores, previous))
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("width", [1, 2, 5, 9])
def test_chunks_share_what_their_stops_have(width: int) -> None:
    """Chiu and Raffel (2018), eq. 20 to 23, stop by stop, also where a chunk is wider than the text."""
    query, key, scores = torch.randn(2, 1, 3, 4), torch.randn(2, 1, 6, 4), torch.randn(2, 1, 3, 6)
    mask = torch.rand(2, 1, 1, 6) > 0.3
    context = Context(query=query, key=key, previous_weights=torch.rand(2, 1, 3, 6).softmax(-1) * mask)
    align = MonotonicChunkwise(width=width, chunk=Dot(), noise_scale=0.0).train()
    energy, stops = (query @ key.transpose(-2, -1)).masked_fill(~mask, -torch.inf), align.stops(scores, mask, context)
    wanted = torch.zeros_like(scores)
    for k in range(6):
        part = slice(max(0, k - width + 1), k + 1)
        wanted[..., part] += stops[..., [k]] * energy[..., part].softmax(-1).nan_to_num()
    torch.testing.assert_close(align(scores, mask, context), wanted)


def test_a_chunk_is_weighed_by_an_energy_of_its_own() -> None:
    """Attention stops at the third key by its scores; the two keys of the chunk share by the other energy alone."""
    scores = torch.tensor([[[[-1.0, -2.0, 3.0, 1.0]]]])
    key = torch.tensor([[[[5.0], [0.5], [-1.0], [7.0]]]])
    weights = MonotonicChunkwise(width=2, chunk=Dot()).eval()(
        scores, None, Context(query=torch.tensor([[[[2.0]]]]), key=key)
    )
    torch.testing.assert_close(weights[0, 0, 0, 1:3], torch.tensor([1.0, -2.0]).softmax(-1))
    assert weights[0, 0, 0, [0, 3]].sum() == 0


def test_a_monotonic_energy_starts_below_its_score_and_learns_its_offset() -> None:
    scores = torch.full((1, 1, 1, 6), 0.5)
    assert HardMonotonic(start=-1.0).eval()(scores, None, Context()).sum() == 0  # 0.5 - 1 stops nowhere
    assert HardMonotonic(start=0.0).eval()(scores, None, Context())[..., 0] == 1
    align = HardMonotonic(noise_scale=0.0).train()
    assert align.offset.item() < 0
    expected = expected_alignment(scores - 1.0, None, None)
    torch.testing.assert_close(align(scores, None, Context()), expected)
    align(scores, None, Context())[..., -1].sum().backward()
    assert align.offset.grad.abs().item() > 0


def test_a_monotonic_step_stops_at_the_first_likely_key_from_the_last_steps_on() -> None:
    """By hand: a key is likely where its score is above 0; after a step that stops nowhere none does."""
    align, previous, place = HardMonotonic(start=0.0).eval(), None, 0
    for _ in range(6):
        scores = torch.randn(1, 1, 1, 9)
        previous = align(scores, None, Context(previous_weights=previous))
        place = next((key for key in range(place, 9) if scores[0, 0, 0, key] > 0), 9)
        assert previous.flatten().tolist() == [float(key == place) for key in range(9)]


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


def test_both_samplers_choose_by_their_own_noise_and_unchosen_queries_see_nothing() -> None:
    align = Reinforced(d_k=3, d_hidden=4, d_q=3).eval()
    tokens = torch.randn(1, 1, 5, 3)
    always, never = torch.zeros(1, 1, 5, 5), torch.ones(1, 1, 5)
    context = Context(query=tokens, key=tokens, noise=always, query_noise=never)
    assert align(torch.zeros(1, 1, 5, 5), None, context).sum() == 0  # all keys are kept, no query is
    some = torch.tensor([[[0.0, 1.0, 0.0, 1.0, 1.0]]])
    weights = align(torch.zeros(1, 1, 5, 5), None, replace(context, query_noise=some))
    torch.testing.assert_close(weights.sum(-1).flatten(), torch.tensor([1.0, 0.0, 1.0, 0.0, 0.0]))
    inside = PositionalMask(mask=masks.diagonal_disabled, align=align)
    weights = inside(torch.zeros(1, 1, 5, 5), None, replace(context, query_noise=torch.zeros(1, 1, 5)))
    torch.testing.assert_close(weights[0, 0], (1 - torch.eye(5)) / 4)  # a token is no dependent of itself


def test_probabilities_of_all_choices_of_queries_and_keys_sum_to_one() -> None:
    align = Reinforced(d_k=3, d_hidden=4, d_q=2).double()
    context = Context(query=torch.randn(1, 1, 2, 2).double(), key=torch.randn(1, 1, 3, 3).double())
    logs = [
        align.log_probability(Selection(k[None, None, None], q[None, None, :, None]), None, context)
        for k in enumerated(3)
        for q in enumerated(2)
    ]
    torch.testing.assert_close(torch.stack(logs).exp().sum(), torch.tensor(1.0).double())


@pytest.mark.parametrize(("scale", "centred"), [(2.0, False), (1.0, False), (1.0, True), (2.0, True)])
def test_the_gate_of_de_attention_is_scaled_or_centred_as_asked(scale: float, centred: bool) -> None:
    query, key = torch.randn(2, 1, 3, 4).double(), torch.randn(2, 1, 5, 4).double()
    scores, mask = torch.randn(2, 1, 3, 5).double(), torch.rand(2, 1, 3, 5) > 0.3
    mask[0, 0, 1] = False
    align = DeAttention(scale=scale, centred=centred)
    found = align(scores, mask, Context(query=query, key=key))
    for b, i in product(range(2), range(3)):
        e, ok, q, keys = (t.numpy() for t in (scores[b, 0, i], mask[b, 0, i], query[b, 0, i], key[b, 0]))
        expected = alignments.de_attention(e, ok, q, keys, scale=scale, centred=centred)
        np.testing.assert_allclose(found[b, 0, i].numpy(), expected, atol=1e-12)


def test_temperature_follows_from_the_query_alone_at_the_first_step() -> None:
    query, scores = torch.randn(1, 1, 2, 3), torch.randn(1, 1, 2, 4)
    align = SelfAdaptiveTemperature(d_q=3, d_c=5)
    nothing = torch.zeros(1, 1, 2, 5)
    first = align(scores, None, Context(query=query))
    torch.testing.assert_close(align(scores, None, Context(query=query, previous_context=nothing)), first)
    later = align(scores, None, Context(query=query, previous_context=nothing + 1))
    assert (later - first).abs().max() > 1e-3
    with pytest.raises(ShapeError, match="previous context has 4 features"):
        align(scores, None, Context(query=query, previous_context=nothing[..., :4]))


def test_entropy_of_a_draw() -> None:
    scores = torch.log(torch.tensor([[0.5, 0.25, 0.25, 9.0], [1.0, 2.0, 3.0, 4.0]]))
    mask = torch.tensor([[True, True, True, False], [False] * 4])
    half = 0.5 * np.log(2) + 0.5 * np.log(4)
    torch.testing.assert_close(Hard().entropy(scores, mask), torch.tensor([half, 0.0], dtype=torch.float32))


@pytest.mark.parametrize("transform", [ContextAsQuery(), AddContext()], ids=lambda t: type(t).__name__)
def test_every_transform_of_a_query_in_two_hops(transform: QueryTransform) -> None:
    """By hand: dot products with what the transform makes of query and context."""
    query, key = torch.randn(1, 1, 3).double(), torch.randn(1, 4, 3).double()
    context, weights = MultiHop(hops=[Attention(score=Dot())] * 2, transform=transform)(query, key)
    first = alignments.softmax((key[0] @ query[0, 0]).numpy(), np.ones(4, bool))
    found = first @ key[0].numpy()
    asked = {ContextAsQuery: found, AddContext: query[0, 0].numpy() + found}[type(transform)]
    second = alignments.softmax(key[0].numpy() @ asked, np.ones(4, bool))
    np.testing.assert_allclose(weights[0, 0].numpy(), np.stack([first, second]), atol=1e-12)
    np.testing.assert_allclose(context[0, 0].numpy(), second @ key[0].numpy(), atol=1e-12)


def test_a_query_asks_with_what_was_found_beside_it() -> None:
    hops = MultiHop(
        hops=[Attention(score=General(d_q=6, d_k=3))] * 2, transform=AddContext(), context_in_query=True,
        average_first=True,
    ).double()  # fmt: skip
    query, key = torch.randn(1, 1, 3).double(), torch.randn(1, 4, 3).double()
    _, weights = hops(query, key)
    w = hops.hops[0].score.query_map.weight[0].T.detach().numpy()
    found = key[0].mean(0).numpy()
    own = query[0, 0].numpy() + found
    for hop in range(2):
        asked = w @ np.concatenate([own, found])
        row = alignments.softmax(key[0].numpy() @ asked, np.ones(4, bool))
        np.testing.assert_allclose(weights[0, 0, hop].detach().numpy(), row, atol=1e-12)
        found = row @ key[0].numpy()
        own = own + found


def test_a_question_is_reread_with_what_was_found_alone() -> None:
    ask, look = Attention(score=Dot()), Attention(score=General(d_q=6, d_k=3))
    hops = QuestionHops(steps=[(ask, look)], asks="context").double()
    question, features = torch.randn(1, 2, 3).double(), torch.randn(1, 4, 3).double()
    _, weights = hops(question, features)
    asked = features[0].mean(0).numpy()
    expected = alignments.softmax(question[0].numpy() @ asked, np.ones(2, bool))
    np.testing.assert_allclose(weights.question[0, 0, 0].detach().numpy(), expected, atol=1e-12)
    with pytest.raises(ValueError, match="asks must be one of query, context, both"):
        QuestionHops(steps=[(ask, look)], asks="nobody")
