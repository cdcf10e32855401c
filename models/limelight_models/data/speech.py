"""Spoken digits to be written down, from recordings of single ones: it is known where each digit was said.

Recordings of one speaker are joined, two to four with a short pause between, and read as a text of acoustic units
(`limelight_models.data.units`); the target is the digits. It is speech recognition by attention in small (Chorowski et
al. 2015, "Attention-Based Models for Speech Recognition"), and where to look moves from left to right (Raffel et al.
2017).
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
from limelight_models.data.units import RATE, Codebook, codebook

TRAIN, TEST = "train.npz", "test.npz"
_DIGITS = (2, 4)
_PAUSE = (RATE // 20, RATE * 3 // 20)  # 50 to 150 ms
_NOISE = 0.01  # of the loudness of what is said: 40 dB below it
_KEPT = 2  # recordings of a digit by a speaker that are kept aside to choose by
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
    clips = read(folder / TRAIN)
    indices = sorted({clip.index for clip in clips})
    if len(indices) <= _KEPT:
        raise DataError(f"{folder / TRAIN}: has {len(indices)} recordings of a digit; more than {_KEPT} are wanted")
    last = indices[-_KEPT:]
    parts = {
        "train": ([clip for clip in clips if clip.index not in last], training),
        "dev": ([clip for clip in clips if clip.index in last], held_out),
        "test": (read(folder / TEST), held_out),
    }
    said = {part: utterances(of, count, random.Random(f"{part}/{seed}")) for part, (of, count) in parts.items()}
    try:
        units = codebook([each.samples for each in said["train"][:_LISTENED]], seed=seed)
    except DataError as error:
        raise DataError(f"{folder / TRAIN}: {error}") from error
    train, dev, test = (tuple(example(each, units) for each in said[part]) for part in parts)
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


def utterances(clips: Sequence[Clip], count: int, chance: random.Random) -> list[Utterance]:
    """So many, each of recordings of one speaker; a recording can be in several, and in one more than once."""
    speakers = sorted({clip.speaker for clip in clips})
    of = {speaker: [clip for clip in clips if clip.speaker == speaker] for speaker in speakers}
    return [
        joined(chance.choices(of[chance.choice(speakers)], k=chance.randint(*_DIGITS)), chance) for _ in range(count)
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
