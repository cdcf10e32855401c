"""Rows of thousands of keys, peaked ones above all: where rounding, ties and underflow show."""

import warnings
from pathlib import Path

import entmax
import numpy as np
import onnxruntime as ort
import pytest
import torch
from torch import Tensor, nn

from limelight_export.tracing.trace import without_needless_work
from limelight_models.attention import Attention, Context, masks
from limelight_models.attention.align import (
    Align,
    ConstrainedSoftmax,
    Entmax,
    Entmax15,
    KernelRatio,
    PositionalMask,
    Reinforced,
    Sparsemax,
    Tanh,
)
from limelight_models.attention.alignment import CAPABILITIES
from limelight_models.attention.score import RandomFeatures, ScaledDot
from limelight_models.zoo.long.stick_breaking import StickBreaking
from tests.oracles import alignments

LENGTHS = [1000, 8192]
PROJECTIONS = [
    (Sparsemax(), lambda s: entmax.sparsemax(s, -1)),
    (Entmax15(), lambda s: entmax.entmax15(s, -1)),
    (Entmax(alpha=1.5), lambda s: entmax.entmax15(s, -1)),
    (Entmax(alpha=1.3), lambda s: entmax.entmax_bisect(s, 1.3, -1, n_iter=100)),
]
each = pytest.mark.parametrize(
    ("align", "exact"), PROJECTIONS, ids=["sparsemax", "1.5-entmax", "entmax 1.5", "entmax 1.3"]
)


def peaked(length: int) -> Tensor:
    """One row a way to be peaked: far keys, keys just where the support ends, a plateau that shares a little."""
    generator = torch.Generator().manual_seed(length)
    rows = torch.empty(6, length).uniform_(-30, -10, generator=generator)
    rows[:, 0] = 0
    rows[1, 1:5] = torch.tensor([-0.3, -0.9, -1.4, -1.9])
    rows[2, 1] = -1.9999
    rows[3, 1:] = -1.8 - 0.01 * torch.rand(length - 1, generator=generator)  # thousands of keys at the border
    rows[4, 1:] = torch.randn(length - 1, generator=generator).clamp(max=3) - 4
    rows[5] = 3 * torch.randn(length, generator=generator)
    return rows[None, None]


@each
@pytest.mark.parametrize("length", LENGTHS)
def test_weights_in_single_precision_are_as_exact_as_single_precision_is(
    align: Align, exact: object, length: int
) -> None:
    scores = peaked(length)
    found = align(scores, None, Context())
    torch.testing.assert_close(found.double(), exact(scores.double()), atol=5e-7, rtol=1e-5)


@each
@pytest.mark.parametrize("length", LENGTHS)
def test_gradients_in_single_precision_too(align: Align, exact: object, length: int) -> None:
    ours, theirs = peaked(length).requires_grad_(), peaked(length).double().requires_grad_()
    direction = torch.randn(ours.shape)
    (align(ours, None, Context()) * direction).sum().backward()
    (exact(theirs) * direction.double()).sum().backward()
    torch.testing.assert_close(ours.grad.double(), theirs.grad, atol=2e-5, rtol=1e-3)


@each
def test_padding_of_a_long_row_changes_nothing(align: Align, exact: object) -> None:
    scores = peaked(1000)
    padded = torch.cat([scores, 5 + torch.rand(1, 1, 6, 7192)], -1)
    mask = torch.arange(8192) < 1000
    found = align(padded, mask, Context())
    torch.testing.assert_close(found[..., :1000], align(scores, None, Context()), atol=2e-7, rtol=1e-5)
    assert (found[..., 1000:] == 0).all()


@pytest.mark.parametrize("gap", [10.0, 700.0, 746.0, 2000.0, 1e4])
def test_constrained_softmax_gives_away_all_mass_however_far_the_other_keys_are(gap: float) -> None:
    scores = torch.tensor([0.0, -gap, -gap - 1, -gap - 2, -2 * gap]).double()
    bounds = torch.tensor([0.25, 0.4, 1.0, 1.0, 1.0]).double()
    found = ConstrainedSoftmax()(scores.expand(1, 1, 1, 5), None, Context(upper_bounds=bounds.expand(1, 1, 1, 5)))
    rest = np.exp([0.0, -1.0, 1 - gap])
    expected = [0.25, 0.4, *(0.35 * rest / rest.sum())]  # by hand: two saturate, the others share 0.35 by softmax
    np.testing.assert_allclose(found.flatten().numpy(), expected, atol=1e-12)


