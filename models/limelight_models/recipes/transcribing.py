"""Shared by the models that write what they hear: the recording as frames of sound, and its text letter by letter."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from limelight_models.cards.inputs import AudioInput, TextInput, Tokenizer, forced_target
from limelight_models.cards.results import Written
from limelight_models.data import melodies, rows, sounds, tokenizers
from limelight_models.data.dataset import Dataset
from limelight_models.recipes.prepared import described, fitting
from limelight_models.recipes.recipe import Blueprint
from limelight_models.recipes.settings import Preset
from limelight_models.recipes.sizes import Sizes
from limelight_models.tasks.generate import Generate

TARGET = "target.json"


class SpeechConfig(Sizes):
    """Sizes that all of them have.

    vocabulary, begin, end: of letters; the one put in first, and the one that ends a sequence. sample_rate: samples a
    second. window, hop: samples of a window of sound, and between two. frames: of every recording, which is padded with
    silence. mels: filters of a frame. joined: frames that become one before anything attends to them.
    """

    vocabulary: int
    begin: int
    end: int
    sample_rate: int
    frames: int
    window: int = 256
    hop: int = 128
    mels: int = 32
    max_new_tokens: int = 32

    def __post_init__(self) -> None:
        if self.frames % self.joined:
            raise ValueError(f"{self.frames} frames cannot be joined by {self.joined}")

    @property
    def joined(self) -> int:
        """Frames of sound that become one which is attended to."""
        return 1

    @property
    def max_audio_seconds(self) -> float:
        """Length of the longest recording."""
        return self.audio().seconds

    def audio(self) -> AudioInput:
        """The recording."""
        return AudioInput(
            summary="What is said: a WAV file of one channel, or samples.",
            sample_rate=self.sample_rate,
            window=self.window,
            hop=self.hop,
            mels=self.mels,
            frames=self.frames,
            highest_frequency=self.sample_rate / 2,
        )

    def target(self, files: Mapping[str, str]) -> TextInput:
        """The input of a forced output."""
        return forced_target(Tokenizer(text=files[TARGET], file=TARGET), self.max_new_tokens)

    def written(self, files: Mapping[str, str], **more: Any) -> Written:
        """The text. more: fields of `Written` that models differ in."""
        return Written.by(self, self.target(files).tokenizer, **more)


C = TypeVar("C", bound=SpeechConfig)


def prepare(config: type[C]) -> Callable[[Dataset, Preset], Blueprint[C]]:
    """Choices from the data: the training part's letters, the rate of recordings, and as many frames as the longest."""

    def prepared(dataset: Dataset, preset: Preset) -> Blueprint[C]:
        whole = [each.instance for part in (dataset.train, dataset.dev, dataset.test) for each in part]
        longest = sounds.longest(each["audio"] for each in whole)
        texts = tokenizers.texts_of([each["target"] for each in whole])
        written = tokenizers.texts_of([each.instance["target"] for each in dataset.train])
        target = tokenizers.characters(written, lower=False, output=True)
        begin, end = tokenizers.special_ids(target)
        sizes = {"max_new_tokens": 1 + max(map(len, texts)), **preset.sizes}
        plan = partial(
            fitting,
            config,
            vocabulary=tokenizers.size(target),
            begin=begin,
            end=end,
            sample_rate=longest.rate,
            **sizes,
        )
        joined, hop = (getattr(plan(frames=0), name) for name in ("joined", "hop"))
        made = plan(frames=-(-longest.samples // (hop * joined)) * joined)
        return Blueprint(made, (), {TARGET: target})

    return prepared


# The recipe of a model that writes what it hears, taught by recordings with their texts.
transcribing = partial(described, choices=prepare, task=Generate(), data=rows.RECORDINGS, builtin=melodies.dataset)
