"""The index of models: every name leads to a recipe, and none brings in the others."""

import subprocess
import sys

import pytest

from limelight_models.data.dataset import DataError
from limelight_models.index import recipe
from limelight_models.recipes.recipe import Recipe
from tests.kit.small import NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_name_leads_to_a_recipe(name: str) -> None:
    found = recipe(name)
    assert isinstance(found, Recipe) and {"tiny", "full"} <= set(found.presets)
    assert ("demo" in found.presets) == (found.builtin is not None)


def test_a_recipe_brings_in_no_other_model() -> None:
    code = "import sys; from limelight_models.index import recipe; recipe('han'); print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(result.stdout.split())
    assert "limelight_models.zoo.hierarchical.han" in loaded
    assert not [
        name
        for name in loaded
        if name.startswith(
            ("limelight_models.zoo.vision", "limelight_models.zoo.rnn", "limelight_models.catalogue.testbed")
        )
    ]


@pytest.mark.parametrize(
    ("name", "mechanism", "message"),
    [
        ("bert", "", "there is no model 'bert'; there are bahdanau"),
        ("han", "sparsemax", "only the model `mechanism` takes another"),
        ("mechanism", "", "say which mechanism"),
        ("mechanism", "soft", "there is no mechanism 'soft'"),
        ("mechanism", "sparsmax", "did you mean 'sparsemax'"),
        ("mechanism", "coverage penalty", "'coverage penalty' is there to train other mechanisms with"),
    ],
)
def test_what_is_not_there_is_said(name: str, mechanism: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        recipe(name, mechanism)