def test_constrained_softmax_has_gradients_where_the_best_key_is_bounded_and_far_ahead() -> None:
    scores = torch.tensor([0.0, -900.0, -901.0]).double().reshape(1, 1, 1, 3).requires_grad_()
    bounds = torch.tensor([0.5, 1.0, 1.0]).double().reshape(1, 1, 1, 3).requires_grad_()
    weights = ConstrainedSoftmax()(scores, None, Context(upper_bounds=bounds))
    weights[..., 1].sum().backward()
    share = torch.tensor([0.0, -1.0]).softmax(-1).double()
    torch.testing.assert_close(scores.grad.flatten()[1], 0.5 * share[0] * share[1])
    torch.testing.assert_close(bounds.grad.flatten(), torch.stack([-share[0], *torch.zeros(2)]).double())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_positive_random_features_stay_finite_where_their_kernel_is_large(dtype: torch.dtype) -> None:
    """Query and key point the same way, so that the kernel, exp(q·k / √d), is far beyond 65,504."""
    score = RandomFeatures(d=16, features=512, positive=True)
    furthest = 2 * score.directions[score.directions.norm(dim=-1).argmax()]  # d^¼ times the longest direction
    key = torch.stack([furthest, 0.9 * furthest, -furthest])[None, None].to(dtype)
    query = furthest[None, None, None].to(dtype)
    context, weights = Attention(score=score, align=KernelRatio())(query, key)
    assert weights.dtype == context.dtype == dtype
    kernel = [
        np.mean([
            np.exp(w @ (q + k) - (q @ q + k @ k) / 2) for w in score.directions.double().numpy()
        ])
        for q, k in ((query.double().flatten().numpy() / 2, k.double().numpy() / 2) for k in key[0, 0])
    ]  # fmt: skip
    assert max(kernel) > 65_504
    expected = torch.tensor(alignments.ratio(np.array(kernel), np.ones(3, bool)))
    tolerance = {torch.float16: 2e-3, torch.bfloat16: 2e-2, torch.float32: 1e-5}[dtype]
    torch.testing.assert_close(weights.flatten().double(), expected, atol=tolerance, rtol=0)


def test_a_positional_mask_is_what_the_alignment_inside_it_is() -> None:
    for inner in (Tanh(), KernelRatio(), Sparsemax(), ConstrainedSoftmax(), Reinforced(d_k=4, d_hidden=3)):
        outer = PositionalMask(mask=masks.window(2), align=inner)
        for capability in set(CAPABILITIES) - {"key_order"}:
            assert getattr(outer, capability) == getattr(inner, capability), (type(inner), capability)
        assert set(inner.context_fields) <= set(outer.context_fields)
        assert outer.key_order
    signed = Attention(score=ScaledDot(), align=PositionalMask(mask=masks.window(2), align=Tanh()))
    assert signed.signed
    assert not signed.normalised


class Rows(nn.Module):
    """The alignments that sort, and one of logarithms, over given scores."""

    def __init__(self) -> None:
        super().__init__()
        self.sorting = nn.ModuleList([Sparsemax(), Entmax15(), Entmax(alpha=1.3)])
        self.bounded, self.broken = ConstrainedSoftmax(), StickBreaking()

    def forward(self, scores: Tensor, gaps: Tensor, bounds: Tensor) -> tuple[Tensor, ...]:
        found = [align(scores, None, Context()) for align in self.sorting]
        broken = self.broken(-gaps, None, Context())
        return (*found, broken, self.bounded(gaps, None, Context(upper_bounds=bounds)))


def test_exported_graphs_are_as_exact(tmp_path: Path) -> None:
    gaps = torch.tensor([[0.0, -800.0, -801.0], [0.0, -1.0, -2.0], [-3000.0, 0.0, -5000.0]])[None, None]
    bounds = torch.tensor([0.25, 0.5, 1.0]).expand(gaps.shape)
    rows = Rows().eval()
    length, short = torch.export.Dim("length", min=2, max=10_000), torch.export.Dim("short", min=2, max=100)
    path = tmp_path / "rows.onnx"
    with warnings.catch_warnings(), without_needless_work():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            rows, (peaked(50), gaps, bounds), path, dynamo=True, verbose=False,
            input_names=["scores", "gaps", "bounds"], dynamic_shapes=({3: length}, {3: short}, {3: short}),
        )  # fmt: skip
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    feed = {"scores": peaked(8192).numpy(), "gaps": gaps.numpy(), "bounds": bounds.numpy()}
    *found, broken, bounded = session.run(None, feed)
    exact = peaked(8192).double()
    exactly = [PROJECTIONS[n][1] for n in (0, 1, 3)]
    for weights, function in zip(found, exactly, strict=True):
        torch.testing.assert_close(torch.from_numpy(weights).double(), function(exact), atol=5e-7, rtol=1e-5)
    with torch.no_grad():  # whose scores of thousands a sigmoid takes for exactly 1
        np.testing.assert_allclose(broken, rows.broken(-gaps.double(), None, Context()), atol=5e-7)
    by_hand = [[0.25, 0.5, 0.25]] * 3  # the first two saturate in every row, the third has what is left
    np.testing.assert_allclose(bounded[0, 0], by_hand, atol=1e-6)
