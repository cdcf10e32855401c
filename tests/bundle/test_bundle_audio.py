"""Recordings become spectrograms as extractors of Whisper and AST make them; malformed ones are refused by name."""

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limelight.v1 import values_pb2
from limelight_bundle.errors import BundleError, InputError
from limelight_bundle.preprocess import Preprocessor
from limelight_bundle.rows import Row
from limelight_bundle.values import Array, Audio
from limelight_bundle.wire import value_from_wire, value_to_wire
from tests.bundle.recordings import FBANK, FRAMES, HOP, MELS, RATE, SECONDS, bundle, tones, wav

WHOLE = SECONDS * RATE


def row(audio: Audio, *, truncate: bool = False) -> Row:
    return Preprocessor.from_parts(bundle(), {}).row({"audio": audio}, field=("instances", 0), truncate=truncate)


def features(audio: Audio) -> Array:
    return row(audio).tensors["features"]


def int16(samples: Array) -> Array:
    return np.rint(samples * 32767).astype("<i2")


@pytest.mark.parametrize("mels", [80, 128])
@pytest.mark.parametrize("count", [1, 800, 12_345, WHOLE])
def test_spectrograms_equal_those_of_whispers_feature_extractor(mels: int, count: int) -> None:
    transformers = pytest.importorskip("transformers")
    extractor = transformers.WhisperFeatureExtractor(feature_size=mels, chunk_length=SECONDS)
    made = bundle(mels=mels)
    made.description.inputs[0].tensors[0].dimensions[0].size = mels
    for samples in (tones(count), np.random.default_rng(count).uniform(-1, 1, count).astype(np.float32)):
        found = Preprocessor.from_parts(made, {}).row({"audio": Audio(samples, RATE)}).tensors["features"]
        (expected,) = extractor(samples, sampling_rate=RATE, return_tensors="np").input_features
        assert found.dtype == np.float32 and found.shape == expected.shape
        np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("mels", [80, 128])
@pytest.mark.parametrize("count", [399, 400, 12_345, WHOLE])
def test_filter_banks_equal_those_of_the_feature_extractor_of_ast(mels: int, count: int) -> None:
    transformers = pytest.importorskip("transformers")
    extractor = transformers.ASTFeatureExtractor(
        num_mel_bins=mels, max_length=FRAMES, mean=FBANK["mean"], std=FBANK["deviation"] / 2
    )
    made = bundle(step="fbank", mels=mels)
    made.description.inputs[0].tensors[0].dimensions[0].size = mels
    for samples in (tones(count), np.random.default_rng(count).uniform(-1, 1, count).astype(np.float32)):
        found = Preprocessor.from_parts(made, {}).row({"audio": Audio(samples, RATE)}).tensors["features"]
        (expected,) = extractor([samples], sampling_rate=RATE, return_tensors="np").input_values
        assert found.dtype == np.float32 and found.shape == expected.T.shape
        np.testing.assert_allclose(found, expected.T, atol=1e-5)


