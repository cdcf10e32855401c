"""Embeddings that are counted: by hand where that is possible, and by what they must tell apart."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from limelight_models.data import embeddings, folder, rows
from limelight_models.index import recipe
from limelight_models.recipes.settings import Preset, Settings
from limelight_models.training.stop import Interrupted
from limelight_models.training.trainer import WEIGHTS
from tests.models.runs import order, run


def cosine(vectors: Tensor, first: int, second: int) -> float:
    return float(torch.cosine_similarity(vectors[first], vectors[second], dim=0))


def test_ngrams_by_hand() -> None:
    assert embeddings.ngrams("at") == {"<at", "at>", "<at>"}
    assert "<can" in embeddings.ngrams("cannot") and "annot" in embeddings.ngrams("cannot")


def test_a_decomposition_of_full_rank_gives_the_matrix_back() -> None:
    """U Σ Uᵀ of a symmetric positive matrix, up to the one scale of all vectors."""
    torch.manual_seed(0)
    half = torch.rand(6, 6)
    matrix = half @ half.T
    rows, columns = np.divmod(np.arange(36), 6)
    vectors = embeddings.decomposed(rows, columns, matrix.numpy().reshape(-1), (6, 6), 6)
    again = vectors @ vectors.T
    assert torch.allclose(again / again.norm(), matrix / matrix.norm(), atol=1e-4)


def test_numbers_are_of_size_one_however_little_there_is_to_decompose() -> None:
    two = np.array([0, 2])
    vectors = embeddings.decomposed(two, np.zeros(2, np.int64), np.full(2, 0.01), (3, 1), 4)
    assert torch.allclose(vectors.abs(), torch.tensor([[1.0, 0, 0, 0], [0, 0, 0, 0], [1, 0, 0, 0]]))


def test_words_in_the_same_company_are_alike_and_others_are_not() -> None:
    """2 and 3 stand between 4 and 5; 6 and 7 between 8 and 9; 1 never stands anywhere."""
    torch.manual_seed(0)
    texts = [(4, word, 5) for word in (2, 3)] * 5 + [(8, word, 9) for word in (6, 7)] * 5
    vectors = embeddings.of_neighbours(texts, vocabulary=10, d=4)
    assert cosine(vectors, 2, 3) > 0.99 and cosine(vectors, 6, 7) > 0.99 and cosine(vectors, 2, 6) < 0.1
    assert not vectors[:2].any() and vectors.shape == (10, 4)


def test_words_spelled_alike_are_alike_and_others_are_not() -> None:
    torch.manual_seed(0)
    words = {2: "walking", 3: "walked", 4: "interesting", 5: "interested"}
    vectors = embeddings.of_spelling(words, vocabulary=6, d=4)
    assert cosine(vectors, 2, 3) > cosine(vectors, 3, 4) and cosine(vectors, 4, 5) > cosine(vectors, 3, 4)
    assert not vectors[:2].any()


@pytest.mark.parametrize("texts", [[], [(2,), (3,)]])
def test_nothing_beside_anything_gives_zeros(texts: list[tuple[int, ...]]) -> None:
    assert not embeddings.of_neighbours(texts, vocabulary=4, d=3).any()


@pytest.mark.usefixtures("tiny")
def test_counted_embeddings_are_there_from_the_start_and_stay_through_an_interruption(
    documents: Path, tmp_path: Path
) -> None:
    run(order("dme", documents, tmp_path / "whole", epochs=2))
    broken = order("dme", documents, tmp_path / "broken", epochs=2)
    with pytest.raises(Interrupted):
        run(broken, ctrl_c_at=3)
    run(replace(broken, resume=True))
    whole, again = (load_file(tmp_path / name / WEIGHTS) for name in ("whole", "broken"))
    assert all(torch.equal(whole[name], again[name]) for name in whole)
    for name in ("neighbours", "spelling"):
        table = whole[f"tables.{name}.weight"]
        assert not table[0].any() and table[2:].any()


def test_a_hierarchy_may_begin_with_counted_embeddings_which_learn(documents: Path) -> None:
    han, dataset = recipe("han"), folder.load(documents, rows.DOCUMENTS)
    weights = []
    for counted in (False, True):
        preset = Preset(settings=Settings(), sizes={"d_embedding": 8, "counted": counted}, vocabulary=50)
        blueprint = han.prepare(dataset, preset)
        torch.manual_seed(0)
        network = han.build(blueprint)
        assert han.start is not None
        han.start(network, dataset, blueprint)
        table = network.get_parameter("embedding.weight")
        assert table.requires_grad
        weights.append(table.detach())
    drawn, made = weights
    assert not torch.equal(drawn, made)
    assert made[2:].square().mean().sqrt() < 0.2  # no louder than what is drawn
