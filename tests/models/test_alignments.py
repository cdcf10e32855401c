"""Another alignment in the place of a published model's softmax."""

from pathlib import Path

import pytest
import torch

from limelight_models.attention.context import Context
from limelight_models.attention.core import Attention
from limelight_models.data.dataset import DataError
from limelight_models.index import recipe
from limelight_models.recipes import alignments
from limelight_models.recipes.alignments import ALIGNMENTS, exchange
from limelight_models.training.runs import read_run
from limelight_models.training.session import Order
from tests.kit import small
from tests.models.runs import run

# Their weights are a softmax of edges, a gate, windows, drawn, or an entmax already.


def test_weights_are_those_of_the_alignment() -> None:
    network = small.make("han")
    ids = small.document([4, 6, 2], 3)[None]
    soft = network(token_ids=ids, token_mask=ids != 0).maps["word"]
    assert exchange(network, ALIGNMENTS["sparsemax"]) == 2
    sparse = network(token_ids=ids, token_mask=ids != 0).maps["word"]
    assert torch.allclose(sparse.sum(-1), soft.sum(-1))
    # The scores are those of the softmax: log a, up to a constant.
    expected = alignments.Sparsemax()(soft.clamp_min(1e-30).log(), soft > 0, Context())
    assert torch.allclose(sparse, expected) and not torch.allclose(sparse, soft)


def test_a_control_keeps_its_control() -> None:
    network = recipe("han-frozen", attention="sparsemax").build(small.blueprint("han"))
    aligned = [each for each in network.modules() if isinstance(each, Attention)]
    assert aligned and all(isinstance(each.align, alignments.Sparsemax) for each in aligned)
    assert not any(parameter.requires_grad for each in aligned for parameter in each.score.parameters())


@pytest.mark.usefixtures("tiny")
def test_a_run_remembers_its_alignment_and_is_named_by_it(documents: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    wanted = Order(model="han", out=folder, data=str(documents), changes={"epochs": 1}, attention="1.5-entmax")
    assert run(wanted)
    found = read_run(folder)
    assert (found.attention, found.name) == ("1.5-entmax", "han-1-5-entmax")
    assert any(isinstance(each, alignments.Entmax15) for each in found.build().modules())


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(
    ("model", "attention", "message"),
    [
        (
            "han",
            "sparsmax",
            "there is no --attention 'sparsmax'; there are sparsemax, .*; did you mean 'sparsemax'",
        ),
        ("luong-local-m", "sparsemax", "luong-local-m has no softmax over scores"),
        ("mechanism", "sparsemax", "takes its attention with --mechanism"),
    ],
)
def test_what_cannot_be_exchanged_is_said_before_there_is_a_folder(
    pairs: Path, documents: Path, tmp_path: Path, model: str, attention: str, message: str
) -> None:
    data = documents if model == "han" else pairs
    folder = tmp_path / "run"
    with pytest.raises(DataError, match=message):
        run(Order(model=model, out=folder, data=str(data), changes={}, attention=attention))
    assert not folder.exists()
