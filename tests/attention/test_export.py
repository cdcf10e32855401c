"""Every mechanism exports to ONNX with its weights as outputs, at sizes that were not exported."""

import warnings
from itertools import groupby
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
import torch
from torch import Tensor, nn

from models.attention.mechanism import Mechanism, Sizes, attention_inputs
from models.attention.registry import MECHANISMS
from tests.attention.checks import shaken

EXPORTED = Sizes(2, 3, 5)
OTHERS = [Sizes(1, 1, 1), Sizes(3, 1, 7), Sizes(1, 6, 2), Sizes(4, 7, 9)]


class Together(nn.Module):
    """Several mechanisms over the same inputs in one graph: one export and one session for all of them."""

    def __init__(self, mechanisms: list[Mechanism], names: list[str]) -> None:
        super().__init__()
        self.mechanisms, self.names = mechanisms, names
        self.parts = nn.ModuleList(shaken(m.build()) for m in mechanisms)

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        inputs = dict(zip(self.names, tensors, strict=True))
        return tuple(
            output
            for mechanism, part in zip(self.mechanisms, self.parts, strict=True)
            for output in mechanism.call(part, {n: inputs[n] for n in mechanism.inputs(EXPORTED)})
        )


def group(mechanism: Mechanism) -> str:
    """Mechanisms with the same inputs share a graph; the many of a column share one by having each other's fields."""
    if mechanism.make_inputs is not None:
        return f"{mechanism.column} {mechanism.name}"
    return f"{mechanism.column}, {mechanism.heads} heads"


EXPORTED_MECHANISMS = [m for m in MECHANISMS if m.exports]
GROUPS = {name: list(members) for name, members in groupby(sorted(EXPORTED_MECHANISMS, key=group), key=group)}


def example(mechanisms: list[Mechanism], sizes: Sizes, seed: int = 0) -> dict[str, Tensor]:
    """Inputs that serve all of a group."""
    first = mechanisms[0]
    if first.make_inputs is not None:
        return first.inputs(sizes, seed)
    fields = sorted({f for m in mechanisms for f in m.context_fields})
    return attention_inputs(sizes, torch.Generator().manual_seed(seed), fields=tuple(fields), heads=first.heads)


@pytest.mark.parametrize("mechanisms", GROUPS.values(), ids=GROUPS)
def test_exported_graph_equals_pytorch(mechanisms: list[Mechanism], tmp_path: Path) -> None:
    inputs = example(mechanisms, EXPORTED)
    names = list(inputs)
    together = Together(mechanisms, names).eval().requires_grad_(False)
    axes = [mechanisms[0].input_axes(n) for n in names]
    dims = {a: torch.export.Dim(a, min=1, max=512) for ax in axes for a in ax if a}
    dynamic = tuple({i: dims[a] for i, a in enumerate(ax) if a} for ax in axes)
    outputs = [f"{m.name}.{o}" for m in mechanisms for o in m.outputs]
    path = tmp_path / "together.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            together, tuple(inputs.values()), dynamo=True, dynamic_shapes=(dynamic,), input_names=names,
            output_names=outputs, verbose=False,
        )  # fmt: skip
    program.save(path)
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    for given, expected in zip(session.get_inputs(), axes, strict=True):
        fixed = [isinstance(size, int) for size in given.shape]
        assert fixed == [axis is None for axis in expected], f"{given.name} lost a dynamic axis: {given.shape}"
    for seed, sizes in enumerate([EXPORTED, *OTHERS]):
        tensors = example(mechanisms, sizes, seed)
        found = session.run(outputs, {n: t.numpy() for n, t in tensors.items()})
        for name, value, expected in zip(outputs, found, together(*tensors.values()), strict=True):
            np.testing.assert_allclose(value, expected.numpy(), atol=1e-5, rtol=1e-4, err_msg=f"{name} at {sizes}")
