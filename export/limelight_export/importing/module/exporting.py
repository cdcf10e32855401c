"""Export of a PyTorch module with a card in plain Python."""

import copy
import io
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from limelight.base.errors import InputError
from limelight.base.values import Image, to_instance
from limelight_bundle.errors import BundleError
from limelight_bundle.reader import BundleFolder
from limelight_bundle.values import Array, Instance
from limelight_bundle.wire import instance_from_wire
from limelight_export.errors import ExportError
from limelight_export.execution.pytorch_runner import to_tensors
from limelight_export.execution.random_inputs import RandomInputs, collate_rows
from limelight_export.importing import cards
from limelight_export.importing.describe import card_of_inputs, complete_card
from limelight_export.importing.maps import unnamed, with_found_maps
from limelight_export.importing.module.network import ImportedModule
from limelight_export.importing.numbers import as_numbers
from limelight_export.importing.observed import LARGEST_SIZE, Observed, listed, observed_sizes
from limelight_export.importing.references import check_enough
from limelight_export.pipeline import export_model
from limelight_models.cards.card import Card, TrainedModel, TrainingData

_NO_MAPS = (
    "no attention was found in the module, so its answers have no maps; calls of F.scaled_dot_product_attention and "
    "nn.MultiheadAttention are found, and weights that the module returns can be a map of the card"
)
_UNCLEAR = (
    "becomes no map, since not one label set of the card alone counts each of its axes; a map of the card can take it "
    "as its output and name its query and key"
)


def export_module(
    module: nn.Module,
    *,
    card: cards.Card,
    examples: Sequence[Any],
    references: Sequence[Any],
    repository: Path,
    version: int,
    precision: str,
    half_weights: bool,
    interventions: bool,
) -> BundleFolder:
    """See `limelight.export.export_module`."""
    if references:
        check_enough(references, "references")
    held_out = tuple(_instance(card, each, "references", number) for number, each in enumerate(references))
    known = card_of_inputs(card)
    network = ImportedModule(_copied(module), known)
    try:
        observed = _observe(network, known.card)
    except BundleError as error:  # the preprocessing that the card states is impossible
        raise ExportError(error.message) from error
    card = with_found_maps(card, observed)
    _warn_of_missing_maps(card, observed)
    complete = complete_card(card, observed)
    trained = TrainedModel(
        network.described(complete),
        complete.card,
        tuple(_instance(card, example, "examples", number) for number, example in enumerate(examples)),
        TrainingData(),
        (),
        held_out=lambda: held_out,
    )
    return export_model(
        trained,
        repository,
        version=version,
        precision=precision,
        half_weights=half_weights,
        interventions=interventions,
        largest_size=LARGEST_SIZE,
    )


def _copied(module: nn.Module) -> nn.Module:
    """Copy a module to the CPU, in float32 and evaluation mode."""
    # Weights that a module kept of an earlier run are results, which cannot be copied as they are.
    kept = (value for each in module.modules() for value in vars(each).values())
    memo = {id(each): each.detach() for each in kept if isinstance(each, Tensor) and not each.is_leaf}
    try:
        return copy.deepcopy(module, memo).cpu().float().eval().requires_grad_(False)
    except Exception as error:  # whatever a module holds
        reason = " ".join(str(error).split())
        raise ExportError(
            f"{type(module).__name__} cannot be copied to the CPU in float32: {type(error).__name__}: {reason}"
        ) from error


def _warn_of_missing_maps(card: cards.Card, observed: Mapping[str, Observed]) -> None:
    """Warn of attention that becomes no map, and of a module in which none was found."""
    if left := unnamed(card, observed):
        warnings.warn(f"the attention of {listed(left)} {_UNCLEAR}", stacklevel=4)
    elif not card.maps:
        warnings.warn(_NO_MAPS, stacklevel=4)


def _observe(network: ImportedModule, card: Card) -> dict[str, Observed]:
    """Run a module at several sizes, and return what it returned."""
    sizes = observed_sizes(card)
    runs = [_run(network, card, each) for each in sizes]
    one, *others = ({**found, **returned} for returned, found in runs)
    if some := sorted({name for other in others for name in one.keys() ^ other.keys()}):
        raise ExportError(f"the module returns {some[0]!r} at some sizes only")
    for name, again in _run(network, card, sizes[0])[0].items():
        if not np.allclose(one[name], again, rtol=1e-3, atol=1e-4, equal_nan=True):
            raise ExportError(
                f"the module answers the same input differently each time ({name!r}): is dropout left on, as by "
                "F.dropout without training=self.training?"
            )
    inner = runs[0][1]
    return {
        name: Observed(name, array.dtype, tuple(each[name].shape for each in (one, *others)), sizes, name in inner)
        for name, array in one.items()
    }


def _run(network: ImportedModule, card: Card, sizes: Mapping[str, int]) -> tuple[dict[str, Array], dict[str, Array]]:
    """Run a module on random rows, and return its results and the weights of its attention."""
    tensors = to_tensors(collate_rows(card, RandomInputs(card).rows(sizes)))
    with torch.no_grad():
        returned, found = network.results(tensors)
    try:
        outputs, inner = ({name: each.numpy() for name, each in tensors.items()} for tensors in (returned, found))
    except RuntimeError as error:  # attention inside torch.vmap
        raise ExportError(f"the module's tensors cannot be read: {' '.join(str(error).split())}") from error
    return outputs, inner


def _instance(card: cards.Card, example: Any, argument: str, number: int) -> Instance:
    """Read an example, or a reference: a value for each input by name, or the value of the only input."""
    field = f"{argument}[{number}]"
    if not isinstance(example, Mapping):
        if len(card.inputs) != 1:
            raise ExportError(f"{field} must have a value for each of {', '.join(map(repr, card.inputs))}, by name")
        example = {next(iter(card.inputs)): example}
    try:
        values = {name: _value(card.inputs.get(name), value) for name, value in example.items()}
        return instance_from_wire(to_instance(values, field), (argument, number))
    except (InputError, TypeError, ValueError, OSError) as error:
        raise ExportError(f"{field}: {error}") from error


def _value(stated: cards.Input | None, value: Any) -> Any:
    """Return a value as a caller would send it."""
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(stated, cards.Tensor) and not isinstance(value, Path):
        return as_numbers(value, np.dtype(stated.dtype))
    if isinstance(stated, cards.Image) and hasattr(value, "save"):  # a picture of Pillow
        buffer = io.BytesIO()
        value.save(buffer, "PNG")
        return buffer.getvalue()
    if isinstance(stated, cards.Image) and isinstance(value, np.ndarray):
        return Image(value)
    if isinstance(stated, cards.Image) and isinstance(value, str):
        return Path(value)
    return value
