"""ONNX nodes in the making."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from bundle.values import Array


class Nodes:
    """Nodes of a graph, or of one side of an If. What they put out is named after `prefix`, which makes it unique."""

    def __init__(self, prefix: str) -> None:
        self.list: list[onnx.NodeProto] = []
        self._prefix = prefix

    def add(self, operator: str, *inputs: str, output: str = "", domain: str = "", **attributes: Any) -> str:
        """Append a node with one output, and give its name."""
        name = output or self._name(operator)
        self.list.append(helper.make_node(operator, inputs, [name], f"node_{name}", domain=domain, **attributes))
        return name

    def constant(self, values: Array | np.generic) -> str:
        """Append a constant."""
        return self.add("Constant", value=numpy_helper.from_array(np.asarray(values)))

    def integers(self, *values: int) -> str:
        """Append a constant INT64 [n]."""
        return self.constant(np.array(values, np.int64))

    def empty(self, shape: Sequence[int]) -> str:
        """Append a FLOAT tensor of a shape that has no place."""
        zero = numpy_helper.from_array(np.zeros(1, np.float32))
        return self.add("ConstantOfShape", self.integers(*shape), value=zero)

    def choose(
        self,
        condition: str,
        then: "Callable[[Nodes], Sequence[str]]",
        otherwise: "Callable[[Nodes], Sequence[str]]",
        count: int,
    ) -> list[str]:
        """Append an If, whose sides append their own nodes and give the names of FLOAT tensors; gives `count` names."""
        names = [self._name(f"If{place}") for place in range(count)]
        sides: dict[str, Any] = {}
        for kind, make in (("then_branch", then), ("else_branch", otherwise)):
            nodes = Nodes(f"{names[0]}_{kind[:4]}_")
            outputs = [helper.make_tensor_value_info(each, onnx.TensorProto.FLOAT, None) for each in make(nodes)]
            sides[kind] = helper.make_graph(nodes.list, f"{names[0]}_{kind}", [], outputs)
        self.list.append(helper.make_node("If", [condition], names, f"node_{names[0]}", **sides))
        return names

    def rename(self, before: Sequence[str], after: Sequence[str]) -> None:
        """Give what some nodes put out other names; it must not be read inside of an If."""
        new = dict(zip(before, after, strict=True))
        for node in self.list:
            for names in (node.input, node.output):
                names[:] = [new.get(name, name) for name in names]

    def _name(self, operator: str) -> str:
        return f"{self._prefix}{len(self.list)}_{operator}"
