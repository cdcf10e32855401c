"""Training signals: their gradients, what padding does to them, and what they are for."""

from itertools import product

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from limelight_models.attention import Attention, Context, signals
from limelight_models.attention.align import AdaptiveSpan, Hard, Reinforced
from limelight_models.attention.align.reinforced import Selection
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.attention.score import CoverageAware, Dot, ScaledDot
from limelight_models.catalogue.examples import some
from limelight_models.catalogue.mechanism import Mechanism, Sizes
from limelight_models.catalogue.registry import MECHANISMS
from tests.attention.checks import in_double, run

SIGNALS = [m for m in MECHANISMS if m.column == "signals"]
each = pytest.mark.parametrize("mechanism", SIGNALS, ids=lambda m: f"{m.row} {m.name}")
NO_GRADIENT = ("reward", "baseline", "teacher", "selected", "gold", "rationale")  # targets and constants


@each
def test_gradients_are_right(mechanism: Mechanism) -> None:
    module = mechanism.build().double()
    inputs = in_double(mechanism.inputs(Sizes(2, 3, 4), seed=1))
    floats = {n: t.requires_grad_() for n, t in inputs.items() if t.is_floating_point() and n not in NO_GRADIENT}

    def function(*tensors: Tensor) -> Tensor:
        return mechanism.call(module, inputs | dict(zip(floats, tensors, strict=True)))[0]

    assert gradcheck(function, tuple(floats.values()), fast_mode=True)
    assert any(
        g is not None for g in torch.autograd.grad(function(*floats.values()).sum(), floats.values(), allow_unused=True)
    )


