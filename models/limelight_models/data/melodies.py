"""Melodies to be spelled: notes that sound one after the other, each by its letter.

Made-up speech: a note is a tone with two overtones that dies away, of a length, a loudness and a tuning of its own, in
noise. Notes are as different as vowels and more alike than words, and the same note can come twice.
"""

import random
from collections.abc import Sequence

import numpy as np

from limelight_bundle.values import Array, Text
from limelight_models.data.dataset import Dataset, Example
from limelight_models.data.sounds import wav

RATE = 8_000  # samples a second
PITCHES = {"c": 261.6, "d": 293.7, "e": 329.6, "f": 349.2, "g": 392.0, "a": 440.0, "b": 493.9}  # hertz
_OVERTONES = (1.0, 0.5, 0.25)  # loudness of a tone and of its overtones
_SECONDS, _GAP = (0.12, 0.22), (0.02, 0.05)
_DETUNED = 0.01  # share of the pitch by which a melody is off at most
_NOISE = 0.01


def dataset(*, seed: int = 0, training: int = 2_000, held_out: int = 300, notes: tuple[int, int] = (2, 5)) -> Dataset:
    """Melodies drawn by the seed. notes: the fewest and the most."""
    chance = random.Random(f"melodies/{seed}")
    train, dev, test = (
        tuple(example(chance.choices([*PITCHES], k=chance.randint(*notes)), chance) for _ in range(count))
        for count in (training, held_out, held_out)
    )
    return Dataset(
        name="Melodies",
        licence="none: generated",
        summary=f"Melodies of {notes[0]} to {notes[1]} notes at {RATE} samples a second, generated from seed {seed}.",
        train=train,
        dev=dev,
        test=test,
        does="Writes down the notes of a melody.",
        inputs={"audio": f"A melody: a WAV file of one channel, {RATE} samples a second."},
    )


def example(melody: Sequence[str], chance: random.Random) -> Example:
    """A melody as it sounds, and as it is spelled."""
    return Example({"audio": wav(played(melody, chance), RATE), "target": Text("".join(melody))})


def played(melody: Sequence[str], chance: random.Random) -> Array:
    """Notes one after the other, with short gaps, in noise: samples from -1 to 1 [sample]."""
    noise = np.random.default_rng(chance.getrandbits(64))
    tuning, pieces = 1 + chance.uniform(-_DETUNED, _DETUNED), list[Array]()
    for name in melody:
        seconds = np.arange(int(RATE * chance.uniform(*_SECONDS))) / RATE
        tones = (
            loudness * np.sin(2 * np.pi * number * tuning * PITCHES[name] * seconds)
            for number, loudness in enumerate(_OVERTONES, 1)
        )
        note = chance.uniform(0.2, 0.5) * sum(tones) * np.exp(-4 * seconds)
        pieces += [note, np.zeros(int(RATE * chance.uniform(*_GAP)))]
    sound: Array = np.concatenate(pieces)
    return (sound + _NOISE * noise.standard_normal(len(sound))).astype(np.float32)
