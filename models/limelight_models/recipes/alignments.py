"""Another alignment in the place of a published model's softmax: `limelight train han --attention sparsemax`.

Those are here that have no parameters and need only the scores and the mask, so that they fit any score. Everything
else of the model, its size included, stays.
"""

from typing import Any

from limelight_models.attention.align import Align, Entmax15, Sigmoid, Softmax, Sparsemax
from limelight_models.attention.core import Attention
from limelight_models.cards.card import Card
from limelight_models.data.dataset import DataError
from limelight_models.network import Network
from limelight_models.recipes.recipe import Blueprint, Recipe

ALIGNMENTS: dict[str, type[Align]] = {"sparsemax": Sparsemax, "1.5-entmax": Entmax15, "sigmoid": Sigmoid}


def exchanged(recipe: Recipe[Any], model: str, name: str) -> Recipe[Any]:
    """The recipe of a model with the alignment of a name in `ALIGNMENTS`; its control, if any, stays.

    `build` raises DataError where no part of the network has a softmax over scores.
    """

    def control(network: Network) -> Network:
        aligned = exchange(network, ALIGNMENTS[name])
        if not aligned:
            raise DataError(f"{model} has no softmax over scores that {name} could replace; leave out --attention")
        return recipe.control(network) if recipe.control else network

    def card(network: Any, blueprint: Blueprint[Any]) -> Card:
        made = recipe.card(network, blueprint)
        made.description.taxonomy.alignment[:] = [name]
        return made

    return recipe.but(control=control, card=card)


def exchange(network: Network, align: type[Align]) -> int:
    """Put an alignment in the place of every softmax over scores; how many there were."""
    found = [each for each in network.modules() if isinstance(each, Attention) and type(each.align) is Softmax]
    for each in found:
        each.align = align()
    return len(found)
