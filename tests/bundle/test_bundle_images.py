"""Image files to tensors."""

import io
import struct
import time
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image as Picture

from limelight.v1 import attention_pb2, model_pb2, values_pb2
from limelight_bundle.errors import BundleError, InputError, TooLargeError
from limelight_bundle.preprocess import Preprocessor
from limelight_bundle.preprocess.images import decode_image, normalise_image
from limelight_bundle.rows import Row
from limelight_bundle.v1 import bundle_pb2
from limelight_bundle.values import Image


def bundle(channels: int = 1, **normalise: object) -> bundle_pb2.Bundle:
    """4 x 6 pixels, on a grid of 2 x 3 behind a class token."""
    sizes = {"channel": channels, "row": 4, "column": 6}
    pixels = model_pb2.TensorDescription(
        name="pixels",
        data_type=values_pb2.DATA_TYPE_FLOAT32,
        dimensions=[model_pb2.Dimension(name=name, size=size) for name, size in sizes.items()],
    )
    steps = {"scale": 1 / 255, "mean": [0.5] * channels, "deviation": [0.25] * channels, "tensor": "pixels"}
    grid = attention_pb2.Grid(rows=2, columns=3, leading=["class"])
    return bundle_pb2.Bundle(
        description=model_pb2.ModelDescription(
            inputs=[model_pb2.InputDescription(name="image", kind=model_pb2.INPUT_KIND_IMAGE, tensors=[pixels])],
            label_sets=[model_pb2.LabelSetDescription(name="cells", kind=attention_pb2.LABEL_KIND_GRID, grid=grid)],
            limits=model_pb2.Limits(max_pixels=10_000),
        ),
        preprocessing=[
            bundle_pb2.Preprocessing(
                input="image",
                steps=[
                    {"decode_image": {"channels": channels}},
                    {"resize_image": {"rows": 4, "columns": 6}},
                    {"normalise_image": steps | normalise},
                ],  # type: ignore[list-item]
            )
        ],
    )


def row(data: bytes, channels: int = 1) -> Row:
    return Preprocessor.from_parts(bundle(channels), {}).row({"image": Image(data)}, field=("instances", 0))


def encoded(array: np.ndarray, kind: str = "PNG", **options: object) -> bytes:
    buffer = io.BytesIO()
    Picture.fromarray(array).save(buffer, kind, **options)
    return buffer.getvalue()


def png_header(width: int, height: int) -> bytes:
    """A PNG file that says its size, and has hardly any pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(9))) + chunk(b"IEND", b"")


GREY = (np.arange(24, dtype=np.uint8) * 10).reshape(4, 6)


def test_pixels_of_the_right_size_are_only_scaled() -> None:
    made = row(encoded(GREY))
    assert made.tensors["pixels"].dtype == np.float32
    np.testing.assert_allclose(made.tensors["pixels"][0], (GREY / 255 - 0.5) / 0.25, atol=1e-6)
    assert made.labels["cells"].size == 7
    assert made.sizes == {"channel": 1, "row": 4, "column": 6}


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "BMP", "GIF", "WEBP"])
def test_formats_sizes_and_colours(kind: str) -> None:
    colour = np.zeros((40, 60, 3), np.uint8) + np.array([250, 130, 10], np.uint8)
    made = row(encoded(colour, kind), channels=3).tensors["pixels"]
    assert made.shape == (3, 4, 6)
    bytes_again = (made * 0.25 + 0.5) * 255
    np.testing.assert_allclose(bytes_again.mean((1, 2)), [250, 130, 10], atol=12)


def test_rows_and_columns_are_not_swapped() -> None:
    image = np.zeros((8, 12), np.uint8)
    image[:, 6:] = 255
    made = row(encoded(image)).tensors["pixels"][0]
    assert (made[:, 0] < 0).all()
    assert (made[:, -1] > 0).all()


def test_each_channel_has_its_own_mean_and_deviation() -> None:
    pixels = np.full((2, 2, 3), 100, np.uint8)
    made = normalise_image(pixels, scale=0.01, mean=[0, 0.5, 1], deviation=[1, 0.5, 2])
    np.testing.assert_allclose(made[:, 0, 0], [1, 1, 0], atol=1e-6)
    assert made.flags.c_contiguous


@pytest.mark.parametrize(("width", "height"), [(20_000, 20_000), (101, 100), (2**31 - 1, 2**31 - 1), (10_001, 1)])
def test_too_many_pixels_are_refused_by_the_header(width: int, height: int) -> None:
    begin = time.process_time()
    with pytest.raises(TooLargeError, match="at most 10000") as caught:
        row(png_header(width, height))
    assert time.process_time() - begin < 0.2
    assert caught.value.field == 'instances[0].inputs["image"]'


def test_as_many_pixels_as_are_allowed() -> None:
    assert row(encoded(np.zeros((100, 100), np.uint8))).tensors["pixels"].shape == (1, 4, 6)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no image",
        encoded(np.full((90, 90), 7, np.uint8))[:60],
        encoded(GREY, "TIFF"),
        encoded(GREY, "PPM"),
        png_header(50, 50),
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
    ],
)
def test_what_is_no_image_of_a_known_format(data: bytes) -> None:
    with pytest.raises(InputError, match="is not an image in one of the formats PNG, JPEG"):
        row(data)


FILES = [encoded(np.dstack([GREY] * 3), kind) for kind in ("PNG", "JPEG", "BMP", "GIF", "WEBP")]


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(FILES), st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=6))
def test_no_damage_raises_anything_but_an_input_error(data: bytes, changes: list[tuple[int, int]]) -> None:
    broken = bytearray(data)
    for place, value in changes:
        broken[place % len(broken)] = value
    try:
        made, size = decode_image(bytes(broken), channels=3, max_pixels=10_000, field=("x",))
    except InputError as error:
        assert error.field == "x"
    else:
        assert made.shape == (*size, 3)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"mean": [0.5, 0.5]}, "needs a mean and a deviation for each channel"),
        ({"deviation": []}, "needs a mean and a deviation for each channel"),
        ({"tensor": "image"}, "step 3, normalise_image, outputs the tensor 'image', which the input does not have"),
        ({"deviation": [0]}, "that is not finite, or a deviation of 0"),
        ({"scale": float("inf")}, "that is not finite, or a deviation of 0"),
    ],
)
def test_steps_that_do_not_fit_the_tensor(change: dict[str, object], reason: str) -> None:
    with pytest.raises(BundleError, match=reason):
        Preprocessor.from_parts(bundle(**change), {})  # type: ignore[arg-type]


def test_an_image_of_another_shape_than_the_tensor() -> None:
    wrong = bundle()
    wrong.description.inputs[0].tensors[0].dimensions[1].size = 8
    with pytest.raises(BundleError, match=r"outputs \[1, 4, 6\], which is not the shape \[1, 8, 6\] of the tensor"):
        Preprocessor.from_parts(wrong, {})
