"""The checks are worth something: each fails on a mechanism that is broken in the way it is there for."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from limelight_models.attention.align import Softmax
from limelight_models.attention.context import Context
from limelight_models.attention.core import Attention
from limelight_models.attention.score import General
from limelight_models.catalogue.mechanism import FEATURES, Mechanism, Sizes
from limelight_models.catalogue.registry import MECHANISMS
from tests.attention.checks import check_masked_keys_get_nothing, check_matches_oracle, check_normalised, run, shaken
from tests.oracles import ORACLES


def registered(name: str) -> Mechanism:
    return next(m for m in MECHANISMS if m.name == name)


class MaskDropped(Softmax):
    def forward(self, scores: Tensor, mask: Tensor | None, context: Context) -> Tensor:
        return super().forward(scores, None, context)


class Unnormalised(Softmax):
    def forward(self, scores: Tensor, mask: Tensor | None, context: Context) -> Tensor:
        return super().forward(scores, mask, context) * 1.01


class Swapped(General):
    """Query and key change places (they have the same number of positions in the test, so shapes agree)."""

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        return super().forward(key, query, context)


def general(*, score: type[General] = General, align: type[Softmax] = Softmax) -> Attention:
    built = Attention(score=score(d_q=FEATURES, d_k=FEATURES, heads=2), align=align())
    shaken(built)
    return built.eval()


def matches_oracle(module: Attention) -> None:
    mechanism = registered("general")
    check_matches_oracle(mechanism, module, mechanism.inputs(Sizes(2, 5, 5)), ORACLES["general"])


def masked_keys_get_nothing(module: Attention) -> None:
    mechanism = registered("general")
    inputs = mechanism.inputs(Sizes(2, 5, 5))
    check_masked_keys_get_nothing(run(mechanism, module, inputs)["weights"], inputs["mask"])


def normalised(module: Attention) -> None:
    mechanism = registered("general")
    check_normalised(run(mechanism, module, mechanism.inputs(Sizes(2, 5, 5)))["weights"])


def padding_changes_nothing(module: Attention) -> None:
    query, key = torch.randn(1, 2, 3, FEATURES), torch.randn(1, 2, 4, FEATURES)
    alone = module(query, key)[0]
    padded = torch.cat([key, torch.randn(1, 2, 2, FEATURES)], 2)
    mask = (torch.arange(6) < 4)[None, None, None]
    torch.testing.assert_close(module(query, padded, mask=mask)[0], alone)


@pytest.mark.parametrize("check", [matches_oracle, masked_keys_get_nothing, normalised, padding_changes_nothing])
def test_checks_pass_on_the_mechanism_itself(check: Callable[[Attention], None]) -> None:
    check(general())


@pytest.mark.parametrize(
    ("check", "broken"),
    [
        (matches_oracle, {"score": Swapped}),
        (matches_oracle, {"align": MaskDropped}),
        (matches_oracle, {"align": Unnormalised}),
        (masked_keys_get_nothing, {"align": MaskDropped}),
        (padding_changes_nothing, {"align": MaskDropped}),
        (normalised, {"align": Unnormalised}),
    ],
)
def test_checks_fail_on_a_broken_mechanism(check: Callable[[Attention], None], broken: dict[str, type]) -> None:
    with pytest.raises(AssertionError):
        check(general(**broken))
