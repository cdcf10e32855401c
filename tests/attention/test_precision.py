"""Half precision and very large scores: no NaN, no infinity, masks still exact."""

import pytest
import torch

from limelight_models.attention.core import Attention
from limelight_models.attention.scoring import Score
from limelight_models.catalogue.mechanism import Mechanism, Sizes
from limelight_models.catalogue.registry import MECHANISMS
from tests.attention.checks import check_masked_keys_get_nothing, run, shaken

EXPORTED = [m for m in MECHANISMS if m.served]  # training signals are sums in float32
each = pytest.mark.parametrize("mechanism", EXPORTED, ids=lambda m: f"{m.row} {m.name}")


@each
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_close_to_single(mechanism: Mechanism, dtype: torch.dtype) -> None:
    module, inputs = shaken(mechanism.build()).eval(), mechanism.inputs(Sizes(2, 4, 6))
    half = {n: t.to(dtype) if t.is_floating_point() else t for n, t in inputs.items()}
    # The reference sees the same rounded numbers, so that only the computation differs.
    module = module.to(dtype).float()
    exact = run(mechanism, module, {n: t.float() if t.is_floating_point() else t for n, t in half.items()})
    rough = run(mechanism, module.to(dtype), half)
    tolerance = 0.02 if dtype == torch.float16 else 0.15
    for name, value in rough.items():
        assert value.dtype == dtype, name
        assert torch.isfinite(value).all(), name
        agree = (value.float() - exact[name]).abs() <= tolerance * (1 + exact[name].abs())
        # A rounded score may fall on the other side of a threshold, as rarely as that is.
        assert agree.float().mean() > 0.9, name


class Given(Score):
    """Scores that the test chose, as a kernel or not."""

    def __init__(self, scores: torch.Tensor, *, kernel: bool) -> None:
        super().__init__()
        self.scores, self.kernel = scores, kernel

    def forward(self, query: torch.Tensor, key: torch.Tensor, context: object) -> torch.Tensor:
        return self.scores


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    "mechanism",
    [m for m in MECHANISMS if m.column == "align" and m.make_inputs is None],
    ids=lambda m: f"{m.row} {m.name}",
)
def test_scores_of_ten_thousand_give_what_they_give_in_double(mechanism: Mechanism, dtype: torch.dtype) -> None:
    inputs = {n: t.to(dtype) if t.is_floating_point() else t for n, t in mechanism.inputs(Sizes(2, 4, 6)).items()}
    built = mechanism.build().to(dtype).eval()
    assert isinstance(built, Attention)
    signs = torch.randn(2, mechanism.heads, 4, 6).sign()
    scores = 1e4 * (signs.abs() if built.align.needs_kernel else signs)
    module = Attention(score=Given(scores.to(dtype), kernel=True), align=built.align).eval()
    weights = run(mechanism, module, inputs)["weights"]
    check_masked_keys_get_nothing(weights, inputs["mask"])
    # The same rounded scores and inputs in float64.
    exact = Attention(score=Given(scores.to(dtype).double(), kernel=True), align=built.align.double()).eval()
    expected = run(mechanism, exact, {n: t.double() if t.is_floating_point() else t for n, t in inputs.items()})
    tolerance = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}[dtype]
    close = (weights.double() - expected["weights"]).abs() <= tolerance * (1 + expected["weights"].abs())
    assert close.float().mean() > (0.999 if dtype == torch.float32 else 0.9)  # a drawn key may be another one
    exact.align.to(dtype)
    drawn = run(mechanism, module.train(), inputs)["weights"]
    assert torch.isfinite(drawn).all()
    check_masked_keys_get_nothing(drawn, inputs["mask"])


@each
def test_a_query_with_nothing_to_attend_to_gets_zeros(mechanism: Mechanism) -> None:
    inputs = mechanism.inputs(Sizes(2, 3, 5))
    if "mask" not in inputs or "weights" not in mechanism.outputs:
        pytest.skip("has masks or maps of its own")
    inputs["mask"] = torch.zeros_like(inputs["mask"])
    weights = run(mechanism, mechanism.build().eval(), inputs)["weights"]
    assert (weights == 0).all()
