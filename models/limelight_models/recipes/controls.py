"""Controls of any published model: itself with uniform weights, and with attention that never learned.

Both have the sizes, the inputs, the task and the training of the model; a difference is what attention has learned.
"""

from collections.abc import Callable
from typing import Any

from torch import nn

from limelight_models.attention import controls
from limelight_models.attention.effective.core import Effective
from limelight_models.network import Network
from limelight_models.recipes.recipe import Recipe

Control = Callable[[Network], Network]


def uniform(network: Network) -> Network:
    """Put the same score for every key in the place of every score: weights are averages over what the mask allows.

    Of attention that chooses its keys they are averages over those that it chooses.
    Raises: ValueError where no part of the network has scores.
    """
    if not equalised(network):
        raise ValueError(f"{type(network).__name__} has no scores that could be the same for every key")
    return network


def equalised(module: nn.Module) -> int:
    """Replace every score below a module, but none inside of another: how many there were."""
    count = 0
    for name, child in module.named_children():
        same = controls.uniform(child)
        if same is None:
            count += equalised(child)
        else:
            setattr(module, name, same)
            count += 1
    return count


def frozen(network: Network) -> Network:
    """Leave the parameters that decide weights as they were drawn; everything else learns.

    Those are of scores, alignments, trained queries, maps of queries and keys
    (`limelight_models.attention.controls.deciding`).
    Raises: ValueError where no part of the network has such parameters.
    """
    found = False
    for module in network.modules():
        for part in controls.deciding(module):
            for parameter in part.parameters():
                parameter.requires_grad_(False)
                found = True
            for each in part.modules():
                if isinstance(each, Effective):
                    each.moves = False
    if not found:
        raise ValueError(f"{type(network).__name__} has no parameters that decide weights")
    return network


CONTROLS: dict[str, Control] = {"uniform": uniform, "frozen": frozen}


def controlled(recipe: Recipe[Any], control: str) -> Recipe[Any]:
    """The recipe of a model's control, by its name in `CONTROLS`."""
    return recipe.but(control=CONTROLS[control])
