"""Every mechanism exports to ONNX with its weights as outputs, at sizes that were not exported."""

import warnings
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
import torch
from torch import Tensor, nn

from limelight_export.tracing.shared_trace import MAX_MODELS_PER_TRACE
from limelight_export.tracing.trace import OPSET, without_needless_work
from limelight_models.catalogue.mechanism import Axes, Mechanism, Sizes, attention_inputs
from limelight_models.catalogue.registry import MECHANISMS
from tests.attention.checks import check_takes_part, shaken

pytestmark = pytest.mark.slow
EXPORTED = Sizes(2, 3, 5)
OTHERS = [Sizes(1, 1, 1), Sizes(3, 1, 7), Sizes(1, 6, 2), Sizes(4, 7, 9)]


EXPORTED_MECHANISMS = [m for m in MECHANISMS if m.served]
COLUMNS = {
    column: [m for m in EXPORTED_MECHANISMS if m.column == column]
    for column in dict.fromkeys(m.column for m in EXPORTED_MECHANISMS)
}
GROUPS = {
    f"{column} {begin}": mechanisms[begin : begin + MAX_MODELS_PER_TRACE]
    for column, mechanisms in COLUMNS.items()
    for begin in range(0, len(mechanisms), MAX_MODELS_PER_TRACE)
}


def source(mechanism: Mechanism) -> str:
    """Mechanisms with one source share inputs: those of one function, or what an `Attention` takes, as many heads."""
    if mechanism.make_inputs is None:
        return f"attention, {mechanism.heads} heads"
    return next(m.name for m in MECHANISMS if m.make_inputs is mechanism.make_inputs)


def example(mechanisms: list[Mechanism], sizes: Sizes, seed: int = 0) -> dict[tuple[str, str], Tensor]:
    """Inputs of a column, by source and name."""
    inputs: dict[tuple[str, str], Tensor] = {}
    for mechanism in mechanisms:
        if mechanism.make_inputs is not None:
            made = mechanism.inputs(sizes, seed)
        else:
            members = [m for m in mechanisms if source(m) == source(mechanism)]
            fields = tuple(sorted({f for m in members for f in m.context_fields}))
            made = attention_inputs(sizes, torch.Generator().manual_seed(seed), fields=fields, heads=mechanism.heads)
        inputs |= {(source(mechanism), name): tensor for name, tensor in made.items()}
    return inputs


class Together(nn.Module):
    """A column's mechanisms in one graph: one export and one session for all of them."""

    def __init__(self, mechanisms: list[Mechanism], names: list[tuple[str, str]]) -> None:
        super().__init__()
        self.mechanisms, self.names = mechanisms, names
        self.own = [list(m.inputs(EXPORTED)) for m in mechanisms]
        self.parts = nn.ModuleList(shaken(m.build()) for m in mechanisms)

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        inputs = dict(zip(self.names, tensors, strict=True))
        return tuple(
            output
            for mechanism, part, own in zip(self.mechanisms, self.parts, self.own, strict=True)
            for output in mechanism.call(part, {n: inputs[source(mechanism), n] for n in own})
        )


def axes_by_input(mechanisms: list[Mechanism]) -> dict[tuple[str, str], Axes]:
    """Names of the dynamic axes, told apart by source: what is a key here need not be as many there."""
    number = {name: n for n, name in enumerate(dict.fromkeys(map(source, mechanisms)))}
    return {
        (source(m), name): tuple(axis and f"{axis}_{number[source(m)]}" for axis in m.input_axes(name))
        for m in mechanisms
        for name in m.inputs(EXPORTED)
    }


@pytest.mark.parametrize("mechanisms", GROUPS.values(), ids=GROUPS)
def test_exported_graph_equals_pytorch(mechanisms: list[Mechanism], tmp_path: Path) -> None:
    inputs = example(mechanisms, EXPORTED)
    together = Together(mechanisms, list(inputs)).eval().requires_grad_(False)
    axes = axes_by_input(mechanisms)
    dims = {axis: torch.export.Dim(axis, min=1, max=512) for given in axes.values() for axis in given if axis}
    dynamic = tuple({i: dims[axis] for i, axis in enumerate(axes[key]) if axis} for key in inputs)
    names = [f"input_{n}" for n in range(len(inputs))]
    outputs = [f"{m.name}.{o}" for m in mechanisms for o in m.outputs]
    path = tmp_path / "together.onnx"
    with warnings.catch_warnings(), without_needless_work(), torch.no_grad():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            together, tuple(inputs.values()), dynamo=True, dynamic_shapes=(dynamic,), input_names=names,
            output_names=outputs, opset_version=OPSET, verbose=False,
        )  # fmt: skip
    program.save(path)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1  # more would wait awake between operators that take microseconds
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    for given, key in zip(session.get_inputs(), inputs, strict=True):
        fixed = [isinstance(size, int) for size in given.shape]
        assert fixed == [axis is None for axis in axes[key]], f"{key} lost a dynamic axis: {given.shape}"
    for seed, sizes in enumerate([EXPORTED, *OTHERS]):
        tensors = list(example(mechanisms, sizes, seed).values())
        found = session.run(outputs, {n: t.numpy() for n, t in zip(names, tensors, strict=True)})
        for name, value, expected in zip(outputs, found, together(*tensors), strict=True):
            np.testing.assert_allclose(value, expected.numpy(), atol=1e-5, rtol=1e-4, err_msg=f"{name} at {sizes}")
    for mechanism, part in zip(mechanisms, together.parts, strict=True):
        check_takes_part(mechanism, part)
