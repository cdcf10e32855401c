"""A PyTorch module of other people behind the interface of a network."""

import dataclasses
import inspect
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn

from limelight_export.errors import ExportError
from limelight_export.importing.describe import ImportedCard
from limelight_export.importing.inputs import ModelInput
from limelight_export.importing.maps import MapSource
from limelight_export.importing.module.attention import finding_attention
from limelight_export.importing.observed import listed
from limelight_models.attention.export_markers import is_marking
from limelight_models.network import Answer, Network

# The name of what a module returns as a single tensor.
OUTPUT = "output"
_CANONICAL = ("batch", "head", "query", "key")


class ImportedModule(Network):
    """A module whose arguments and results have other names and forms than a card's tensors.

    Raises:
        ExportError: the module has no argument of a name that the card states.
    """

    def __init__(self, module: nn.Module, card: ImportedCard) -> None:
        super().__init__()
        self.module = module
        self._inputs, self._outputs, self._maps = card.inputs, card.outputs, card.maps
        _check_arguments(module, card.inputs)

    def described(self, card: ImportedCard) -> "ImportedModule":
        """Return the same module with the outputs and maps of a complete card."""
        return ImportedModule(self.module, card)

    def results(self, tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Call the module, and return the tensors that it returns, and the weights of its attention, by name.

        Raises:
            ExportError: the module fails, and is not being exported.
        """
        arguments = {name: _argument(self._inputs[name], tensor) for name, tensor in tensors.items()}
        try:
            with finding_attention(self.module) as found:
                returned = dict(_flatten(self.module(**arguments), ""))
        except Exception as error:  # a module raises anything
            if is_marking():
                raise
            shapes = {name: list(tensor.shape) for name, tensor in tensors.items()}
            reason = " ".join(str(error).split())
            raise ExportError(
                f"the module fails on inputs of the shapes {shapes}: {type(error).__name__}: {reason}"
            ) from error
        return returned, {name: each for name, each in found.weights.items() if name not in returned}

    def forward(self, **tensors: Tensor) -> Answer:
        """Answer a batch."""
        returned, found = self.results(tensors)
        results = {**found, **returned}
        return Answer(
            {name: as_float32(results[name]) for name in self._outputs if name in results},
            {name: as_map(results[each.output], each) for name, each in self._maps.items() if each.output in results},
        )


def _check_arguments(module: nn.Module, inputs: Mapping[str, ModelInput]) -> None:
    parameters = inspect.signature(module.forward).parameters
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values()):
        return
    named = [name for name, each in parameters.items() if each.kind is not inspect.Parameter.VAR_POSITIONAL]
    for name in inputs:
        if name not in named:
            raise ExportError(
                f"the card's inputs state the argument {name!r}, which {type(module).__name__}.forward does not take; "
                f"it takes {listed(named)}"
            )
    for name, each in parameters.items():
        if each.default is inspect.Parameter.empty and name in named and name not in inputs:
            raise ExportError(
                f"{type(module).__name__}.forward needs the argument {name!r}, which no input of the card states"
            )


def _argument(stated: ModelInput, tensor: Tensor) -> Tensor:
    if stated.channels_last:
        return tensor.permute(0, 2, 3, 1)
    if not stated.mask:
        return tensor
    for axis in stated.dropped:
        tensor = tensor.select(axis, 0)
    tensor = ~tensor if stated.inverted else tensor
    dtype: torch.dtype = getattr(torch, stated.dtype)
    return tensor.to(dtype)


def _flatten(value: object, name: str) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors of what a module returned, with dotted names: keys, fields or positions."""
    parts: Sequence[tuple[object, object]] = []
    match value:
        case Tensor():
            yield name or OUTPUT, value
            return
        case Mapping():
            parts = list(value.items())
        case tuple() if hasattr(value, "_fields"):
            parts = list(zip(value._fields, value, strict=True))
        case tuple() | list():
            parts = list(enumerate(value))
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            parts = [(each.name, getattr(value, each.name)) for each in dataclasses.fields(value)]
    for key, part in parts:
        yield from _flatten(part, f"{name}.{key}" if name else str(key))


def as_float32(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.is_floating_point() and tensor.dtype != torch.float32 else tensor


def as_map(weights: Tensor, source: MapSource) -> Tensor:
    """Return weights as [batch, head, query, key]."""
    weights, axes = as_float32(weights), list(source.axes)
    if source.heads:
        weights, axes = weights.reshape(-1, source.heads, *weights.shape[1:]), ["batch", "head", *axes[1:]]
    if axes != [axis for axis in _CANONICAL if axis in axes]:
        weights = weights.permute([axes.index(axis) for axis in _CANONICAL if axis in axes])
    for place, axis in enumerate(_CANONICAL):
        if axis not in axes:
            weights = weights.unsqueeze(place)
    return weights
