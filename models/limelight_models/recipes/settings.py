"""Settings of training, and presets: sizes by name, and their changes."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of a training run, beside the model and the data.

    learning_rate: the highest; it rises over the first `warm_up` of all steps and falls by a cosine to a twentieth.
    momentum: of the gradient; networks that learn against each other do without.
    patience: epochs without a lower dev loss after which training ends. clip: largest norm of the gradient.
    supervision: weight of looking where examples say so (`limelight_models.training.supervision`); 0 leaves it to the
    network.
    """

    seed: int = 0
    epochs: int = 20
    batch_size: int = 32
    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    momentum: float = 0.9
    warm_up: float = 0.05
    patience: int = 4
    clip: float = 1.0
    supervision: float = 0.0


_CHANGES = {each.name for each in fields(Settings)} - {"epochs", "batch_size", "learning_rate", "patience"}


@dataclass(frozen=True, kw_only=True)
class Preset:
    """Settings, sizes of the model (fields of its config), and of its vocabulary (0: one token a character)."""

    settings: Settings
    sizes: Mapping[str, Any] = field(default_factory=dict)
    vocabulary: int = 0

    def sized(self, **sizes: Any) -> "Preset":
        """The same with further sizes of the model."""
        return replace(self, sizes={**self.sizes, **sizes})


def preset(
    epochs: int, batch_size: int, learning_rate: float, /, patience: int = 4, *, vocabulary: int = 0, **more: Any
) -> Preset:
    """Make a preset. more: of the settings, those that differ from the default; all else are sizes of the model."""
    changes = {name: more.pop(name) for name in _CHANGES & more.keys()}
    settings = Settings(epochs=epochs, batch_size=batch_size, learning_rate=learning_rate, patience=patience, **changes)
    return Preset(settings=settings, sizes=more, vocabulary=vocabulary)


def tiny(*, vocabulary: int = 0, **sizes: Any) -> Preset:
    """Make the preset `tiny` of a model: of a size with which a run over a few examples takes a moment."""
    return preset(3, 8, 0.02, vocabulary=vocabulary, **sizes)
