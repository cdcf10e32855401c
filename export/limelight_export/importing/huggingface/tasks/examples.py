"""Examples of an imported model: the caller's, or those of this repository that are short enough for it."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from limelight_bundle.errors import InputError
from limelight_bundle.values import Audio, Instance, Text
from limelight_export.errors import CheckpointError
from limelight_export.importing.huggingface.tasks.task import Source
from limelight_models.cards.card import Card
from limelight_models.cards.inputs import SpectrogramInput

_SECONDS = 0.5  # of a recording


def text_instances(name: str, texts: Iterable[str]) -> tuple[Instance, ...]:
    """Return an instance for each text. name: of the input."""
    return tuple({name: Text(text)} for text in texts)


def choose_examples(card: Card, given: Sequence[Instance], own: Sequence[Instance]) -> tuple[Instance, ...]:
    """Return the caller's examples; without any, those of our own that fit the model's length.

    Raises:
        CheckpointError: the caller gives none, and none of our own fits.
    """
    chosen = tuple(given) or tuple(each for each in own if _fits(card, each))
    if not chosen:
        raise CheckpointError("the texts of this repository are too long for the model; give it one: --example TEXT")
    return chosen


def made_recordings(source: Source[Any], recording: SpectrogramInput) -> tuple[Instance, ...]:
    """Make two tones that rise. Raises CheckpointError where the caller gives examples."""
    if source.options.examples:
        raise CheckpointError("examples of this model would be recordings; they are made")
    rate = recording.sample_rate
    time = np.arange(int(_SECONDS * rate)) / rate
    sounds = (0.5 * np.sin(2 * np.pi * (200 + 400 * (number + time)) * time) for number in range(2))
    return tuple({recording.name: Audio(each.astype(np.float32), rate)} for each in sounds)


def _fits(card: Card, example: Instance) -> bool:
    try:
        card.preprocessor().row(example)
    except InputError:
        return False
    return True
