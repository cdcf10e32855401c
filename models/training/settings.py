"""How a model is trained, and the sizes that come with it: presets, and what changes them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What decides a training run, beside the model and the data.

    learning_rate: the highest; it rises over the first `warm_up` of all steps and falls by a cosine to a twentieth.
    patience: epochs without a lower dev loss after which training ends. clip: largest norm of the gradient.
    """

    seed: int = 0
    epochs: int = 20
    batch_size: int = 32
    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    warm_up: float = 0.05
    patience: int = 4
    clip: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Preset:
    """Settings, sizes of the model (fields of its config), and of its vocabulary (0: one token a character)."""

    settings: Settings
    sizes: Mapping[str, Any] = field(default_factory=dict)
    vocabulary: int = 0


# `demo` is for the data that need no download, small enough for a repository; `full` for data of one's own.
PRESETS: dict[str, dict[str, Preset]] = {
    "han": {
        "demo": Preset(
            settings=Settings(epochs=7, batch_size=16, learning_rate=4e-3, patience=3),
            sizes={"d_embedding": 32, "d_gru": 32, "d_attention": 64, "dropout": 0.5, "word_dropout": 0.25},
            vocabulary=3000,
        ),
        "full": Preset(
            settings=Settings(epochs=8, batch_size=16, learning_rate=3e-3, patience=3),
            sizes={
                "d_embedding": 48,
                "d_gru": 32,
                "d_attention": 64,
                "dropout": 0.5,
                "word_dropout": 0.1,
                "max_sentences": 30,
                "max_words": 30,
            },
            vocabulary=8000,
        ),
    },
    "bahdanau": {
        "demo": Preset(
            settings=Settings(epochs=8, batch_size=64, learning_rate=4e-3, patience=4),
            sizes={"d_embedding": 32, "d_encoder": 48, "d_decoder": 64, "d_attention": 48, "d_maxout": 48},
        ),
        "full": Preset(
            settings=Settings(epochs=12, batch_size=64, learning_rate=3e-3, patience=2),
            sizes={
                "d_embedding": 96,
                "d_encoder": 96,
                "d_decoder": 128,
                "d_attention": 96,
                "d_maxout": 96,
                "dropout": 0.2,
            },
            vocabulary=2000,
        ),
    },
    "vit": {
        "demo": Preset(
            settings=Settings(epochs=30, batch_size=64, learning_rate=2e-3, patience=15, weight_decay=0.05),
            sizes={"patch": 2, "d_model": 64, "layers": 4, "heads": 4, "d_hidden": 128},
        ),
        "full": Preset(
            settings=Settings(epochs=20, batch_size=64, learning_rate=1e-3, patience=5, weight_decay=0.05),
            sizes={"patch": 4, "d_model": 64, "layers": 4, "heads": 4, "d_hidden": 128},
        ),
    },
}
