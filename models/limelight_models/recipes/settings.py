"""Settings of training, and presets: sizes by name, and their changes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
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


@dataclass(frozen=True, kw_only=True)
class Preset:
    """Settings, sizes of the model (fields of its config), and of its vocabulary (0: one token a character)."""

    settings: Settings
    sizes: Mapping[str, Any] = field(default_factory=dict)
    vocabulary: int = 0


def tiny(*, vocabulary: int = 0, **sizes: Any) -> Preset:
    """Make the preset `tiny` of a model: of a size with which a run over a few examples takes a moment."""
    settings = Settings(epochs=3, batch_size=8, learning_rate=0.02)
    return Preset(settings=settings, sizes=sizes, vocabulary=vocabulary)
