"""Every model that can be trained, by name; those after a dash are what attention is compared with."""

from typing import Any

from models.data.dataset import DataError
from models.training.classify import Documents, Images
from models.training.recipe import Recipe
from models.training.sequences import Sequences
from models.zoo.hierarchical.han import HierarchicalAttentionNetwork, han_mean
from models.zoo.rnn_search.bahdanau import Bahdanau, bahdanau_last

RECIPES: dict[str, Recipe[Any]] = {
    "han": Documents(HierarchicalAttentionNetwork),
    "han-mean": Documents(han_mean),
    "bahdanau": Sequences(Bahdanau),
    "bahdanau-last": Sequences(bahdanau_last),
    "vit": Images(),
}


def recipe(name: str) -> Recipe[Any]:
    """Find a recipe. Raises: DataError naming those there are."""
    if name not in RECIPES:
        raise DataError(f"there is no model {name!r}; there are {', '.join(RECIPES)}")
    return RECIPES[name]
