"""Spoken digits: tones in the place of voices, what is read of them, and where each was."""

import io
import random
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer

from limelight_bundle.preprocess.wav import read_wav
from limelight_bundle.values import Audio, Text
from limelight_models.blocks.frames import heard
from limelight_models.cards.describe import describe
from limelight_models.cards.inputs import AudioInput
from limelight_models.cards.results import Classes
from limelight_models.cards.taxonomy import Taxonomy
from limelight_models.data import folder, melodies, recordings, rows, sounds, speech, units
from limelight_models.data.dataset import DataError, Example
from limelight_models.data.gold import Span
from limelight_models.data.tokenizers import characters

RATE = units.RATE


def tone(digit: int, speaker: int, index: int) -> np.ndarray:
    """A digit as a tone that rises and falls about a pitch of its own, a little different each time."""
    chance = np.random.default_rng([digit, speaker, index])
    seconds = np.arange(RATE // 4 + 40 * index) / RATE
    sound = np.sin(2 * np.pi * (400 + 300 * digit + 20 * speaker) * seconds + 8 * np.sin(40 * seconds))
    return (8_000 * sound + 40 * chance.standard_normal(len(seconds))).astype(np.int16)


def arrays(indices: range, digits: range = range(4)) -> dict[str, Any]:
    known = [(digit, speaker, index) for digit in digits for speaker in range(2) for index in indices]
    sounds = [tone(*each) for each in known]
    digit, speaker, index = np.array(known, np.uint8).T
    offsets = np.cumsum([0, *map(len, sounds)])
    return {
        "samples": np.concatenate(sounds), "offsets": offsets, "digit": digit, "speaker": speaker, "index": index,
        "speaker_names": np.array(["a", "b"]),
    }  # fmt: skip


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    np.savez_compressed(tmp_path / "train.npz", **arrays(range(5, 10)))
    np.savez_compressed(tmp_path / "test.npz", **arrays(range(5)))
    return tmp_path


def text(example: Example, name: str = "text") -> str:
    value = example.instance[name]
    assert isinstance(value, Text)
    return value.text


def said(example: Example) -> list[tuple[str, str]]:
    """Each digit that has gold, and its letters."""
    found = []
    for each in example.gold:
        (key,) = each.keys
        assert isinstance(key, Span) and isinstance(each.of, Span)
        found.append((text(example, "target")[each.of.start : each.of.end], text(example)[key.start : key.end]))
    return found


def test_each_digit_comes_from_the_units_of_its_own_recording(recorded: Path) -> None:
    made = speech.dataset(recorded, training=60, held_out=20)
    assert [len(part) for part in (made.train, made.dev, made.test)] == [60, 20, 20]
    assert made.fingerprint == speech.dataset(recorded, training=60, held_out=20).fingerprint
    assert made.fingerprint != speech.dataset(recorded, seed=1, training=60, held_out=20).fingerprint
    heard: dict[str, set[str]] = {}
    for example in (*made.train, *made.dev, *made.test):
        pairs = said(example)
        assert "-".join(digit for digit, _ in pairs) == text(example, "target") and 2 <= len(pairs) <= 4
        assert not any(a == b for a, b in zip(text(example), text(example)[1:], strict=False))
        for digit, letters in pairs:
            # Of what a recording begins and ends with, frames lie in a pause, or beside another digit.
            heard.setdefault(digit, set()).update(letters[2:-2])
    tones = sorted(heard)
    assert tones == ["0", "1", "2", "3"]
    for first in tones:
        for second in tones:
            shared = len(heard[first] & heard[second]) / len(heard[first])
            assert first == second or shared < 0.5, (first, second)


def test_no_recording_is_in_two_parts(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[set[int]] = []

    def noted(clips: list[recordings.Clip], count: int, chance: random.Random) -> list[speech.Utterance]:
        taken.append({clip.index for clip in clips})
        return utterances(clips, count, chance)

    utterances = speech.utterances
    monkeypatch.setattr(speech, "utterances", noted)
    speech.dataset(recorded, training=20, held_out=5)
    assert taken == [{5, 6, 7}, {8, 9}, {0, 1, 2, 3, 4}]


def test_recordings_of_one_speaker_are_joined_with_pauses_between() -> None:
    first, second = (
        recordings.Clip(np.full(size, level, np.float32), level, 0, 0) for size, level in ((400, 1), (500, 2))
    )
    found = speech.joined([first, second], random.Random(0))
    (begin, end), (again, last) = found.spans
    assert (begin, end, last - again, last) == (0, 400, 500, len(found.samples)) and found.digits == (1, 2)
    assert RATE // 20 <= again - end <= RATE * 3 // 20
    assert 0.005 < found.samples[end:again].std() < 0.02, "softer by 40 dB than what is said"
    other = recordings.Clip(first.samples, 7, 1, 0)
    drawn = [each.digits for each in speech.utterances([first, second, other], 60, random.Random(0))]
    assert {len(each) for each in drawn} == {2, 3, 4} and {7 in each for each in drawn} == {True, False}
    assert all(set(each) == {7} or 7 not in each for each in drawn), "one speaker says all of it"


def test_a_letter_stands_for_the_frames_that_follow_each_other_in_one_unit() -> None:
    spoken = units.Spoken("abc", starts=(0, 2, 3), ends=(2, 3, 7))
    # The middles of frames are at 100, 260, 420, 580, ...
    assert spoken.within(0, 360) == (0, 1)
    assert spoken.within(100, 421) == (0, 2)
    assert spoken.within(101, 580) == (0, 2)
    assert spoken.within(261, 581) == (1, 3)
    assert spoken.within(421, 2_000) == (2, 3)


def test_loudness_and_an_even_hum_change_no_unit() -> None:
    sounds = [tone(digit, 0, index).astype(np.float32) for digit in range(4) for index in range(5)]
    found = units.codebook(sounds)
    assert found.centres.shape == (units.UNITS, 26)
    assert (units.codebook(sounds).centres == found.centres).all()
    read = found.read(sounds[0])
    assert found.read(3 * sounds[0]) == read
    assert len(read.text) == len(read.starts) and read.starts[1:] == read.ends[:-1]
    assert read.ends[-1] == 1 + (len(sounds[0]) - units.FRAME) // units.STEP


def test_units_are_letters_that_a_tokenizer_keeps_apart() -> None:
    letters = "".join(units.letter(unit) for unit in range(units.UNITS))
    assert len(set(letters)) == units.UNITS and letters.isalpha()
    read = Tokenizer.from_str(characters([letters], lower=True, output=False)).encode(letters)
    assert read.tokens == list(letters) and len(set(read.ids)) == units.UNITS


def test_a_folder_of_recordings_is_read_as_pairs_alone(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speech, "dataset", partial(speech.dataset, training=9, held_out=3))
    made = folder.load(recorded, rows.PAIRS, seed=2, name="tones", licence="mine")
    assert (made.name, made.licence, len(made.train), len(made.test)) == ("tones", "mine", 9, 3)
    assert "seed 2" in made.summary
    with pytest.raises(DataError, match="has no train file"):
        folder.load(recorded, rows.TEXTS)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"digit": None}, "has no array digit"),
        ({"samples": np.zeros(9_000)}, r"samples is float64 \[9000\]; one axis of whole numbers"),
        ({"samples": np.zeros((2, 9), np.int16)}, r"samples is int16 \[2, 9\]"),
        ({"samples": np.array([{}])}, "cannot be read as an .npz archive"),
        ({"samples": np.zeros(9, np.int16)}, "offsets do not lie within the 9 samples"),
        ({"offsets": np.array([-1, 2_000])}, "offsets do not lie"),
        ({"offsets": np.array([0])}, "offsets do not lie"),
        ({"offsets": np.array([0, 4_000, 3_000, 8_000])}, "recording 1 shorter than 360 samples"),
        ({"speaker": np.zeros(3, np.uint8)}, "speaker has 3 entries for 40 recordings"),
        ({"digit": np.full(40, 10)}, "digit has a number that is none of 0 to 9"),
    ],
)
@pytest.mark.parametrize("name", ["train.npz", "test.npz"])
def test_a_wrong_archive_is_named(recorded: Path, changes: dict[str, Any], message: str, name: str) -> None:
    content = {key: value for key, value in {**arrays(range(5, 10)), **changes}.items() if value is not None}
    np.savez(recorded / name, **content)
    with pytest.raises(DataError, match=f"{name}: .*{message}"):
        speech.dataset(recorded, training=9, held_out=3)


