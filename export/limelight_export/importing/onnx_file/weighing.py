"""Finds the tensors of a graph by which values are weighed, as attention does and probabilities of classes do not."""

from collections.abc import Iterator, Sequence

import onnx

# Operators that move, round, mask or join weights, and the places of the inputs that may hold them.
_KEEP = {
    **dict.fromkeys(("Identity", "Cast", "Dropout", "Slice", "Gather", "Transpose", "Squeeze", "Div"), (0,)),
    "Where": (1, 2),
    **dict.fromkeys(("Add", "Sub"), (0, 1)),  # weights that are the sum or the difference of others
}
# Operators that may give the weights the axis of the values' features.
_WIDEN = ("Unsqueeze", "Reshape", "Expand", "Tile")
_SUMS = ("ReduceSum", "ReduceMean")
# Operators between weights and the form in which a graph returns them.
_SHOWN = frozenset({*_KEEP, *_WIDEN, "ReduceMean", "ReduceSum"})


class WeighedValues:
    """Tells of a value of a graph whether it weighs values: a product with what follows from the inputs, summed."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self._makers = {name: node for node in graph.node for name in node.output}
        self._readers: dict[str, list[onnx.NodeProto]] = {}
        for node in graph.node:
            for name in dict.fromkeys(node.input):
                self._readers.setdefault(name, []).append(node)
        constants = {each.name for each in graph.initializer}
        self._given = {each.name for each in graph.input} - constants
        for node in graph.node:  # in the order in which they run
            if any(name in self._given for name in _read(node)):
                self._given.update(node.output)

    def weighs(self, name: str) -> bool:
        """Tell whether a value, or one that it only shows otherwise (moved, masked, averaged), weighs values."""
        waiting, seen = [(each, False) for each in self._shown(name)], set()
        while waiting:
            value, widened = now = waiting.pop()
            if now in seen:
                continue
            seen.add(now)
            for node in self._readers.get(value, ()):
                if self._weighs(value, node, widened=widened):
                    return True
                if node.op_type in _WIDEN or node.op_type == "Mul" or _holds(node, value):
                    waiting.append((node.output[0], widened or node.op_type in _WIDEN))
        return False

    def _shown(self, name: str) -> set[str]:
        waiting, seen = [name], set()
        while waiting:
            value = waiting.pop()
            node = self._makers.get(value)
            if value not in seen and node is not None and node.op_type in _SHOWN:
                waiting += [node.input[place] for place in _KEEP.get(node.op_type, (0,)) if place < len(node.input)]
            seen.add(value)
        return seen

    def _weighs(self, name: str, node: onnx.NodeProto, *, widened: bool) -> bool:
        if not any(each != name and each in self._given for each in node.input):
            return False
        summed = (each for made in node.output for each in self._readers.get(made, ()))
        is_sum = node.op_type == "Mul" and widened and any(each.op_type in _SUMS for each in summed)
        return node.op_type in ("MatMul", "Einsum") or is_sum


def _holds(node: onnx.NodeProto, name: str) -> bool:
    """Tell whether a node gives on the weights that it reads under a name."""
    places = _KEEP.get(node.op_type, ())
    return any(place < len(node.input) and node.input[place] == name for place in places)


def _read(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the values that a node reads, in its branches and loops too."""
    yield from node.input
    for attribute in node.attribute:
        graphs: Sequence[onnx.GraphProto] = [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]
        for graph in graphs:
            for each in graph.node:
                yield from _read(each)
