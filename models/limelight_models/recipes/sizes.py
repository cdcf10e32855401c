"""Configs of models: sizes, which the data and a preset decide, and limits."""

from dataclasses import dataclass
from typing import dataclass_transform


@dataclass_transform(kw_only_default=True, frozen_default=True)
@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Config of a model. Each class below this one is a frozen dataclass whose fields are given by name."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, kw_only=True)(cls)


class TextSizes(Sizes):
    """Config of a model that puts texts into classes. max_characters: of an instance."""

    vocabulary: int
    classes: int
    max_characters: int = 20_000
