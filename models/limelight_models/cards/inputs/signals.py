"""Pictures and recordings as inputs."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from limelight.base.enums import number_of
from limelight.v1 import model_pb2
from limelight_bundle.v1 import bundle_pb2
from limelight_models.cards.inputs.base import Input, TensorSpec
from limelight_models.cards.labels import LabelSet

# Handling of another aspect ratio, and the filter of a change of size.
Fit = Literal["stretch", "cover", "contain"]
Resampling = Literal["nearest", "bilinear", "bicubic", "lanczos"]


class PictureSizes(Protocol):
    """Sizes and brightness of pictures in a model's config."""

    @property
    def rows(self) -> int: ...
    @property
    def columns(self) -> int: ...
    @property
    def mean(self) -> Sequence[float]: ...
    @property
    def deviation(self) -> Sequence[float]: ...


@dataclass(frozen=True, kw_only=True)
class ImageInput(Input):
    """An image file -> `tensor` float32 [channel, row, column].

    mean, deviation: of pixels times `scale`, one a channel. fit: handling of another aspect ratio. resized: rows and
    columns before it is cut to its size from its centre.
    """

    name: str = "image"
    summary: str = "A picture; it is scaled to the model's size."
    rows: int
    columns: int
    mean: Sequence[float]
    deviation: Sequence[float]
    tensor: str = "pixels"
    fit: Fit | Literal["cover_floor"] = "stretch"
    resampling: Resampling = "bilinear"
    scale: float = 1 / 255
    resized: tuple[int, int] | None = None
    kind = model_pb2.INPUT_KIND_IMAGE

    @classmethod
    def of(cls, config: "PictureSizes", **changes: Any) -> "ImageInput":
        """The pictures of a model's config. changes: the name or the summary."""
        return cls(rows=config.rows, columns=config.columns, mean=config.mean, deviation=config.deviation, **changes)

    @property
    def tensors(self) -> Sequence[TensorSpec]:
        sizes = {"channel": len(self.mean), "row": self.rows, "column": self.columns}
        return [TensorSpec(name=self.tensor, dimensions=sizes, fixed=True)]

    @property
    def steps(self) -> Sequence[bundle_pb2.PreprocessingStep]:
        rows, columns = self.resized or (self.rows, self.columns)
        resize = bundle_pb2.ResizeImage(
            rows=rows,
            columns=columns,
            fit=number_of(bundle_pb2.Fit, self.fit, what=f"the fit of {self.name!r}"),
            resampling=number_of(bundle_pb2.Resampling, self.resampling, what=f"the resampling of {self.name!r}"),
        )
        is_cut = self.fit == "cover_floor" or (rows, columns) != (self.rows, self.columns)
        crop = bundle_pb2.CropImage(rows=self.rows, columns=self.columns)
        normalise = bundle_pb2.NormaliseImage(
            scale=self.scale, mean=self.mean, deviation=self.deviation, tensor=self.tensor
        )
        return [
            bundle_pb2.PreprocessingStep(decode_image=bundle_pb2.DecodeImage(channels=len(self.mean))),
            bundle_pb2.PreprocessingStep(resize_image=resize),
            *([bundle_pb2.PreprocessingStep(crop_image=crop)] if is_cut else []),
            bundle_pb2.PreprocessingStep(normalise_image=normalise),
        ]

    def patches(self, size: int, *, leading: tuple[str, ...] = (), name: str = "patches") -> LabelSet:
        """Its cells of `size` × `size` pixels, behind some other entries (a class token)."""
        return self.cells(self.rows // size, self.columns // size, leading=leading, name=name)

    def cells(self, rows: int, columns: int, *, leading: tuple[str, ...] = (), name: str = "cells") -> LabelSet:
        """So many cells, that cover it evenly; one row of them for the frames of a film."""
        return LabelSet(name=name, kind="grid", input=self.name, names=leading, grid=(rows, columns))


@dataclass(frozen=True, kw_only=True)
class SpectrogramInput(Input):
    """A recording -> `features` float32 [mel, frame].

    sample_rate: samples a second. window, hop: samples of a window, and between two. mels: number of filters.
    frames: of every recording; the card's `max_audio_seconds` is no more.
    """

    name: str = "audio"
    summary: str
    sample_rate: int
    window: int
    hop: int
    mels: int
    frames: int
    kind = model_pb2.INPUT_KIND_AUDIO

    @property
    def tensors(self) -> Sequence[TensorSpec]:
        return [TensorSpec(name="features", dimensions={"mel": self.mels, "mel_frame": self.frames}, fixed=True)]

    @property
    def steps(self) -> Sequence[bundle_pb2.PreprocessingStep]:
        decode = bundle_pb2.DecodeAudio(sample_rate=self.sample_rate)
        return [bundle_pb2.PreprocessingStep(decode_audio=decode), self.spectrogram]

    @property
    @abstractmethod
    def spectrogram(self) -> bundle_pb2.PreprocessingStep:
        """The step that makes it of samples."""


@dataclass(frozen=True, kw_only=True)
class AudioInput(SpectrogramInput):
    """The logarithm of a recording's mel spectrogram (`LogMel` of bundle.proto).

    highest_frequency: where the last filter ends, in Hz.
    """

    highest_frequency: float

    @property
    def seconds(self) -> float:
        """Length of the longest recording."""
        return self.frames * self.hop / self.sample_rate

    @property
    def spectrogram(self) -> bundle_pb2.PreprocessingStep:
        log_mel = bundle_pb2.LogMel(
            window=self.window,
            hop=self.hop,
            mels=self.mels,
            highest_frequency=self.highest_frequency,
            frames=self.frames,
            tensor="features",
        )
        return bundle_pb2.PreprocessingStep(log_mel=log_mel)

    def joined_frames(self, joined: int, name: str = "frames") -> LabelSet:
        """Frames of the model, each of so many of the spectrogram's."""
        seconds = joined * self.hop / self.sample_rate
        return LabelSet(name=name, kind="frames", input=self.name, frames=(self.frames // joined, seconds))


@dataclass(frozen=True, kw_only=True)
class FbankInput(SpectrogramInput):
    """The logarithm of a recording's filter bank, less `mean` and divided by `deviation` (`Fbank` of bundle.proto).

    lowest_frequency: where the first filter starts, in Hz.
    """

    lowest_frequency: float
    mean: float
    deviation: float

    @property
    def seconds(self) -> float:
        """Length of the longest recording."""
        return (self.window + (self.frames - 1) * self.hop) / self.sample_rate

    @property
    def spectrogram(self) -> bundle_pb2.PreprocessingStep:
        fbank = bundle_pb2.Fbank(
            window=self.window,
            hop=self.hop,
            mels=self.mels,
            lowest_frequency=self.lowest_frequency,
            frames=self.frames,
            mean=self.mean,
            deviation=self.deviation,
            tensor="features",
        )
        return bundle_pb2.PreprocessingStep(fbank=fbank)

    def cells(self, rows: int, columns: int, *, leading: tuple[str, ...] = (), name: str = "patches") -> LabelSet:
        """So many cells that cover it: rows are bands from the lowest up, columns times."""
        return LabelSet(name=name, kind="grid", input=self.name, names=leading, grid=(rows, columns))
