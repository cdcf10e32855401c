"""The page of published models: it says what the models say, and every published model is on it."""

import sys

import pytest

from limelight_models.index import ZOO, module, published, recipe
from pages.models import made_here, row, train, trained_on
from research.replication.papers import CLAIMS, Claim
from tests.kit import small
from tests.kit.small import NAMES


def test_a_variant_is_of_the_model_with_the_longest_name() -> None:
    assert [published(each) for each in ("han-mean", "han-code", "han-code-supervised-uniform", "lcr-rot-hop-one")] == [
        "han",
        "han-code",
        "han-code",
        "lcr-rot-hop",
    ]
    assert train("han") == "`limelight train han`; also `-mean`"


@pytest.mark.parametrize("name", NAMES)
def test_a_variant_is_of_its_models_paper(name: str) -> None:
    assert small.card(name).description.citation == small.card(published(name)).description.citation


def test_data_that_are_made_here_are_named_as_the_command_line_names_them() -> None:
    assert made_here("rban", ()) == {"aspect-questions": "models/limelight_models/data/aspects.py"}
    assert list(made_here("transformer", trained_on()["transformer"])) == ["dates", "numbers", "reverse"]


def test_layers_are_not_counted() -> None:
    assert row("vit", None)[7] == "`encoder.N.self`"


@pytest.mark.parametrize("name", [name for name, entry in ZOO.items() if entry.row])
def test_a_file_begins_with_its_models_row(name: str) -> None:
    recipe(name)
    document = sys.modules[module(name)].__doc__
    assert document is not None
    assert f", {ZOO[name].row} (" in document.splitlines()[0]


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.better)
def test_a_claim_is_of_its_models_paper(claim: Claim) -> None:
    citation = small.card(claim.better).description.citation
    assert claim.paper == f"{citation.authors[0]} {citation.year}"
