"""Construction of ONNX nodes."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from limelight_bundle.values import Array


class NodeBuilder:
    """Builds the nodes of a graph or of one branch of an If. `prefix` makes the names of their outputs unique."""

    def __init__(self, prefix: str) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self._prefix = prefix

    def add(self, operator: str, *inputs: str, output: str = "", domain: str = "", **attributes: Any) -> str:
        """Append a node with one output, and return the output's name."""
        name = output or self._name(operator)
        self.nodes.append(helper.make_node(operator, inputs, [name], f"node_{name}", domain=domain, **attributes))
        return name

    def constant(self, values: Array | np.generic) -> str:
        """Append a constant."""
        return self.add("Constant", value=numpy_helper.from_array(np.asarray(values)))

    def integers(self, *values: int) -> str:
        """Append a constant INT64 [n]."""
        return self.constant(np.array(values, np.int64))

    def empty(self, shape: Sequence[int]) -> str:
        """Append an empty FLOAT tensor; `shape` has an axis of size 0."""
        zero = numpy_helper.from_array(np.zeros(1, np.float32))
        return self.add("ConstantOfShape", self.integers(*shape), value=zero)

    def if_else(
        self,
        condition: str,
        if_true: "Callable[[NodeBuilder], Sequence[str]]",
        if_false: "Callable[[NodeBuilder], Sequence[str]]",
        count: int,
    ) -> list[str]:
        """Append an If, and return the names of its outputs.

        Args:
            if_true, if_false: append the nodes of a branch, and return the names of its `count` FLOAT tensors.
        """
        names = [self._name(f"If{place}") for place in range(count)]
        sides: dict[str, Any] = {}
        for kind, make in (("then_branch", if_true), ("else_branch", if_false)):
            side = NodeBuilder(f"{names[0]}_{kind[:4]}_")
            outputs = [helper.make_tensor_value_info(each, onnx.TensorProto.FLOAT, None) for each in make(side)]
            sides[kind] = helper.make_graph(side.nodes, f"{names[0]}_{kind}", [], outputs)
        self.nodes.append(helper.make_node("If", [condition], names, f"node_{names[0]}", **sides))
        return names

    def rename(self, old_names: Sequence[str], new_names: Sequence[str]) -> None:
        """Rename outputs. They must not be read inside an If."""
        new = dict(zip(old_names, new_names, strict=True))
        for node in self.nodes:
            for names in (node.input, node.output):
                names[:] = [new.get(name, name) for name in names]

    def _name(self, operator: str) -> str:
        return f"{self._prefix}{len(self.nodes)}_{operator}"