@each
@pytest.mark.parametrize("empty", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_half_precision_gives_what_the_same_numbers_give_in_double(
    mechanism: Mechanism, dtype: torch.dtype, empty: bool
) -> None:
    inputs = mechanism.inputs(Sizes(2, 3, 4))
    if empty:
        inputs = {n: torch.zeros_like(t) if n.endswith("mask") else t for n, t in inputs.items()}
    cast = {n: t.to(dtype) if t.is_floating_point() else t for n, t in inputs.items()}
    module = mechanism.build().to(dtype)
    found = run(mechanism, module, cast)
    exact = run(mechanism, module.double(), in_double(cast))
    tolerance = {torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 5e-2}[dtype]
    for name, value in found.items():
        torch.testing.assert_close(value.double(), exact[name], atol=tolerance, rtol=tolerance)


def masked_losses(extra: int) -> dict[str, Tensor]:
    """Every signal that takes masks, with `extra` masked queries and keys of junk at the end."""
    generator = torch.Generator().manual_seed(3)
    weights = torch.rand(2, 2, 3, 4, generator=generator).softmax(-1)
    value, vectors = torch.randn(2, 2, 4, 5, generator=generator), torch.randn(2, 2, 3, 5, generator=generator)
    selected, scores = some(generator, 2, 4), torch.randn(2, 4, generator=generator)
    logits = torch.randn(2, 4, 3, generator=generator)

    def longer(tensor: Tensor, *dimensions: int, junk: bool = True) -> Tensor:
        for dimension in dimensions:
            shape = list(tensor.shape)
            shape[dimension] = extra
            new = torch.rand(shape).to(tensor.dtype) if junk else torch.zeros(shape, dtype=tensor.dtype)
            tensor = torch.cat([tensor, new], dimension)
        return tensor

    queries, keys = longer(torch.ones(2, 3).bool(), 1, junk=False), longer(torch.ones(2, 4).bool(), 1, junk=False)
    # A masked key has no weight; a masked query has whatever it likes.
    grown = longer(longer(weights, 3, junk=False), 2)
    rows = queries.unsqueeze(1)
    teacher = grown.flip(0)
    return {
        "cross-entropy": signals.gold_cross_entropy(grown, teacher, rows),
        "squared error": signals.gold_squared_error(grown, teacher, rows),
        "overlap": signals.gold_overlap(grown, teacher, rows),
        "gates": signals.gold_gates(grown, teacher, rows),
        "distillation": signals.distillation_loss(grown, teacher, rows),
        "doubly stochastic": signals.doubly_stochastic_penalty(grown, queries, keys),
        "coverage": signals.coverage_penalty(grown, queries),
        "subspaces": signals.subspace_agreement(longer(value, 2), keys),
        "positions": signals.position_agreement(grown, queries),
        "outputs": signals.output_agreement(longer(vectors, 2), queries),
        "selection": signals.selection_log_probability(longer(selected, 1), longer(scores, 1), keys),
        "cost": signals.selection_cost(longer(selected, 1), keys),
        "lagging": signals.average_lagging(signals.slowest(signals.expected_delays(grown)), queries, keys),
        "spread": signals.spread(signals.expected_delays(grown), queries),
        "rationale": signals.rationale_loss(longer(logits, 1), longer(selected.long(), 1, junk=False), keys),
    }


def test_padding_changes_nothing() -> None:
    alone = masked_losses(0)
    for name, value in masked_losses(3).items():
        torch.testing.assert_close(value, alone[name], msg=name)


def rewards(positions: int) -> Tensor:
    return torch.tensor([1.0, -2.0, 0.5, 3.0][:positions], dtype=torch.float64)


@pytest.mark.parametrize("baseline", [0.0, 1.7])
def test_reinforce_is_unbiased_for_hard_alignment(baseline: float) -> None:
    """Averaged over all draws by their probability, the estimate is the gradient of the expected reward."""
    query, key = torch.randn(1, 1, 1, 3).double().requires_grad_(), torch.randn(1, 1, 4, 3).double()
    align, reward = Hard(), rewards(4)
    scores = query @ key.transpose(2, 3)
    probability = scores.softmax(-1).flatten()
    (exact,) = torch.autograd.grad((probability * reward).sum(), query, retain_graph=True)
    estimate = torch.zeros_like(exact)
    for choice in range(4):
        drawn = torch.zeros(1, 1, 1, 4).double().index_fill(3, torch.tensor(choice), 1)
        log_p = align.log_probability(drawn, scores, None).flatten()
        loss = signals.reinforce_loss(log_p, reward[choice : choice + 1], baseline)
        (gradient,) = torch.autograd.grad(loss, query, retain_graph=True)
        estimate -= probability[choice].detach() * gradient
    torch.testing.assert_close(estimate, exact)


def test_reinforce_is_unbiased_for_a_selection() -> None:
    """The same over all 2⁴ subsets, with the reward of the whole subset."""
    scores, reward = torch.randn(1, 4).double().requires_grad_(), rewards(4)
    subsets = torch.tensor(list(product([0.0, 1.0], repeat=4))).double()
    gain = (subsets * reward).sum(-1).square()  # no sum of single rewards
    log_p = signals.selection_log_probability(subsets, scores.expand(16, 4))
    (exact,) = torch.autograd.grad((log_p.exp() * gain).sum(), scores, retain_graph=True)
    weighted = signals.reinforce_loss(log_p, gain * log_p.exp().detach() * 16, 0.0)
    (gradient,) = torch.autograd.grad(weighted, scores)
    torch.testing.assert_close(-gradient, exact)
    torch.testing.assert_close(log_p.exp().sum(), torch.ones(()).double())


def test_reinforced_alignment_scores_its_selection_alike() -> None:
    align, mask = Reinforced(d_k=3, d_hidden=4), torch.tensor([True, True, False, True])[None, None, None]
    context = Context(key=torch.randn(1, 1, 4, 3))
    selection = torch.tensor([True, False, True, True])[None, None, None]
    ours = signals.selection_log_probability(selection, align.log_odds(mask, context).keys, mask)
    theirs = align.log_probability(Selection(selection), mask, context)
    torch.testing.assert_close(ours.flatten(), theirs.flatten())


def draws(count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Log-probabilities [draw, instance], rewards and scores of many draws of a hard choice."""
    scores = torch.tensor([0.3, -0.2, 0.1, 0.4]).requires_grad_()
    choice = torch.multinomial(scores.softmax(-1).detach(), count, replacement=True).reshape(-1, 4)
    return scores.log_softmax(-1)[choice], 10 + rewards(4).float()[choice], scores


def spread(baseline_of: object) -> float:
    """Variance of the gradient estimate over many small samples of four draws."""
    gradients = []
    log_p, reward, scores = draws(1600)
    for sample in range(log_p.shape[0]):
        one, gain = log_p[sample].unsqueeze(1), reward[sample].unsqueeze(1)
        loss = signals.reinforce_loss(one, gain, baseline_of(gain))
        gradients.append(torch.autograd.grad(loss, scores, retain_graph=True)[0])
    return float(torch.stack(gradients).var(0).sum())


def test_a_baseline_reduces_variance() -> None:
    """The other draws' mean reward as each draw's baseline (Kool et al. 2019, eq. 8)."""
    assert spread(lambda reward: (reward.sum(0, keepdim=True) - reward) / 3) < 0.3 * spread(lambda reward: 0.0)


def test_moving_baseline_follows_rewards_in_training_only() -> None:
    baseline = signals.MovingBaseline(momentum=0.5)
    assert baseline(torch.tensor([4.0, 8.0])) == 0  # what came before this draw
    assert baseline(torch.tensor([1.0])) == 3
    assert baseline.eval()(torch.tensor([99.0])) == 2
    assert baseline(torch.tensor([99.0])) == 2


def test_supervised_attention_moves_weights_to_the_gold_keys() -> None:
    for loss in (signals.gold_cross_entropy, signals.gold_squared_error, signals.gold_overlap):
        query, key = torch.zeros(1, 1, 2, 4, requires_grad=True), torch.eye(4)[None, None]
        gold = torch.tensor([[0, 0.5, 0.5, 0], [0, 0, 0, 0]])[None, None]
        optimiser = torch.optim.Adam([query], lr=0.2)
        for _ in range(60):
            optimiser.zero_grad()
            loss(Attention(score=Dot()).weights(query, key), gold).backward()
            optimiser.step()
        weights = Attention(score=Dot()).weights(query, key)
        assert weights[0, 0, 0, 1:3].sum() > 0.9
        assert (query[0, 0, 1] == 0).all()  # nobody said where the second query should look


def test_syntax_head_trains_one_head_only() -> None:
    layer = MultiHead(attention=Attention(score=ScaledDot()), d_model=4, heads=2)
    tokens = torch.randn(1, 3, 4)
    _, weights = layer(tokens, tokens)
    signals.syntax_head_loss(weights, torch.tensor([[1, 1, -1]]), head=1).backward()
    gradient = layer.query_map.weight.grad
    assert (gradient[:2] == 0).all()
    assert (gradient[2:] != 0).any()


def test_preliminary_training_is_plugged_in_and_frozen() -> None:
    """Keys speak for one class, for the other, or say nothing: the weights come to be on those that speak."""
    first, second = (signals.RationaleAttention(d_k=4, classes=2) for _ in range(2))
    keys = torch.randn(16, 6, 4)
    kind = torch.where(keys[..., 0] > 0.6, 1, torch.where(keys[..., 0] < -0.6, 2, 0))
    optimiser = torch.optim.Adam(first.parameters(), lr=0.3)
    for _ in range(250):
        optimiser.zero_grad()
        signals.rationale_loss(first.logits(keys), kind).backward()
        optimiser.step()
    signals.transfer(first, second)
    _, weights = second(keys)
    torch.testing.assert_close(weights, first(keys)[1])
    speaking = weights[:, 0, 0][kind > 0].mean()
    assert speaking > 0.9
    assert weights[:, 0, 0][kind == 0].mean() < 0.5
    assert not any(p.requires_grad for p in second.parameters())
    assert all(p.requires_grad for p in first.parameters())


@pytest.mark.parametrize(("start", "bound"), [(-0.3, 0.0), (1.3, 10.0)])
def test_a_span_that_stepped_beyond_its_bounds_can_come_back(start: float, bound: float) -> None:
    align = AdaptiveSpan(max_span=10, ramp=4, start=start)
    assert align.span.item() == pytest.approx(bound, abs=1e-5)
    positions = torch.arange(13.0)
    weights = align(torch.zeros(1, 1, 1, 13), None, Context(query_positions=positions[:1], key_positions=positions))
    weights[..., 0].sum().backward()
    assert align.share.grad is not None and align.share.grad.item() < 0  # a longer span leaves less for the nearest key


def test_coverage_feeds_the_next_step() -> None:
    """Step by step with running coverage is the same as all steps at once with coverage()."""
    score = CoverageAware(d_q=3, d_k=3, d_w=4)
    attention = Attention(score=score)
    query, key, running, rows = torch.randn(2, 1, 4, 3), torch.randn(2, 1, 5, 3), torch.zeros(2, 1, 1, 5), []
    for step in range(4):
        _, weights = attention(query[:, :, step : step + 1], key, context=Context(coverage=running))
        rows.append(weights)
        running = running + weights
    together = torch.cat(rows, 2)
    _, again = attention(query, key, context=Context(coverage=signals.coverage(together)))
    torch.testing.assert_close(again, together)


def test_doubly_stochastic_penalty_is_nothing_where_every_key_is_seen_once() -> None:
    assert signals.doubly_stochastic_penalty(torch.eye(4)[None, None]) == 0
    assert signals.doubly_stochastic_penalty(torch.full((1, 1, 2, 4), 0.25)) == 4 * 0.25


def test_disagreement_is_between_its_bounds() -> None:
    same, apart = torch.ones(1, 2, 3, 4), torch.eye(2)[None, :, None].expand(1, 2, 3, 2)
    torch.testing.assert_close(signals.output_agreement(same), torch.ones(()))
    torch.testing.assert_close(signals.output_agreement(apart), torch.tensor(0.5))  # i = j counts as in the paper
    torch.testing.assert_close(signals.position_agreement(apart), torch.tensor(0.5))


def test_capsules_in_balance_weigh_the_right_class_as_much_as_all_others() -> None:
    """J of (0.5, 0.2, 0.4), the first right: 1 - 0.5 + 0.6 as in the paper, 1 - 0.5 + 0.3 in balance; U is 1."""
    probability, none, target = torch.tensor([[0.5, 0.2, 0.4]]), torch.zeros(1, 3, 2), torch.tensor([0])
    features = torch.ones(1, 4, 2)
    found = [float(signals.capsule_loss(probability, none, features, target, balanced=each)) for each in (False, True)]
    assert found == [pytest.approx(2.1), pytest.approx(1.8)]
    two = probability[:, :2], none[:, :2], features, target
    assert signals.capsule_loss(*two, balanced=True) == signals.capsule_loss(*two)


def test_delays_and_how_far_the_slowest_head_is_behind_by_hand() -> None:
    """Two heads, of four keys and two steps: the pace is two keys a step."""
    weights = torch.tensor([[[[1.0, 0, 0, 0], [0, 0, 0.5, 0.5]], [[0, 0, 1.0, 0], [0, 0, 0, 1.0]]]])
    delays = signals.expected_delays(weights)
    torch.testing.assert_close(delays, torch.tensor([[[1.0, 3.5], [3.0, 4.0]]]))
    last = signals.slowest(delays)
    share = torch.tensor([2.0, 0.5]).sigmoid()
    torch.testing.assert_close(last, (share * delays[:, 1] + (1 - share) * delays[:, 0]))
    torch.testing.assert_close(signals.spread(delays, torch.ones(1, 2).bool()), torch.tensor((1 + 0.25**2) / 2))
    queries, keys = torch.ones(1, 2).bool(), torch.ones(1, 4).bool()
    for g, lagging in (((1.0, 3.0), 1.0), ((4.0, 4.0), 4.0), ((3.0, 3.0), 3.0), ((2.0, 4.5), 2.25)):
        after = max(g[1], g[0] + 2)  # the second step is written when a step has passed behind the first
        assert lagging == (g[0] + after - 2) / 2
        torch.testing.assert_close(signals.average_lagging(torch.tensor([g]), queries, keys), torch.tensor(lagging))
