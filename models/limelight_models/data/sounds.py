"""Recordings as files: samples to WAV, the form in which a caller sends them, and what there is to know of them."""

import io
import wave
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from limelight_bundle.errors import InputError
from limelight_bundle.preprocess.wav import read_wav
from limelight_bundle.values import Array, Audio, Value
from limelight_models.data.dataset import DataError, shown

_LARGEST = 2**15


class Sound(NamedTuple):
    """Samples a second of a recording, and how many it has."""

    rate: int
    samples: int


def wav(samples: Array, rate: int) -> Audio:
    """Encode samples from -1 to 1 as a WAV file of 16-bit integers. Shapes: samples [sample]."""
    integers = np.clip((samples * _LARGEST).round(), -_LARGEST, _LARGEST - 1).astype("<i2")
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(integers.itemsize)
        file.setframerate(rate)
        file.writeframes(integers.tobytes())
    return Audio(buffer.getvalue())


def read(folder: Path, name: str) -> Audio:
    """A WAV file below a folder. Raises: ValueError where there is none of the name, or it is none."""
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()) or not path.is_file():
        raise ValueError(f"the recording {shown(name, quoted=True)} is no file below the folder")
    audio = Audio(path.read_bytes())
    try:
        sound(audio)
    except ValueError as error:
        raise ValueError(f"the recording {shown(name, quoted=True)} {error}") from error
    return audio


def sound(recording: Value) -> Sound:
    """What a WAV file says of itself. Raises: ValueError where it is none."""
    if not isinstance(recording, Audio) or not isinstance(recording.content, bytes):
        raise TypeError(f"a recording is a WAV file, not {type(recording).__name__}")
    try:
        file = read_wav(recording.content, ("audio",))
    except InputError as error:
        raise ValueError(error.message) from error
    return Sound(file.sample_rate, file.count)


def longest(recordings: Iterable[Value]) -> Sound:
    """The longest recording. Raises: DataError where they differ in their samples a second."""
    sounds = [sound(each) for each in recordings]
    if len(rates := sorted({each.rate for each in sounds})) > 1:
        raise DataError(f"recordings have {' and '.join(map(str, rates))} samples a second; resample them to one rate")
    return max(sounds)
