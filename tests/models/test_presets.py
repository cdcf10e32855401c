"""Presets: that the papers' sizes make a network of every published model."""

from dataclasses import asdict

import pytest
import torch

from limelight_models.index import ZOO, recipe
from tests.kit import examples

# How many times as large as the examples' pictures are: what the coarsest cells of the papers divide.
SCALE = 4


@pytest.mark.parametrize("name", [name for name in ZOO if "paper" in recipe(name).presets])
def test_every_published_model_has_the_sizes_of_its_paper(name: str) -> None:
    """As data make it, on a device that has shapes alone."""
    chosen = recipe(name)
    preset = chosen.presets["paper"]
    blueprint = chosen.prepare(examples.dataset(chosen.data, SCALE), preset)
    assert asdict(blueprint.config).items() >= preset.sizes.items()
    with torch.device("meta"):
        network = chosen.build(blueprint)
    assert all(each.is_meta for each in network.parameters())
    assert chosen.card(network, blueprint).description.maps


def test_only_what_no_paper_has_goes_without_sizes_of_a_paper() -> None:
    """The network of lines of code is this project's."""
    assert [name for name in ZOO if "paper" not in recipe(name).presets] == ["han-code"]
