"""Weights in any order of axes become [batch, head, query, key], the same in NumPy, PyTorch and a graph."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnxruntime
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from limelight_export.importing.maps import MapSource
from limelight_export.importing.module import network
from limelight_export.importing.onnx_file.file import read_onnx
from limelight_export.importing.onnx_file.reference import as_map
from limelight_export.importing.onnx_file.surgery import GraphPart, part_graph
from limelight_export.interface import TensorSpec

SIZES = {"batch": 2, "head": 3, "query": 4, "key": 5, "batch*head": 6}
CANONICAL = ("batch", "head", "query", "key")


@st.composite
def sources(draw: st.DrawFn) -> MapSource:
    """Draw the axes of a tensor: the batch first, alone or with the heads in it."""
    folded = draw(st.booleans())
    rest = ["query", "key"] if folded else ["head", "query", "key"]
    kept = [axis for axis in rest if axis == "key" or draw(st.booleans())]
    axes = ("batch*head" if folded else "batch", *draw(st.permutations(kept)))
    return MapSource("weights", axes, SIZES["head"] if folded else 0)


def expected_map(weights: np.ndarray, source: MapSource) -> np.ndarray:
    """Put each number where its axes say, one by one."""
    sizes = {axis: SIZES[axis] if axis in source.axes or axis == "batch" else 1 for axis in CANONICAL}
    if source.heads:
        sizes["head"] = source.heads
    found = np.zeros([sizes[axis] for axis in CANONICAL], np.float32)
    for place in np.ndindex(*weights.shape):
        at = dict(zip(source.axes, place, strict=True))
        if source.heads:
            at["batch"], at["head"] = divmod(at["batch*head"], source.heads)
        found[tuple(at.get(axis, 0) for axis in CANONICAL)] = weights[place]
    return found


@settings(max_examples=40, deadline=None)
@given(source=sources(), dtype=st.sampled_from([np.float16, np.float32, np.float64]))
def test_weights_in_any_order_become_one_form(source: MapSource, dtype: type[np.floating]) -> None:
    shape = [SIZES[axis] for axis in source.axes]
    weights = np.random.default_rng(0).integers(0, 100, shape).astype(dtype)
    expected = expected_map(weights, source)
    np.testing.assert_array_equal(as_map(weights, source), expected)
    np.testing.assert_array_equal(network.as_map(torch.from_numpy(weights), source).numpy(), expected)
    np.testing.assert_array_equal(graph_map(weights, source, expected.shape), expected)


def graph_map(weights: np.ndarray, source: MapSource, shape: tuple[int, ...]) -> np.ndarray:
    """Run the graph that surgery makes of a file that passes its weights on."""
    kind = helper.np_dtype_to_tensor_dtype(weights.dtype)
    axes = [f"n{place}" for place in range(weights.ndim)]
    given_, inner = (helper.make_tensor_value_info(name, kind, axes) for name in ("given", "weights"))
    graph = helper.make_graph([helper.make_node("Identity", ["given"], ["weights"])], "g", [given_], [inner])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with TemporaryDirectory() as folder:
        (Path(folder) / "weights.onnx").write_bytes(made.SerializeToString())
        file = read_onnx(Path(folder) / "weights.onnx")
    part = GraphPart(
        name="main",
        inputs=[TensorSpec("given", weights.dtype, tuple(axes))],
        outputs={},
        maps={"map": (source, TensorSpec("map", np.dtype(np.float32), shape))},
    )
    session = onnxruntime.InferenceSession(
        part_graph(file, part).model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (found,) = session.run(["map"], {"given": weights})
    return np.asarray(found)
