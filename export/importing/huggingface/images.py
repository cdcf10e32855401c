"""Pictures of checkpoints: what preprocessor_config.json states, as steps of a bundle."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bundle.v1 import bundle_pb2
from export.errors import CheckpointError
from export.importing.huggingface.checkpoint import Checkpoint
from models.cards.inputs import ImageInput

PREPROCESSOR = "preprocessor_config.json"
# Pillow's numbers of resampling.
_RESAMPLING = {
    0: bundle_pb2.RESAMPLING_NEAREST,
    1: bundle_pb2.RESAMPLING_LANCZOS,
    2: bundle_pb2.RESAMPLING_BILINEAR,
    3: bundle_pb2.RESAMPLING_BICUBIC,
}
_KNOWN = frozenset(
    """
    do_resize size resample do_center_crop crop_size do_rescale rescale_factor do_normalize image_mean image_std
    do_convert_rgb
    """.split()
)
_RECORDS = frozenset(
    """
    image_processor_type feature_extractor_type processor_class _processor_class _valid_processor_keys data_format
    input_data_format return_tensors device default_to_square disable_grouping
    """.split()
)


@dataclass(frozen=True, kw_only=True)
class CheckpointImageInput(ImageInput):
    """A picture, resized as a checkpoint states, and cut to the model's size from its centre.

    Attributes:
        resized: rows and columns before it is cut.
        resampling: of the bundle format.
        scale: factor of the bytes.
    """

    resized: tuple[int, int]
    resampling: bundle_pb2.Resampling
    scale: float

    @property
    def steps(self) -> Sequence[bundle_pb2.PreprocessingStep]:
        rows, columns = self.resized
        resize = bundle_pb2.ResizeImage(
            rows=rows, columns=columns, fit=bundle_pb2.FIT_STRETCH, resampling=self.resampling
        )
        crop = bundle_pb2.CropImage(rows=self.rows, columns=self.columns)
        normalise = bundle_pb2.NormaliseImage(
            scale=self.scale, mean=self.mean, deviation=self.deviation, tensor="pixels"
        )
        decode = bundle_pb2.DecodeImage(channels=len(self.mean))
        return [
            bundle_pb2.PreprocessingStep(decode_image=decode),
            bundle_pb2.PreprocessingStep(resize_image=resize),
            *([bundle_pb2.PreprocessingStep(crop_image=crop)] if self.resized != (self.rows, self.columns) else []),
            bundle_pb2.PreprocessingStep(normalise_image=normalise),
        ]


def image_input(checkpoint: Checkpoint, size: int, channels: int) -> CheckpointImageInput:
    """Read how a picture becomes pixels.

    Args:
        size: rows and columns that the model takes.

    Raises:
        CheckpointError: preprocessor_config.json is missing, states something unknown, or makes pictures of another
            size or number of channels.
    """
    stated = checkpoint.table(PREPROCESSOR)
    if not stated:
        raise CheckpointError(f"the checkpoint has no {PREPROCESSOR}, which states how a picture becomes pixels")
    if unknown := sorted(stated.keys() - _KNOWN - _RECORDS):
        raise CheckpointError(
            f"{PREPROCESSOR} states {unknown[0]} {stated[unknown[0]]!r}, which is not classified: "
            "it could change the pixels unseen"
        )
    for name in ("do_resize", "do_rescale", "do_normalize"):
        if stated.get(name, True) is not True:
            raise CheckpointError(f"{PREPROCESSOR} states {name} {stated[name]!r}; it can be True")
    resized = _size(stated, "size")
    crop = _size(stated, "crop_size") if stated.get("do_center_crop") else resized
    if crop != (size, size):
        raise CheckpointError(
            f"{PREPROCESSOR} makes pictures of {crop[0]} x {crop[1]} pixels; the model takes {size} x {size}"
        )
    resampling = stated.get("resample", 2)
    if resampling not in _RESAMPLING:
        raise CheckpointError(f"{PREPROCESSOR} states resample {resampling!r}; it can be 0, 1, 2 or 3")
    mean, deviation = (_of_channels(stated, name, channels) for name in ("image_mean", "image_std"))
    return CheckpointImageInput(
        rows=size,
        columns=size,
        mean=mean,
        deviation=deviation,
        resized=resized,
        resampling=_RESAMPLING[resampling],
        scale=float(stated.get("rescale_factor", 1 / 255)),
    )


def _size(stated: Mapping[str, Any], name: str) -> tuple[int, int]:
    """Read rows and columns. Raises CheckpointError for a size that keeps the aspect ratio."""
    found = stated.get(name)
    if isinstance(found, int):
        return found, found
    if isinstance(found, Mapping) and isinstance(found.get("height"), int) and isinstance(found.get("width"), int):
        return found["height"], found["width"]
    raise CheckpointError(f"{PREPROCESSOR} states {name} {found!r}; it is a number, or height and width")


def _of_channels(stated: Mapping[str, Any], name: str, channels: int) -> list[float]:
    found = stated.get(name)
    if (
        not isinstance(found, list)
        or len(found) != channels
        or not all(isinstance(each, int | float) for each in found)
    ):
        raise CheckpointError(f"{PREPROCESSOR} states {name} {found!r}; the model has {channels} channels")
    return [float(each) for each in found]
