"""Modules describe their weights as they are; cards claim nothing else."""

import pytest
import torch

from limelight_models.attention import Attention, masks
from limelight_models.attention.align import Hard, MonotonicChunkwise, PositionalMask, Tanh
from limelight_models.attention.context import Context
from limelight_models.attention.score import Additive, Concat, CoverageAware, LocationAware, ScaledDot, Score
from limelight_models.attention.score.prepared import PreparedKeys
from limelight_models.attention.weights import Weights, weights_of
from limelight_models.catalogue.mechanism import FEATURES


def test_a_module_that_does_not_say_is_refused_with_its_name() -> None:
    with pytest.raises(TypeError, match="Linear does not say what its weights are"):
        weights_of(torch.nn.Linear(2, 2))


def test_a_positional_mask_offers_what_is_inside_it() -> None:
    attention = Attention(score=ScaledDot(), align=PositionalMask(mask=masks.forward, align=Tanh()))
    assert attention.makes == (Weights(normalised=False, signed=True),)
    scores, noise = torch.randn(2, 1, 3, 3), torch.rand(2, 1, 3, 3)
    context = Context(noise=noise)
    masked = PositionalMask(mask=masks.everything, align=Hard())
    drawn, wanted = masked.signals(scores, None, context), Hard().signals(scores, None, context)
    assert set(drawn) == set(wanted) == {"log_probability", "entropy"}
    assert all(torch.equal(drawn[name], wanted[name]) for name in wanted)
    energy = ScaledDot()
    chunks = PositionalMask(mask=masks.everything, align=MonotonicChunkwise(width=2, chunk=energy)).eval()
    plain = MonotonicChunkwise(width=2, chunk=energy).eval()
    assert chunks.carries and torch.equal(
        chunks.carried(scores, None, Context()), plain.carried(scores, None, Context())
    )


@pytest.mark.parametrize(
    "score",
    [
        Additive(d_q=FEATURES, d_k=4, d_w=3),
        Concat(d_q=FEATURES, d_k=4, d_w=3),
        LocationAware(d_q=FEATURES, d_k=4, d_w=3),
        CoverageAware(d_q=FEATURES, d_k=4, d_w=3),
        ScaledDot(),
    ],
)
def test_prepared_keys_give_the_same_scores(score: Score) -> None:
    query = torch.randn(2, 1, 3, FEATURES)
    key = torch.randn(2, 1, 5, score.d_k or FEATURES)
    prepared = PreparedKeys(score)
    context = Context(previous_weights=torch.rand(2, 1, 3, 5), coverage=torch.rand(2, 1, 3, 5))
    found = prepared(query, prepared.prepare(key), context)
    torch.testing.assert_close(found, score(query, key, context))
