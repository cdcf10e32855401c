"""The small graphs of the package are the ones that their text states, and do what their users expect."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from limelight_service.engine import graphs
from pages.graphs import TEXTS, TYPES, written


def run(name: str, feeds: dict[str, np.ndarray]) -> np.ndarray:
    session = onnxruntime.InferenceSession(graphs.graph(name), providers=["CPUExecutionProvider"])
    found: np.ndarray = session.run(None, feeds)[0]
    return found


def test_every_graph_has_a_text_and_every_text_a_graph() -> None:
    assert {path.stem for path in Path(graphs.__file__).parent.glob("*.onnx")} == set(TEXTS)


@pytest.mark.parametrize("name", TEXTS)
def test_a_graph_is_its_text(name: str) -> None:
    assert graphs.graph(name) == written(name)


@pytest.mark.parametrize("name", [name for name in TEXTS if "[]" not in TEXTS[name]])
def test_a_graph_with_shapes_is_valid(name: str) -> None:
    onnx.checker.check_model(onnx.load_from_string(graphs.graph(name)), full_check=True)


@pytest.mark.parametrize("kind", TYPES)
def test_rows_are_taken_and_parts_replaced_in_arrays_of_every_type(kind: str) -> None:
    dtype = np.dtype({"float": "float32", "double": "float64"}.get(kind, kind))
    array = (np.arange(12) % 5).reshape(4, 3).astype(dtype)
    taken = run(f"gather-{kind}", {"x": array, "i": np.array([3, 0, 3])})
    assert taken.dtype == dtype
    np.testing.assert_array_equal(taken, array[[3, 0, 3]])
    new = np.ones(2, dtype)
    expected = array.copy()
    expected[[1, 2], [0, 2]] = new
    changed = run(f"scatter-{kind}", {"x": array, "i": np.array([[1, 0], [2, 2]]), "u": new})
    np.testing.assert_array_equal(changed, expected)
