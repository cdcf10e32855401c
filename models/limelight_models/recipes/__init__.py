"""What a published model says of its training: task, data, sizes and settings. Its file takes all of it from here."""

from limelight_models.cards.card import Card
from limelight_models.recipes.prepared import (
    classifying_pictures,
    classifying_texts,
    described,
    fitting,
    of_pictures,
    of_texts,
)
from limelight_models.recipes.recipe import Blueprint, Recipe
from limelight_models.recipes.settings import Preset, Settings, preset, tiny
from limelight_models.recipes.sizes import Sizes, TextSizes

__all__ = [
    "Blueprint", "Card", "Preset", "Recipe", "Settings", "Sizes", "TextSizes", "classifying_pictures",
    "classifying_texts", "described", "fitting", "of_pictures", "of_texts", "preset", "tiny",
]  # fmt: skip