def test_what_is_no_archive_is_named(recorded: Path) -> None:
    single, cut = io.BytesIO(), (recorded / "train.npz").read_bytes()
    np.save(single, np.zeros(3))
    for content in (b"", b"digits", single.getvalue(), cut[:2_000], cut[:2_000] + bytes(200) + cut[2_200:]):
        (recorded / "train.npz").write_bytes(content)
        with pytest.raises(DataError, match=r"train.npz: cannot be read as an .npz archive"):
            speech.dataset(recorded)
    (recorded / "test.npz").unlink()
    with pytest.raises(DataError, match=r"test.npz: cannot be read"):
        recordings.read(recorded / "test.npz")


def test_too_few_recordings_are_refused(recorded: Path) -> None:
    np.savez(recorded / "train.npz", **arrays(range(2)))
    with pytest.raises(DataError, match=r"train.npz: has 2 recordings of a digit; more than 2 are wanted"):
        speech.dataset(recorded)
    np.savez(recorded / "train.npz", **arrays(range(3)))
    with pytest.raises(DataError, match=r"train.npz: the recordings have [0-9]+ frames of sound; at least 96"):
        speech.dataset(recorded, training=1, held_out=1)


@pytest.mark.data
def test_the_recordings_as_they_lie(data: Path) -> None:
    train, test = (recordings.read(data / "speech_fsdd" / name) for name in (speech.TRAIN, speech.TEST))
    assert (len(train), len(test)) == (600, 300)
    assert {clip.index for clip in train} == set(range(5, 15)) and {clip.index for clip in test} == set(range(5))
    made = speech.dataset(data / "speech_fsdd", training=200, held_out=50)
    assert all(5 < len(letters) < 128 for example in made.test for letters in [text(example)])
    assert all(letters for example in made.test for _, letters in said(example))


