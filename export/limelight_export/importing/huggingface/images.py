"""Pictures of checkpoints: what their processor states, as steps of a bundle."""

from collections.abc import Mapping
from typing import Any

from limelight_export.errors import CheckpointError
from limelight_export.importing.huggingface.checkpoint import Checkpoint, Processor
from limelight_models.cards.inputs import ImageInput, Resampling

# Pillow's numbers of resampling.
_RESAMPLING: Mapping[int, Resampling] = {
    0: "nearest",
    1: "lanczos",
    2: "bilinear",
    3: "bicubic",
}
_KNOWN = frozenset(
    """
    do_resize size resample do_center_crop crop_size do_rescale rescale_factor do_normalize image_mean image_std
    do_convert_rgb
    """.split()
)
# Of processors of DETR: pictures of one size need no padding, and the others are about training.
_OF_DETECTION = frozenset(
    "do_pad pad_and_return_pixel_mask pad_size max_size format annotations do_convert_annotations".split()
)
# Of annotations, which are no pictures.
_OF_ANNOTATIONS = {name: frozenset({"do_reduce_labels", "reduce_labels"}) for name in ("beit", "segformer")}
# Processors that resize with bicubic interpolation, and of these those that cut pictures to their centre, unless a file
# states otherwise.
_CUTTING = frozenset({"clip", "deit", "dinov2", "dinov2_with_registers"})
_BICUBIC = _CUTTING | {"beit", "siglip"}
_RECORDS = frozenset(
    """
    image_processor_type feature_extractor_type processor_class _processor_class _valid_processor_keys data_format
    input_data_format return_tensors device default_to_square disable_grouping
    """.split()
)


def image_input(
    checkpoint: Checkpoint, size: int | None, channels: int, *, default_to_square: bool = True
) -> ImageInput:
    """Read how a picture becomes pixels.

    Args:
        size: rows and columns that the model takes; None where it takes those that the processor makes.
        default_to_square: whether a size that is one number is that of both sides; else it is that of the shorter one.

    Raises:
        CheckpointError: the processor is missing, states something unknown, or makes pictures of another
            size or number of channels.
    """
    stated = _stated(checkpoint, _KNOWN)
    is_cut = stated.fields.get("do_center_crop", checkpoint.model_type in _CUTTING)
    shortest = _shortest(stated.fields.get("size"), default_to_square=default_to_square)
    resized = _size(stated, "size") if shortest is None else (shortest, shortest)
    if shortest is not None and not is_cut:
        raise CheckpointError(
            f"{stated.file} states the size of the shorter side without do_center_crop; the model takes one size"
        )
    crop = _size(stated, "crop_size") if is_cut else resized
    wanted = crop if size is None else (size, size)
    made = min(crop[0], resized[0]), min(crop[1], resized[1])
    if (crop, made) != (wanted, wanted):
        raise CheckpointError(
            f"{stated.file} makes pictures of {made[0]} x {made[1]} pixels; the model takes {wanted[0]} x {wanted[1]}"
        )
    return _input(checkpoint, stated, wanted, channels, resized=resized, covered=shortest is not None)


def stretched_input(checkpoint: Checkpoint, channels: int, size: tuple[int, int] | None) -> ImageInput:
    """Read how a whole picture becomes pixels of one size, whatever its aspect ratio.

    Args:
        size: rows and columns in place of those that the checkpoint states.

    Raises:
        CheckpointError: the processor is missing, states something unknown, a cut or padding, or no rows and
            columns while `size` is None.
    """
    stated = _stated(checkpoint, _KNOWN | _OF_DETECTION)
    for name in ("do_center_crop", "pad_size"):
        if stated.fields.get(name):
            raise CheckpointError(
                f"{stated.file} states {name} {stated.fields[name]!r}; boxes are of the whole picture"
            )
    found = stated.fields.get("size")
    if size is None and not (isinstance(found, Mapping) and found.keys() == {"height", "width"}):
        raise CheckpointError(
            f"{stated.file} states size {found!r}, which keeps the aspect ratio; a bundle takes pictures of one size: "
            "--size 800x1056 stretches every picture to 800 rows and 1056 columns"
        )
    made = size or _size(stated, "size")
    return _input(checkpoint, stated, made, channels, resized=made, covered=False)


def _stated(checkpoint: Checkpoint, known: frozenset[str]) -> Processor:
    """Read the processor. Raises CheckpointError where it is missing, or states something that is not known."""
    found = checkpoint.processor("image_processor")
    harmless = _RECORDS | _OF_ANNOTATIONS.get(checkpoint.model_type, frozenset())
    if unknown := sorted(found.fields.keys() - known - harmless):
        raise CheckpointError(
            f"{found.file} states {unknown[0]} {found.fields[unknown[0]]!r}, which is not classified: "
            "it could change the pixels unseen"
        )
    for name in ("do_resize", "do_rescale", "do_normalize"):
        if found.fields.get(name, True) is not True:
            raise CheckpointError(f"{found.file} states {name} {found.fields[name]!r}; it can be True")
    return found


def _input(
    checkpoint: Checkpoint,
    stated: Processor,
    size: tuple[int, int],
    channels: int,
    *,
    resized: tuple[int, int],
    covered: bool,
) -> ImageInput:
    resampling = stated.fields.get("resample", 3 if checkpoint.model_type in _BICUBIC else 2)
    if not isinstance(resampling, int) or resampling not in _RESAMPLING:
        raise CheckpointError(f"{stated.file} states resample {resampling!r}; it can be 0, 1, 2 or 3")
    scale = stated.fields.get("rescale_factor", 1 / 255)
    if not isinstance(scale, int | float):
        raise CheckpointError(f"{stated.file} states rescale_factor {scale!r}; it is a number")
    mean, deviation = (_of_channels(stated, name, channels) for name in ("image_mean", "image_std"))
    rows, columns = size
    return ImageInput(
        rows=rows,
        columns=columns,
        mean=mean,
        deviation=deviation,
        resized=resized,
        fit="cover_floor" if covered else "stretch",
        resampling=_RESAMPLING[resampling],
        scale=float(scale),
    )


def _shortest(size: Any, *, default_to_square: bool) -> int | None:
    """Return the size of the shorter side, if that is what is stated."""
    if isinstance(size, int) and not default_to_square:
        return size
    if isinstance(size, Mapping) and set(size) == {"shortest_edge"} and isinstance(size["shortest_edge"], int):
        return size["shortest_edge"]
    return None


def _size(stated: Processor, name: str) -> tuple[int, int]:
    """Read rows and columns. Raises CheckpointError for another form of size."""
    found = stated.fields.get(name)
    if isinstance(found, int):
        return found, found
    if isinstance(found, Mapping) and isinstance(found.get("height"), int) and isinstance(found.get("width"), int):
        return found["height"], found["width"]
    raise CheckpointError(f"{stated.file} states {name} {found!r}; it is a number, or height and width")


def _of_channels(stated: Processor, name: str, channels: int) -> list[float]:
    found = stated.fields.get(name)
    if (
        not isinstance(found, list)
        or len(found) != channels
        or not all(isinstance(each, int | float) for each in found)
    ):
        raise CheckpointError(f"{stated.file} states {name} {found!r}; the model has {channels} channels")
    return [float(each) for each in found]
