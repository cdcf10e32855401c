"""Spoken digits to be written down, from recordings of single ones.

As pairs of texts, recordings of one speaker are joined, two to four with a short pause between, and read as a text of
acoustic units (`limelight_models.data.units`); the target is the digits, and it is known where each was said. It is
speech recognition by attention in small (Chorowski et al. 2015, "Attention-Based Models for Speech Recognition"), and
where to look moves from left to right (Raffel et al. 2017).

As recordings of speech, the sound itself is read, and the target is the digits' names, letter by letter. What is held
out are the single recordings of the test file.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from limelight_bundle.values import Array, Text
from limelight_models.data.dataset import DataError, Dataset, Example
from limelight_models.data.gold import Gold, Span
from limelight_models.data.recordings import Clip, read
from limelight_models.data.sounds import wav
from limelight_models.data.units import RATE, Codebook, codebook

TRAIN, TEST = "train.npz", "test.npz"
NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_DIGITS = (2, 4)
_PAUSE = (RATE // 20, RATE * 3 // 20)  # 50 to 150 ms
_NOISE = 0.01  # of the loudness of what is said: 40 dB below it
_KEPT = 2  # recordings of a digit by a speaker that are kept aside to choose by
_LOUDEST = 2.0**15  # of a sample
_LISTENED = 600  # training utterances that the centres of units are sought in


@dataclass(frozen=True, eq=False)
class Utterance:
    """Digits said one after the other. Shapes: samples [sample]. spans: where each was said, first and last + 1."""

    samples: Array
    digits: tuple[int, ...]
    spans: tuple[tuple[int, int], ...]


def dataset(
    folder: Path,
    *,
    seed: int = 0,
    name: str = "",
    licence: str = "",
    training: int = 8_000,
    held_out: int = 1_000,
) -> Dataset:
    """Read `train.npz` and `test.npz` of a folder, and make `training` + 2 × `held_out` utterances of them by the seed.

    No recording is in two parts: what is held out is of the test file, what is chosen by is of the last two recordings
    of the training file. The centres of units are those of training utterances alone.
    Raises: DataError naming the file, and what is wrong with it.
    """
    counts = {"train": training, "dev": held_out, "test": held_out}
    clips = _parts(folder)
    said = {part: utterances(clips[part], count, random.Random(f"{part}/{seed}")) for part, count in counts.items()}
    try:
        units = codebook([each.samples for each in said["train"][:_LISTENED]], seed=seed)
    except DataError as error:
        raise DataError(f"{folder / TRAIN}: {error}") from error
    train, dev, test = (tuple(example(each, units) for each in said[part]) for part in counts)
    return Dataset(
        name=name or folder.resolve().name,
        licence=licence or "not stated",
        summary=(
            f"Recordings of digits joined by twos to fours, drawn by seed {seed}, as acoustic units; those held out "
            "are other recordings."
        ),
        train=train,
        dev=dev,
        test=test,
        does="Writes down the digits that are said in a recording.",
        inputs={"text": "A recording as acoustic units: a letter for all frames of 25 ms that sound alike in a row."},
    )


def spoken(folder: Path, *, seed: int = 0, name: str = "", licence: str = "", training: int = 3_000) -> Dataset:
    """Read the same files as recordings of speech, whose targets are the names of digits.

    To learn from are each recording alone, and `training` utterances of one or two by the seed; to choose by, and held
    out, are single recordings.
    Raises: DataError naming the file, and what is wrong with it.
    """
    clips = _parts(folder)
    chance = random.Random(f"spoken/{seed}")
    train, dev, test = ([joined([clip], chance) for clip in clips[part]] for part in ("train", "dev", "test"))
    train += utterances(clips["train"], training, chance, digits=(1, 2))
    return Dataset(
        name=name or folder.resolve().name,
        licence=licence or "not stated",
        summary=f"Recordings of digits, alone and joined by twos, drawn by seed {seed}; those held out are other ones.",
        train=tuple(map(named, train)),
        dev=tuple(map(named, dev)),
        test=tuple(map(named, test)),
        does="Writes down, in letters, the digits that are said in a recording.",
        inputs={"audio": f"Spoken digits: a WAV file of one channel, {RATE} samples a second."},
    )


def _parts(folder: Path) -> dict[str, list[Clip]]:
    """The recordings of each part. Raises: DataError naming the file, and what is wrong with it."""
    clips = read(folder / TRAIN)
    indices = sorted({clip.index for clip in clips})
    if len(indices) <= _KEPT:
        raise DataError(f"{folder / TRAIN}: has {len(indices)} recordings of a digit; more than {_KEPT} are wanted")
    last = indices[-_KEPT:]
    return {
        "train": [clip for clip in clips if clip.index not in last],
        "dev": [clip for clip in clips if clip.index in last],
        "test": read(folder / TEST),
    }


def utterances(
    clips: Sequence[Clip], count: int, chance: random.Random, *, digits: tuple[int, int] = _DIGITS
) -> list[Utterance]:
    """So many, each of recordings of one speaker; a recording can be in several, and in one more than once.

    digits: the fewest and the most.
    """
    speakers = sorted({clip.speaker for clip in clips})
    of = {speaker: [clip for clip in clips if clip.speaker == speaker] for speaker in speakers}
    return [
        joined(chance.choices(of[chance.choice(speakers)], k=chance.randint(*digits)), chance) for _ in range(count)
    ]


def joined(clips: Sequence[Clip], chance: random.Random) -> Utterance:
    """Recordings with pauses between, in which there is noise."""
    noise = np.random.default_rng(chance.getrandbits(64))
    loudness = float(np.sqrt(np.mean(np.concatenate([clip.samples for clip in clips]) ** 2)))
    pieces: list[Array] = []
    spans, at = [], 0
    for clip in clips:
        if pieces:
            pause = noise.standard_normal(chance.randint(*_PAUSE), np.float32) * (_NOISE * loudness)
            pieces.append(pause)
            at += len(pause)
        pieces.append(clip.samples)
        spans.append((at, at + len(clip.samples)))
        at += len(clip.samples)
    return Utterance(np.concatenate(pieces), tuple(clip.digit for clip in clips), tuple(spans))


def example(utterance: Utterance, units: Codebook) -> Example:
    """An utterance as its units, the digits that were said (`4-7-1`), and where each was.

    With hyphens between, no digit becomes part of a piece of several, and the decoder has a step to go on to the next.
    """
    spoken = units.read(utterance.samples)
    target = "-".join(map(str, utterance.digits))
    gold = tuple(
        Gold((Span("text", *spoken.within(*span)),), of=Span("target", 2 * place, 2 * place + 1))
        for place, span in enumerate(utterance.spans)
    )
    return Example({"text": Text(spoken.text), "target": Text(target)}, gold=gold)


def named(utterance: Utterance) -> Example:
    """An utterance as it sounds, and the names of its digits."""
    sound = wav(utterance.samples / _LOUDEST, RATE)
    return Example({"audio": sound, "target": Text(" ".join(NAMES[digit] for digit in utterance.digits))})