def samples(example: Example) -> np.ndarray:
    audio = example.instance["audio"]
    assert isinstance(audio, Audio) and isinstance(audio.content, bytes)
    file = read_wav(audio.content, ())
    assert file.sample_rate == RATE
    return np.asarray(file.samples(file.count))


def test_recordings_are_read_as_they_are_and_spelled_and_those_held_out_are_single(recorded: Path) -> None:
    made = folder.load(recorded, rows.RECORDINGS)
    assert [len(part) for part in (made.dev, made.test)] == [2 * 2 * 4, 5 * 2 * 4]
    assert text(made.test[0], "target") == "zero" and text(made.test[-1], "target") == "three"
    np.testing.assert_array_equal(samples(made.test[0]) * 2**15, tone(0, 0, 0))
    alone, joined = made.train[: 3 * 2 * 4], made.train[3 * 2 * 4 :]
    assert {len(text(each, "target").split()) for each in alone} == {1}
    assert {len(text(each, "target").split()) for each in joined} == {1, 2}
    assert made.fingerprint == folder.load(recorded, rows.RECORDINGS).fingerprint


def test_a_folder_of_wav_files_is_read_beside_their_texts(tmp_path: Path) -> None:
    first, second = (sounds.wav(np.full(count, 0.5, np.float32), RATE) for count in (400, 900))
    for name, audio in (("a.wav", first), ("b.wav", second)):
        assert isinstance(audio.content, bytes)
        (tmp_path / name).write_bytes(audio.content)
    (tmp_path / "train.tsv").write_text("a.wav\tone\nb.wav\ttwo\na.wav\tone more\n")
    made = folder.load(tmp_path, rows.RECORDINGS)
    whole = [*made.train, *made.dev, *made.test]
    assert sounds.longest(each.instance["audio"] for each in whole) == (RATE, 900)
    other = sounds.wav(np.zeros(10, np.float32), 2 * RATE)
    with pytest.raises(DataError, match="recordings have 8000 and 16000 samples a second; resample them"):
        sounds.longest([first, other])


def test_each_note_of_a_melody_is_loudest_at_its_pitch() -> None:
    made = melodies.dataset(training=20, held_out=1, notes=(1, 1))
    assert melodies.dataset(training=20, held_out=1, notes=(1, 1)).fingerprint == made.fingerprint
    for example in made.train:
        power = np.abs(np.fft.rfft(samples(example), RATE))  # a frequency a hertz
        pitch = melodies.PITCHES[text(example, "target")]
        assert abs(int(power.argmax()) - pitch) < 0.03 * pitch


def test_what_is_heard_ends_with_the_sound_and_does_not_depend_on_its_loudness() -> None:
    step = AudioInput(summary="", sample_rate=RATE, window=64, hop=32, mels=6, frames=40, highest_frequency=RATE / 2)
    card = describe(
        title="", summary="", inputs=[step], results=[Classes(labels=("a", "b"))], maps={},
        taxonomy=Taxonomy.of("additive"), max_audio_seconds=step.seconds,
    )  # fmt: skip
    noise = np.random.default_rng(0).uniform(-0.1, 0.1, 700).astype(np.float32)
    broken = np.where(np.arange(700) // 200 == 1, 0, noise)  # silence within is a part of the sound
    loud, soft, silent, parted = (
        torch.from_numpy(card.preprocessor().row({"audio": Audio(each, RATE)}).tensors["features"])[None].double()
        for each in (4 * noise, noise, 0 * noise, broken)
    )
    x, mask = heard(loud)
    assert mask.sum() == 23 and mask[0, :23].all()  # the last window begins at 22 · 32 - 32 < 700
    assert not x[0, 23:].any() and torch.allclose(x[0, :23].mean(0), torch.zeros(6).double(), atol=1e-6)
    assert torch.allclose(heard(soft)[0], x, atol=1e-4)
    assert not heard(silent)[1].any() and torch.equal(heard(parted)[1], mask)