def test_frames_are_labelled_with_their_time_and_special_behind_the_end() -> None:
    labels = row(Audio(tones(RATE // 2), RATE)).labels["frames"]
    assert labels.size == FRAMES // 2 == len(labels.texts)
    assert (labels.texts[25], labels.starts[25], labels.ends[25]) == ("0.50 s", 500, 520)
    assert list(labels.special) == [False] * 25 + [True] * 75
    assert labels.inputs == ("audio",)


def test_files_of_integers_and_of_numbers_hold_the_same_samples() -> None:
    samples = tones(5000)
    sent = features(Audio(samples, RATE))
    np.testing.assert_array_equal(features(Audio(wav(samples))), sent)
    stored = int16(samples)
    np.testing.assert_array_equal(
        features(Audio(wav(stored))), features(Audio((stored / 32768).astype(np.float32), RATE))
    )


def test_other_chunks_an_extensible_format_and_an_unknown_size_are_read() -> None:
    samples = int16(tones(3000))
    expected = features(Audio(wav(samples)))
    form = struct.pack("<HHIIHH", 1, 1, RATE, 2 * RATE, 2, 16)
    extension = struct.pack("<HHIH14s", 22, 16, 0, 1, bytes(14))
    extensible = struct.pack("<H", 0xFFFE) + form[2:] + extension
    noted = struct.pack("<4sI", b"LIST", 3) + b"abc\0"  # padded to an even length
    body = b"WAVE" + noted + struct.pack("<4sI", b"fmt ", len(extensible)) + extensible
    body += struct.pack("<4sI", b"data", 0xFFFFFFFF) + samples.tobytes()
    file = struct.pack("<4sI", b"RIFF", 0xFFFFFFFF) + body
    np.testing.assert_array_equal(features(Audio(file)), expected)


WAV = wav(int16(tones(1600)))
NAN = np.array([0, np.nan], np.float32)


@pytest.mark.parametrize(
    ("audio", "message"),
    [
        (Audio(b""), "is not a WAV file"),
        (Audio(b"ID3" + bytes(60)), "is not a WAV file"),
        (Audio(WAV[:16]), "is a WAV file that is cut off within its header"),
        (Audio(WAV[:30]), "is a WAV file that is cut off within its header"),
        (Audio(WAV[:36]), "is a WAV file without samples; it is cut off"),
        (Audio(WAV[:12]), "is a WAV file without a format; it is cut off"),
        (Audio(WAV[:12] + WAV[36:]), "is a WAV file whose samples come before their format"),
        (Audio(WAV[:-1]), "is cut off: its header states 3200 bytes of samples, and it has 3199"),
        (Audio(wav(int16(tones(1600)), channels=2)), "has 2 channels; one is taken, so mix them first"),
        (Audio(wav(int16(tones(1600)), bits=24)), "has samples of 24 bits, integers; they can be 16-bit integers or"),
        (Audio(wav(int16(tones(1600)), kind=7)), "has samples of 16 bits, of the compressed format 7; they can be"),
        (Audio(wav(int16(tones(1600)), rate=44_100)), "has 44100 samples a second; the model takes 16000"),
        (Audio(tones(100)), "has 0 samples a second; the model takes 16000"),
        (Audio(wav(int16(tones(0)))), "has no samples"),
        (Audio(tones(0), RATE), "has no samples"),
        (Audio(NAN, RATE), "has NaN or infinity as sample 1"),
        (Audio(wav(NAN)), "has NaN or infinity as sample 1"),
        (Audio(tones(WHOLE + 160), RATE), r"lasts 2.01 s; at most 2 s are allowed; shorten it or set truncate"),
    ],
)
def test_a_recording_that_cannot_be_read_is_refused(audio: Audio, message: str) -> None:
    with pytest.raises(InputError, match=message) as raised:
        row(audio)
    assert raised.value.field == 'instances[0].inputs["audio"]'


def test_a_recording_that_is_too_long_is_cut_if_the_call_says_so() -> None:
    samples = tones(WHOLE + 5000)
    for audio in (Audio(samples, RATE), Audio(wav(samples))):
        found = row(audio, truncate=True)
        assert found.truncated
        np.testing.assert_array_equal(found.tensors["features"], features(Audio(samples[:WHOLE], RATE)))


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_no_bytes_raise_anything_but_an_input_error(data: st.DataObject) -> None:
    file = bytearray(WAV[:44] + WAV[44:200])
    for _ in range(data.draw(st.integers(1, 6))):
        file[data.draw(st.integers(0, 47))] = data.draw(st.integers(0, 255))
    try:
        found = features(Audio(bytes(file[: data.draw(st.integers(0, len(file)))])))
    except InputError:
        return
    assert np.isfinite(found).all() and found.shape == (MELS, FRAMES)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seconds": 0}, "needs the limit max_audio_seconds"),
        ({"seconds": 2.1}, "makes 200 frames, fewer than 2.1 s have"),
        ({"window": 401}, "makes 200 frames of windows of 401 samples every 160"),
        ({"highest_frequency": 9000}, "goes up to 9000 Hz, of 16000 samples a second"),
        ({"mels": 40}, r"outputs \[40, 200\], which is not the shape of the tensor 'features'"),
        ({"frames": 2**16, "window": 2**14}, "makes 65536 frames of 16384 samples, more than"),
        ({"step": "fbank", "hop": 0}, "makes 200 frames of windows of 400 samples every 0"),
        ({"step": "fbank", "frames": 2**16, "window": 2**14}, "makes 65536 frames of 16384 samples, more than"),
        ({"step": "fbank", "seconds": 2.1}, "makes 200 frames, fewer than 2.1 s have"),
        ({"step": "fbank", "lowest_frequency": 9000}, "begins at 9000 Hz, of 16000 samples a second"),
        ({"step": "fbank", "deviation": 0}, "has a mean or a deviation that is not finite, or a deviation of 0"),
        ({"step": "fbank", "mels": 40}, r"outputs \[40, 200\], which is not the shape of the tensor 'features'"),
    ],
)
def test_steps_that_contradict_each_other_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(BundleError, match=message):
        Preprocessor.from_parts(bundle(**changes), {})


def test_recordings_travel_as_files_and_as_samples() -> None:
    file = value_from_wire(value_to_wire(Audio(WAV)), "x")
    assert isinstance(file, Audio) and file.content == WAV
    samples = value_from_wire(value_to_wire(Audio(tones(HOP), RATE)), "x")
    assert isinstance(samples, Audio) and samples.sample_rate == RATE
    np.testing.assert_array_equal(samples.content, tones(HOP))
    with pytest.raises(InputError, match=r"is FLOAT32 with 2 axes; samples are FLOAT32 \[sample\], mono") as raised:
        value_from_wire(value_to_wire(Audio(np.zeros((2, 5), np.float32), RATE)), "x")
    assert raised.value.field == "x.audio.samples.samples"
    with pytest.raises(InputError, match="has no content; set one of wav, samples"):
        value_from_wire(values_pb2.Value(audio=values_pb2.Audio()), "x")
