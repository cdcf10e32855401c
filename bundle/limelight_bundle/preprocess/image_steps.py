"""Steps that turn an image file into a tensor."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from PIL.Image import Resampling

from limelight.v1 import attention_pb2, values_pb2
from limelight_bundle.errors import BundleError, InputError
from limelight_bundle.label_sets import grid_labels
from limelight_bundle.preprocess.images import decode_image, normalise_image, resize
from limelight_bundle.preprocess.step_types import (
    DataFormat,
    DataKind,
    Picture,
    PreprocessedInput,
    RunOptions,
    Step,
    StepContext,
)
from limelight_bundle.v1 import bundle_pb2
from limelight_bundle.values import Image

_RESAMPLING: Mapping[int, Resampling] = {
    bundle_pb2.RESAMPLING_UNSPECIFIED: Resampling.BILINEAR,
    bundle_pb2.RESAMPLING_NEAREST: Resampling.NEAREST,
    bundle_pb2.RESAMPLING_BILINEAR: Resampling.BILINEAR,
    bundle_pb2.RESAMPLING_BICUBIC: Resampling.BICUBIC,
    bundle_pb2.RESAMPLING_LANCZOS: Resampling.LANCZOS,
}
_COVERS = (bundle_pb2.FIT_COVER, bundle_pb2.FIT_COVER_FLOOR)
# Maximum aspect ratio of a picture that covers a size.
_LONGEST = 64


def _check_positive(rows: int, columns: int) -> None:
    if min(rows, columns) < 1:
        raise BundleError(f"makes a picture of {rows} x {columns} pixels")


@dataclass(frozen=True)
class DecodeImage(Step):
    """Decodes an image file, and applies its EXIF orientation.

    Attributes:
        target_size: rows and columns of the next step's resize, so that a JPEG can be decoded at a reduced size.
    """

    accepts: ClassVar[frozenset[DataKind]] = frozenset({DataKind.FILE})
    produces: ClassVar[DataKind] = DataKind.PICTURE
    result_format: DataFormat
    max_pixels: int
    target_size: tuple[int, int] | None

    @classmethod
    def make(
        cls,
        message: bundle_pb2.DecodeImage,
        context: StepContext,
        input_format: DataFormat,
        next_step: bundle_pb2.PreprocessingStep | None,
    ) -> Self:
        """See `Step.make`."""
        if message.channels not in (1, 3):
            raise BundleError(f"decodes to {message.channels} channels; use 1 or 3")
        target_size = None
        if next_step is not None and next_step.HasField("resize_image"):
            wanted = next_step.resize_image
            if wanted.resampling != bundle_pb2.RESAMPLING_NEAREST:  # of which each pixel is one of the file's
                target_size = wanted.rows, wanted.columns
        return cls(DataFormat(DataKind.PICTURE, message.channels, 1, 1), context.limits.max_pixels, target_size)

    @property
    def output_format(self) -> DataFormat:
        """See `Step.output_format`."""
        return self.result_format

    def run(self, value: Image, options: RunOptions) -> Picture:
        """Decode an image.

        Raises:
            InputError: the file is not an image.
            TooLargeError: the image has too many pixels.
        """
        pixels, (rows, columns) = decode_image(
            value.data,
            channels=self.result_format.channels,
            max_pixels=self.max_pixels,
            field=options.field,
            target_size=self.target_size,
        )
        return Picture(pixels, attention_pb2.Region(left=0, top=0, right=columns, bottom=rows))


@dataclass(frozen=True)
class ResizeImage(Step):
    """Resizes a picture."""

    accepts: ClassVar[frozenset[DataKind]] = frozenset({DataKind.PICTURE})
    produces: ClassVar[DataKind] = DataKind.PICTURE
    result_format: DataFormat
    rows: int
    columns: int
    fit: int
    resampling: Resampling

    @classmethod
    def make(
        cls,
        message: bundle_pb2.ResizeImage,
        context: StepContext,
        input_format: DataFormat,
        next_step: bundle_pb2.PreprocessingStep | None,
    ) -> Self:
        """See `Step.make`."""
        _check_positive(message.rows, message.columns)
        if message.resampling not in _RESAMPLING or message.fit not in bundle_pb2.Fit.values():
            raise BundleError("has a fit or a resampling unknown to this release")
        exact = message.fit not in _COVERS or (input_format.exact and _same_shape(input_format, message))
        output_format = replace(input_format, rows=message.rows, columns=message.columns, exact=exact)
        return cls(output_format, message.rows, message.columns, message.fit, _RESAMPLING[message.resampling])

    @property
    def output_format(self) -> DataFormat:
        """See `Step.output_format`."""
        return self.result_format

    def run(self, value: Picture, options: RunOptions) -> Picture:
        """Resize a picture. Raises InputError if covering the size would need too many pixels."""
        rows, columns = value.pixels.shape[:2]
        if self.fit not in (*_COVERS, bundle_pb2.FIT_CONTAIN):
            return Picture(resize(value.pixels, self.rows, self.columns, self.resampling), value.region)
        down, across = self.rows / rows, self.columns / columns
        if self.fit in _COVERS:
            scale = max(down, across)
            scaled = max(self.rows, round(rows * scale)), max(self.columns, round(columns * scale))
            if self.fit == bundle_pb2.FIT_COVER_FLOOR:
                scaled = max(self.rows, rows * self.columns // columns), max(self.columns, columns * self.rows // rows)
            if max(scaled) > _LONGEST * max(self.rows, self.columns):
                raise InputError(options.field, f"is {columns} x {rows} pixels, which is too narrow for the model")
            return Picture(resize(value.pixels, *scaled, self.resampling), value.region)
        scale = min(down, across)
        scaled = max(1, min(self.rows, round(rows * scale))), max(1, min(self.columns, round(columns * scale)))
        inside = resize(value.pixels, *scaled, self.resampling)
        top, left = (self.rows - scaled[0]) // 2, (self.columns - scaled[1]) // 2
        pixels = np.zeros((self.rows, self.columns, inside.shape[2]), dtype=np.uint8)
        pixels[top : top + scaled[0], left : left + scaled[1]] = inside
        return Picture(pixels, _region_of_part(value.region, scaled, (-top, -left), (self.rows, self.columns)))


def _same_shape(input_format: DataFormat, message: bundle_pb2.ResizeImage) -> bool:
    return input_format.rows * message.columns == input_format.columns * message.rows


@dataclass(frozen=True)
class CropImage(Step):
    """Keeps the centre of a picture."""

    accepts: ClassVar[frozenset[DataKind]] = frozenset({DataKind.PICTURE})
    produces: ClassVar[DataKind] = DataKind.PICTURE
    result_format: DataFormat
    rows: int
    columns: int

    @classmethod
    def make(
        cls,
        message: bundle_pb2.CropImage,
        context: StepContext,
        input_format: DataFormat,
        next_step: bundle_pb2.PreprocessingStep | None,
    ) -> Self:
        """See `Step.make`."""
        _check_positive(message.rows, message.columns)
        if input_format.exact and (input_format.rows < message.rows or input_format.columns < message.columns):
            raise BundleError(
                f"keeps {message.rows} x {message.columns} pixels of a picture of "
                f"{input_format.rows} x {input_format.columns}"
            )
        output_format = replace(input_format, rows=message.rows, columns=message.columns, exact=True)
        return cls(output_format, message.rows, message.columns)

    @property
    def output_format(self) -> DataFormat:
        """See `Step.output_format`."""
        return self.result_format

    def run(self, value: Picture, options: RunOptions) -> Picture:
        """Crop a picture. Raises InputError if it is smaller."""
        rows, columns = value.pixels.shape[:2]
        if rows < self.rows or columns < self.columns:
            raise InputError(
                options.field,
                f"has {rows} rows and {columns} columns; at least {self.rows} and {self.columns} are needed",
            )
        top, left = (rows - self.rows) // 2, (columns - self.columns) // 2
        pixels = value.pixels[top : top + self.rows, left : left + self.columns]
        return Picture(pixels, _region_of_part(value.region, (rows, columns), (top, left), (self.rows, self.columns)))


@dataclass(frozen=True)
class NormaliseImage(Step):
    """Turns a picture into float32 [channel, row, column]."""

    accepts: ClassVar[frozenset[DataKind]] = frozenset({DataKind.PICTURE})
    produces: ClassVar[DataKind] = DataKind.TENSORS
    context: StepContext
    message: bundle_pb2.NormaliseImage
    tensors: tuple[str, ...]

    @classmethod
    def make(
        cls,
        message: bundle_pb2.NormaliseImage,
        context: StepContext,
        input_format: DataFormat,
        next_step: bundle_pb2.PreprocessingStep | None,
    ) -> Self:
        """See `Step.make`."""
        dimensions = context.tensor(message.tensor, 3, values_pb2.DATA_TYPE_FLOAT32).description.dimensions
        wanted = [each.size for each in dimensions]
        shape = [input_format.channels, input_format.rows, input_format.columns]
        checked = 3 if input_format.exact else 1
        if any(size not in (0, own) for size, own in zip(wanted[:checked], shape[:checked], strict=True)):
            raise BundleError(f"outputs {shape}, which is not the shape {wanted} of the tensor {message.tensor!r}")
        if not input_format.exact and any(wanted[1:]):
            raise BundleError(
                f"gets pictures of any size, but the tensor {message.tensor!r} has the fixed shape {wanted}"
            )
        if len(message.mean) != input_format.channels or len(message.deviation) != input_format.channels:
            raise BundleError("needs a mean and a deviation for each channel")
        if not all(np.isfinite([message.scale, *message.mean, *message.deviation])) or 0 in message.deviation:
            raise BundleError("has a scale, mean or deviation that is not finite, or a deviation of 0")
        return cls(context, message, (message.tensor,))

    def run(self, value: Picture, options: RunOptions) -> PreprocessedInput:
        """Normalise a picture, and label each grid with the part of the image that its cells cover.

        Raises:
            InputError: the picture has more rows or columns than the tensor.
        """
        message, name = self.message, self.context.input.name
        dimensions = self.context.tensors[message.tensor].description.dimensions
        for dimension, size in zip(dimensions[1:], value.pixels.shape, strict=False):
            if dimension.maximum and size > dimension.maximum:
                raise InputError(
                    options.field, f"has {size} for {dimension.name}; at most {dimension.maximum} are allowed"
                )
        values = normalise_image(value.pixels, scale=message.scale, mean=message.mean, deviation=message.deviation)
        sizes = {dimension.name: size for dimension, size in zip(dimensions, values.shape, strict=True)}
        labels = {
            each.name: grid_labels(each, value.region) for each in self.context.label_sets if each.HasField("grid")
        }
        return PreprocessedInput(name, {message.tensor: values}, sizes, labels)


def _region_of_part(
    region: attention_pb2.Region, sizes: tuple[int, int], begin: tuple[int, int], kept: tuple[int, int]
) -> attention_pb2.Region:
    """Return the region of the image that a part of a picture shows.

    Args:
        region: region that the picture shows.
        sizes: (rows, columns) of the picture.
        begin: (row, column) of the part's start; negative if it extends beyond the picture.
        kept: (rows, columns) of the part.
    """
    down, across = (region.bottom - region.top) / sizes[0], (region.right - region.left) / sizes[1]
    top, left = region.top + begin[0] * down, region.left + begin[1] * across
    return attention_pb2.Region(left=left, top=top, right=left + kept[1] * across, bottom=top + kept[0] * down)
