"""Steps that turn a recording into a tensor."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from limelight.v1 import values_pb2
from limelight_bundle.errors import BundleError, InputError
from limelight_bundle.label_sets import frame_labels
from limelight_bundle.preprocess.fbank import fbank, fbank_filters
from limelight_bundle.preprocess.log_mel import log_mel, mel_filters
from limelight_bundle.preprocess.step_types import (
    DataFormat,
    DataKind,
    PreprocessedInput,
    RunOptions,
    Step,
    StepContext,
    Waveform,
)
from limelight_bundle.preprocess.wav import read_wav
from limelight_bundle.rows import Labels
from limelight_bundle.v1 import bundle_pb2
from limelight_bundle.values import Array, Audio

# Numbers of all windows of a recording, which are held at once.
_MOST_NUMBERS = 2**24


@dataclass(frozen=True)
class DecodeAudio(Step):
    """Reads a recording of one channel and one sample rate, up to a number of seconds."""

    accepts: ClassVar[frozenset[DataKind]] = frozenset({DataKind.RECORDING})
    produces: ClassVar[DataKind] = DataKind.WAVEFORM
    sample_rate: int
    max_seconds: float

    @classmethod
    def make(
        cls,
        message: bundle_pb2.DecodeAudio,
        context: StepContext,
        input_format: DataFormat,
        next_step: bundle_pb2.PreprocessingStep | None,
    ) -> Self:
        """See `Step.make`."""
        if message.sample_rate < 1:
            raise BundleError(f"reads {message.sample_rate} samples a second")
        if context.limits.max_audio_seconds * message.sample_rate < 1:
            raise BundleError("needs the limit max_audio_seconds")
        return cls(message.sample_rate, context.limits.max_audio_seconds)

    @property
    def output_format(self) -> DataFormat:
        """See `Step.output_format`."""
        return DataFormat(self.produces, sample_rate=self.sample_rate)

    def run(self, value: Audio, options: RunOptions) -> Waveform:
        """Decode a recording, whose length is known from its header before.

        Raises:
            InputError: it is not a WAV file of a known form, has another sample rate, is empty or too long, or a sample
                is NaN or infinite.
        """
        file = read_wav(value.content, options.field) if isinstance(value.content, bytes) else None
        rate, count = (value.sample_rate, len(value.content)) if file is None else (file.sample_rate, file.count)
        if rate != self.sample_rate:
            raise InputError(
                options.field,
                f"has {rate} samples a second; the model takes {self.sample_rate}, so resample the recording first",
            )
        if not count:
            raise InputError(options.field, "has no samples")
        most = int(self.max_seconds * rate)
        if count > most and not options.truncate:
            raise InputError(
                options.field,
                f"lasts {count / rate:.2f} s; at most {self.max_seconds:g} s are allowed; shorten it or set truncate",
            )
        samples = np.asarray(value.content[:most]) if file is None else file.samples(min(count, most))
        if not np.isfinite(samples).all():
            place = int(np.flatnonzero(~np.isfinite(samples))[0])
            raise InputError(options.field, f"has NaN or infinity as sample {place}")
        return Waveform(samples, count > most)


@dataclass(frozen=True)
class LogMel(Step):
    """Computes the logarithm of a mel spectrogram of a recording that is padded with silence."""

    accepts: ClassVar[frozenset[DataKind]] = frozenset({DataKind.WAVEFORM})
    produces: ClassVar[DataKind] = DataKind.TENSORS
    context: StepContext
    message: bundle_pb2.LogMel
    sample_rate: int
    filters: NDArray[np.float64]
    tensors: tuple[str, ...]

    @classmethod
    def make(
        cls,
        message: bundle_pb2.LogMel,
        context: StepContext,
        input_format: DataFormat,
        next_step: bundle_pb2.PreprocessingStep | None,
    ) -> Self:
        """See `Step.make`."""
        window, hop, frames, rate = message.window, message.hop, message.frames, input_format.sample_rate
        if min(window, hop, frames, message.mels) < 1 or window % 2 or frames * hop <= window // 2:
            raise BundleError(f"makes {frames} frames of windows of {window} samples every {hop}")
        if frames * window > _MOST_NUMBERS or message.mels * window > _MOST_NUMBERS:
            raise BundleError(f"makes {frames} frames of {window} samples, more than {_MOST_NUMBERS} numbers")
        if not 0 < message.highest_frequency <= rate / 2:
            raise BundleError(f"goes up to {message.highest_frequency:g} Hz, of {rate} samples a second")
        if context.limits.max_audio_seconds * rate > frames * hop:
            raise BundleError(f"makes {frames} frames, fewer than {context.limits.max_audio_seconds:g} s have")
        _check_shape(context, message)
        filters = mel_filters(sample_rate=rate, window=window, mels=message.mels, highest=message.highest_frequency)
        return cls(context, message, rate, filters, (message.tensor,))

    def run(self, value: Waveform, options: RunOptions) -> PreprocessedInput:
        """Compute the spectrogram, and label frames with their time."""
        message = self.message
        samples = np.pad(value.samples, (0, message.frames * message.hop - len(value.samples)))
        features = log_mel(samples, self.filters, window=message.window, hop=message.hop, frames=message.frames)
        seconds = len(value.samples) / self.sample_rate
        labels = {each.name: frame_labels(each, seconds) for each in self.context.label_sets if each.HasField("frames")}
        return _preprocessed(self.context, message, features, labels, value)


@dataclass(frozen=True)
class Fbank(Step):
    """Computes the logarithm of a filter bank of a recording; frames behind it are 0."""

    accepts: ClassVar[frozenset[DataKind]] = frozenset({DataKind.WAVEFORM})
    produces: ClassVar[DataKind] = DataKind.TENSORS
    context: StepContext
    message: bundle_pb2.Fbank
    filters: NDArray[np.float64]
    tensors: tuple[str, ...]

    @classmethod
    def make(
        cls,
        message: bundle_pb2.Fbank,
        context: StepContext,
        input_format: DataFormat,
        next_step: bundle_pb2.PreprocessingStep | None,
    ) -> Self:
        """See `Step.make`."""
        window, hop, frames, rate = message.window, message.hop, message.frames, input_format.sample_rate
        if min(window, hop, frames, message.mels) < 1:
            raise BundleError(f"makes {frames} frames of windows of {window} samples every {hop}")
        points = 1 << (window - 1).bit_length()
        if frames * points > _MOST_NUMBERS or message.mels * points > _MOST_NUMBERS:
            raise BundleError(f"makes {frames} frames of {window} samples, more than {_MOST_NUMBERS} numbers")
        if not 0 <= message.lowest_frequency < rate / 2:
            raise BundleError(f"begins at {message.lowest_frequency:g} Hz, of {rate} samples a second")
        if not np.isfinite([message.mean, message.deviation]).all() or not message.deviation:
            raise BundleError("has a mean or a deviation that is not finite, or a deviation of 0")
        if context.limits.max_audio_seconds * rate > window + (frames - 1) * hop:
            raise BundleError(f"makes {frames} frames, fewer than {context.limits.max_audio_seconds:g} s have")
        _check_shape(context, message)
        filters = fbank_filters(sample_rate=rate, points=points, mels=message.mels, lowest=message.lowest_frequency)
        return cls(context, message, filters, (message.tensor,))

    def run(self, value: Waveform, options: RunOptions) -> PreprocessedInput:
        """Compute the filter bank."""
        message = self.message
        found = fbank(value.samples, self.filters, window=message.window, hop=message.hop)
        padded = np.pad(found, ((0, 0), (0, message.frames - found.shape[1])))
        features = ((padded - message.mean) / message.deviation).astype(np.float32)
        return _preprocessed(self.context, message, features, {}, value)


def _check_shape(context: StepContext, message: bundle_pb2.LogMel | bundle_pb2.Fbank) -> None:
    """Check the tensor [mel, frame]. Raises BundleError."""
    dimensions = context.tensor(message.tensor, 2, values_pb2.DATA_TYPE_FLOAT32).description.dimensions
    shape = [message.mels, message.frames]
    if any(each.size not in (0, size) for each, size in zip(dimensions, shape, strict=True)):
        raise BundleError(f"outputs {shape}, which is not the shape of the tensor {message.tensor!r}")


def _preprocessed(
    context: StepContext,
    message: bundle_pb2.LogMel | bundle_pb2.Fbank,
    features: Array,
    labels: Mapping[str, Labels],
    value: Waveform,
) -> PreprocessedInput:
    dimensions = context.tensors[message.tensor].description.dimensions
    sizes = {dimension.name: size for dimension, size in zip(dimensions, features.shape, strict=True)}
    return PreprocessedInput(context.input.name, {message.tensor: features}, sizes, labels, value.truncated)
