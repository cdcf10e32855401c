"""Attention of pixels where a graph knows how many there are: rows of its maps alone."""

import numpy as np
import onnxruntime as ort
import pytest

from limelight_export import interface
from limelight_export.execution import pytorch_runner
from limelight_export.tracing.build import build_graphs
from tests.kit import small


def test_as_many_rows_as_are_asked_for_are_those_of_the_whole_map(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interface, "_MIN_OPTIONAL_WEIGHTS", 1)
    trained = small.trained("axial")
    card, heads, queries = trained.card, np.array([1, 0]), np.array([17, 3, 95])
    (graph,) = build_graphs(pytorch_runner.copy_for_export(trained.model), card)
    session = ort.InferenceSession(graph.model.SerializeToString())
    rows = [card.preprocessor().row(each) for each in trained.examples]
    for each in (each.name for each in card.description.maps[: len(card.description.maps) // 2]):  # of the first layer
        given = {
            **card.collate(rows),
            f"{each}:gate": np.array(True),
            f"{each}:heads": heads,
            f"{each}:queries": queries,
        }
        whole, found = session.run([each, f"{each}:rows"], given)
        assert found.shape == (len(rows), 2, 3, 96)
        np.testing.assert_allclose(found, whole[:, heads][:, :, queries], atol=1e-6)
