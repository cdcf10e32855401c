"""Every mechanism gives what a brute-force transcription of its paper's equation gives."""

import pytest

from limelight_models.catalogue.mechanism import Mechanism, Sizes
from limelight_models.catalogue.registry import MECHANISMS
from tests.attention.checks import check_matches_oracle, check_takes_part, shaken
from tests.oracles import ORACLES


@pytest.mark.parametrize("sizes", [Sizes(2, 3, 5), Sizes(1, 6, 4), Sizes(2, 1, 1)], ids=str)
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: f"{m.row} {m.name}")
def test_equals_the_equation(mechanism: Mechanism, sizes: Sizes) -> None:
    module = shaken(mechanism.build())
    check_matches_oracle(mechanism, module, mechanism.inputs(sizes), ORACLES[mechanism.name])
    check_takes_part(mechanism, module)


def test_every_mechanism_has_an_oracle() -> None:
    assert {m.name for m in MECHANISMS} == set(ORACLES)
