"""Models as the exporter wants them: tensors by place in, a tuple of tensors out."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from export.errors import ExportError
from models.network import GeneratingNetwork, Network


class OnePass(nn.Module):
    """A model that answers in one pass: its outputs, its maps, and the ends of their edges, by these names."""

    def __init__(
        self,
        model: Network,
        inputs: Sequence[str],
        outputs: Sequence[str],
        maps: Sequence[str],
        edges: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self.model = model
        self._inputs, self._outputs, self._maps, self._edges = map(tuple, (inputs, outputs, maps, edges))

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        answer = self.model(**dict(zip(self._inputs, tensors, strict=True)))
        outputs = pick(answer.outputs, self._outputs, "output")
        # Ends of edges are often an input as it came, which no exported graph may put out: a copy it may.
        edges = [each.clone() for each in pick(answer.edges, self._edges, "index of edges")]
        return (*outputs, *pick(answer.maps, self._maps, "map"), *edges)


@dataclass(frozen=True)
class Part:
    """One part of a generating model: from its inputs by name to its outputs, in order."""

    run: Callable[[Mapping[str, Tensor]], list[Tensor]]
    inputs: tuple[str, ...]


class SideBySide(nn.Module):
    """The parts of a generating model side by side: what each takes are inputs of its own.

    So the parts have nothing in common but their weights, and can be cut apart again.
    """

    def __init__(self, model: GeneratingNetwork, parts: Sequence[Part]) -> None:
        super().__init__()
        self.model = model
        self._parts = tuple(parts)

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Take the inputs of one part after those of the other; give their outputs in the same order."""
        outputs: list[Tensor] = []
        first = 0
        for part in self._parts:
            own = tensors[first : first + len(part.inputs)]
            outputs += part.run(dict(zip(part.inputs, own, strict=True)))
            first += len(own)
        return tuple(outputs)


def pick(tensors: Mapping[str, Tensor], names: Sequence[str], kind: str) -> list[Tensor]:
    """Take tensors in order. Raises: ExportError naming the one that the model does not return."""
    for name in names:
        if name not in tensors:
            raise ExportError(f"the model returns no {kind} {name!r}, which its card states")
    return [tensors[name] for name in names]


def accepted(function: object, names: Sequence[str]) -> list[str]:
    """Tell which of these keyword arguments a method takes."""
    parameters = inspect.signature(function).parameters  # type: ignore[arg-type]
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values()):
        return list(names)
    return [name for name in names if name in parameters]
