"""Modules as the exporter needs them: positional tensors in, a tuple of tensors out."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from limelight_export.errors import ExportError
from limelight_models.network import GeneratingNetwork, Network


class SinglePassModule(nn.Module):
    """A single-pass model; returns its outputs, its maps, and the indices of their edges, in the given order."""

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
        outputs = select_tensors(answer.outputs, self._outputs, "output")
        # Edge indices are often an unchanged input, which a graph cannot output; a copy can be an output.
        edges = [each.clone() for each in select_tensors(answer.edges, self._edges, "index of edges")]
        return (*outputs, *select_tensors(answer.maps, self._maps, "map"), *edges)


@dataclass(frozen=True)
class ModelPart:
    """One part of a generating model: a function from inputs by name to outputs in order."""

    run: Callable[[Mapping[str, Tensor]], list[Tensor]]
    inputs: tuple[str, ...]


class CombinedParts(nn.Module):
    """The parts of a generating model in one module, each with inputs of its own.

    The parts share only weights, so the traced graph can be cut apart again.
    """

    def __init__(self, model: GeneratingNetwork, parts: Sequence[ModelPart]) -> None:
        super().__init__()
        self.model = model
        self._parts = tuple(parts)

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Run the parts in order on consecutive inputs, and return all outputs in order."""
        outputs: list[Tensor] = []
        first = 0
        for part in self._parts:
            own = tensors[first : first + len(part.inputs)]
            outputs += part.run(dict(zip(part.inputs, own, strict=True)))
            first += len(own)
        return tuple(outputs)


def select_tensors(tensors: Mapping[str, Tensor], names: Sequence[str], kind: str) -> list[Tensor]:
    """Return tensors in order. Raises ExportError for a name that the model does not return."""
    for name in names:
        if name not in tensors:
            raise ExportError(f"the card states the {kind} {name!r}, which the model does not return")
    return [tensors[name] for name in names]


def accepted_arguments(function: object, names: Sequence[str]) -> list[str]:
    """Return those of `names` that a method accepts as keyword arguments."""
    parameters = inspect.signature(function).parameters  # type: ignore[arg-type]
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values()):
        return list(names)
    return [name for name in names if name in parameters]
