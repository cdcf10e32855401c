"""Steps from an image file to a tensor: size, shape, orientation, the part that cells cover, and threads."""

import io
import struct
import subprocess
import sys
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image as Pillow

from limelight.v1 import attention_pb2, model_pb2, values_pb2
from limelight_bundle.errors import BundleError, InputError, TooLargeError
from limelight_bundle.preprocess import Preprocessor
from limelight_bundle.preprocess.images import decode_image
from limelight_bundle.rows import Row
from limelight_bundle.v1 import bundle_pb2
from limelight_bundle.values import Image, TensorValue

COVER, CONTAIN, STRETCH = bundle_pb2.FIT_COVER, bundle_pb2.FIT_CONTAIN, bundle_pb2.FIT_STRETCH
FLOOR = bundle_pb2.FIT_COVER_FLOOR


Steps = dict[str, dict[str, object]]


def bundle(
    *steps: Steps, rows: int = 4, columns: int = 4, most: int = 0, channels: int = 1, **normalise: object
) -> bundle_pb2.Bundle:
    """The steps between decoding and normalising; pixels stay as they are. normalise: what of the last is changed."""
    sizes = {"channel": channels, "row": rows, "column": columns}
    pixels = model_pb2.TensorDescription(
        name="pixels",
        data_type=values_pb2.DATA_TYPE_FLOAT32,
        dimensions=[model_pb2.Dimension(name=name, size=size, maximum=most) for name, size in sizes.items()],
    )
    grid = attention_pb2.Grid(rows=2, columns=2, leading=["class"])
    cells = model_pb2.LabelSetDescription(name="cells", kind=attention_pb2.LABEL_KIND_GRID, grid=grid, input="image")
    last = {"scale": 1, "mean": [0] * channels, "deviation": [1] * channels, "tensor": "pixels", **normalise}
    every = [{"decode_image": {"channels": channels}}, *steps, {"normalise_image": last}]
    return bundle_pb2.Bundle(
        description=model_pb2.ModelDescription(
            inputs=[model_pb2.InputDescription(name="image", kind=model_pb2.INPUT_KIND_IMAGE, tensors=[pixels])],
            label_sets=[cells],
            limits=model_pb2.Limits(max_pixels=1_000_000),
        ),
        preprocessing=[bundle_pb2.Preprocessing(input="image", steps=every)],  # type: ignore[arg-type]
    )


def resized(rows: int, columns: int, fit: int = STRETCH, resampling: int = 0) -> Steps:
    return {"resize_image": {"rows": rows, "columns": columns, "fit": fit, "resampling": resampling}}


def cropped(rows: int, columns: int) -> Steps:
    return {"crop_image": {"rows": rows, "columns": columns}}


def file_of(picture: np.ndarray | Pillow.Image, kind: str = "PNG", **options: object) -> bytes:
    buffer = io.BytesIO()
    (Pillow.fromarray(picture) if isinstance(picture, np.ndarray) else picture).save(buffer, kind, **options)
    return buffer.getvalue()


def read(made: bundle_pb2.Bundle, data: bytes) -> Row:
    return Preprocessor.from_parts(made, {}).row({"image": Image(data)}, field=("instances", 0))


def row(made: bundle_pb2.Bundle, pixels: np.ndarray, kind: str = "PNG", **options: object) -> Row:
    return read(made, file_of(pixels, kind, **options))


def region(made: Row) -> tuple[float, float, float, float]:
    found = made.labels["cells"].grid
    assert found is not None and found.HasField("region")
    return found.region.left, found.region.top, found.region.right, found.region.bottom


NUMBERS = np.arange(8 * 12, dtype=np.uint8).reshape(8, 12)


def test_a_crop_keeps_the_middle_and_says_where_it_was() -> None:
    made = row(bundle(cropped(4, 4)), NUMBERS)
    np.testing.assert_array_equal(made.tensors["pixels"][0], NUMBERS[2:6, 4:8])
    assert region(made) == (4, 2, 8, 6)
    assert made.labels["cells"].inputs == ("image",)
    assert made.labels["cells"].size == 5


def test_covering_keeps_the_shape_and_a_crop_after_it_the_middle() -> None:
    # 8 x 12 covers 4 x 4 as 4 x 6; the middle 4 columns of 6 are 2/12 to 10/12 of the image.
    made = row(bundle(resized(4, 4, COVER), cropped(4, 4)), NUMBERS)
    assert made.tensors["pixels"].shape == (1, 4, 4)
    assert region(made) == pytest.approx((2, 0, 10, 8))


def test_what_lies_within_a_size_is_in_the_middle_of_black_and_cells_reach_beyond_the_image() -> None:
    made = row(bundle(resized(6, 6, CONTAIN), rows=6, columns=6), np.full((8, 12), 200, np.uint8))
    expected = np.zeros((6, 6))
    expected[1:5] = 200  # 8 x 12 becomes 4 x 6
    np.testing.assert_array_equal(made.tensors["pixels"][0], expected)
    assert region(made) == pytest.approx((0, -2, 12, 10))


def test_pixels_are_scaled_each_channel_by_its_own_mean_and_deviation() -> None:
    pixels = np.full((4, 4, 3), 100, np.uint8)
    made = row(bundle(resized(4, 4), channels=3, scale=0.01, mean=[0, 0.5, 1], deviation=[1, 0.5, 2]), pixels)
    assert made.tensors["pixels"].dtype == np.float32 and made.tensors["pixels"].flags.c_contiguous
    np.testing.assert_allclose(made.tensors["pixels"][:, 0, 0], [1, 1, 0], atol=1e-6)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "BMP", "GIF", "WEBP"])
def test_formats_have_their_colours_and_their_columns(kind: str) -> None:
    colour = np.zeros((40, 60, 3), np.uint8) + np.array([250, 130, 10], np.uint8)
    colour[:, 30:] = 0
    made = row(bundle(resized(4, 6), rows=4, columns=6, channels=3), colour, kind)
    np.testing.assert_allclose(made.tensors["pixels"][:, :, :2].mean((1, 2)), [250, 130, 10], atol=12)
    np.testing.assert_allclose(made.tensors["pixels"][:, :, 4:], 0, atol=12)
    assert region(made) == (0, 0, 60, 40), "of the whole image"


@pytest.mark.parametrize("counted", [False, True])
def test_a_grid_has_no_region_where_tensors_were_sent(counted: bool) -> None:
    pixels = TensorValue(np.zeros((1, 4, 4), np.float32))
    whole = bundle(resized(4, 4))
    if counted:
        whole.description.label_sets[0].tensor, whole.description.label_sets[0].dimension = "pixels", "row"
    made = Preprocessor.from_parts(whole, {}).row({"pixels": pixels})
    grid = made.labels["cells"].grid
    assert grid is not None and not grid.HasField("region")
    assert (made.labels["cells"].size, made.labels["cells"].inputs) == (5, ("image",))


@given(
    st.integers(1, 40), st.integers(1, 40), st.sampled_from([STRETCH, COVER, CONTAIN, FLOOR]), st.integers(1, 9),
    st.integers(1, 9),
)  # fmt: skip
def test_a_region_is_where_the_pixels_come_from(rows: int, columns: int, fit: int, high: int, wide: int) -> None:
    """Pixels that tell their own place in the image are found again at the place that the region says."""
    down = np.repeat((np.arange(rows) + 0.5)[:, None] * 240 / rows, columns, 1).astype(np.uint8)
    steps = (resized(high, wide, fit), cropped(high, wide)) if fit in (COVER, FLOOR) else (resized(high, wide, fit),)
    made = row(bundle(*steps, rows=high, columns=wide), down)
    left, top, right, bottom = region(made)
    seen = made.tensors["pixels"][0]
    centres = top + (np.arange(high) + 0.5) * (bottom - top) / high
    inside = (centres > 0) & (centres < rows)
    across = left + (np.arange(wide) + 0.5) * (right - left) / wide
    columns_inside = (across > 0) & (across < columns)
    expected = np.clip(centres, 0.5, rows - 0.5) * 240 / rows
    # To one pixel of the smaller of the two: rounding of sizes, and the kernel's width.
    tolerance = 2 + 240 * max(1 / rows, 1 / max(1, inside.sum()))
    difference = np.abs(seen[inside][:, columns_inside] - expected[inside, None])
    assert difference.size == 0 or difference.max() <= tolerance
    assert right > left and bottom > top


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_images_are_turned_as_their_orientation_says(kind: str, orientation: int) -> None:
    upright = np.zeros((16, 24), np.uint8)
    upright[:8, :12] = 250  # bright upper left,
    upright[8:, :12] = 120  # grey below it
    # How a camera stores it: the inverse of how a viewer turns it (EXIF 2.3, 4.6.4 A, Orientation).
    stored = {
        1: upright, 2: upright[:, ::-1], 3: upright[::-1, ::-1], 4: upright[::-1], 5: upright.T,
        6: np.rot90(upright, 1), 7: upright[::-1, ::-1].T, 8: np.rot90(upright, -1),
    }[orientation]  # fmt: skip
    exif = Pillow.Exif()
    exif[0x0112] = orientation
    made = row(bundle(resized(4, 6), rows=4, columns=6), np.ascontiguousarray(stored), kind, exif=exif, quality=95)
    np.testing.assert_allclose(made.tensors["pixels"][0][::3, ::5], [[250, 0], [120, 0]], atol=6)
    assert region(made) == (0, 0, 24, 16), "in the picture as it is seen"


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
def test_broken_exif_data_do_not_matter() -> None:
    made = row(bundle(resized(4, 4)), NUMBERS, "JPEG", exif=b"Exif\x00\x00MM\x00*\xff\xff\xff\xff broken")
    assert made.tensors["pixels"].shape == (1, 4, 4)


@pytest.mark.parametrize("resampling", [0, *bundle_pb2.Resampling.values()])
@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_a_large_file_is_resampled_as_pillow_resamples_it(resampling: int, kind: str) -> None:
    smooth = (np.add.outer(np.sin(np.arange(300) / 40), np.cos(np.arange(400) / 30)) * 60 + 127).astype(np.uint8)
    made = row(bundle(resized(30, 40, STRETCH, resampling), rows=30, columns=40), smooth, kind, quality=95)
    name = {1: "NEAREST", 3: "BICUBIC", 4: "LANCZOS"}.get(resampling, "BILINEAR")
    expected = Pillow.fromarray(smooth).resize((40, 30), Pillow.Resampling[name])
    # A JPEG that shrinks is decoded at a part of its size, except for `nearest`, whose pixels are the file's.
    np.testing.assert_allclose(made.tensors["pixels"][0], np.asarray(expected), atol=0 if kind == "PNG" else 4)


def test_sixteen_bits_of_grey_are_scaled_and_not_cut_off() -> None:
    grey = (NUMBERS.astype(np.uint16) * 2) << 8
    made = row(bundle(cropped(4, 4)), grey)
    np.testing.assert_array_equal(made.tensors["pixels"][0], NUMBERS[2:6, 4:8] * 2)


@pytest.mark.parametrize("mode", ["P", "LA", "RGBA"])
def test_what_is_transparent_is_white(mode: str) -> None:
    grey, alpha = Pillow.fromarray(NUMBERS), Pillow.fromarray(2 * NUMBERS)
    picture = grey.convert(mode)
    if mode == "P":  # which Pillow warns of, turned into RGB at once
        data = file_of(picture, transparency=bytes(range(0, 192, 2)))
    else:
        picture.putalpha(alpha)
        data = file_of(picture)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = read(bundle(cropped(4, 4)), data)
    number = NUMBERS[2:6, 4:8].astype(np.float64)
    np.testing.assert_allclose(made.tensors["pixels"][0], 255 - (255 - number) * 2 * number / 255, atol=1)


def png(colours: int, depth: int, samples: np.ndarray, size: tuple[int, int] | None = None, **chunks: bytes) -> bytes:
    """Write a PNG by its specification: samples [row, column, channel] of some bits, and further chunks.

    size: what the header says of columns and rows, where that is untrue.
    """

    def chunk(kind: str, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + (whole := kind.encode() + data) + struct.pack(">I", zlib.crc32(whole))

    bits = (samples.reshape(len(samples), -1, 1) >> np.arange(depth)[::-1]) & 1
    lines = np.packbits(bits.reshape(len(samples), -1).astype(np.uint8), axis=1)
    content = b"".join(b"\0" + line.tobytes() for line in lines)
    header = struct.pack(">IIBBBBB", *(size or (samples.shape[1], len(samples))), depth, colours, 0, 0, 0)
    parts = {"IHDR": header, **chunks, "IDAT": zlib.compress(content), "IEND": b""}
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(kind, data) for kind, data in parts.items())


# Types of colour (grey, RGB, palette, grey with alpha, RGB with alpha), their channels, and the bits of a sample.
PNGS = [
    (colours, depth, transparent)
    for colours, depths in {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}.items()
    for depth in depths
    for transparent in ((False, True) if colours < 4 else (False,))
]


@pytest.mark.parametrize(("colours", "depth", "transparent"), PNGS)
@pytest.mark.parametrize("channels", [1, 3])
def test_every_kind_of_png_has_the_colours_of_its_specification(
    colours: int, depth: int, transparent: bool, channels: int
) -> None:
    random, most = np.random.default_rng(depth + colours), 2**depth
    samples = random.integers(0, most, (6, 7, {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colours]))
    if depth == 16:  # many differ from others by their lower bytes alone
        samples = samples[:1, :1] + random.integers(0, 2, samples.shape) - samples[:1, :1] % 2
    if colours == 3:
        palette, opacities = random.integers(0, 256, (most, 3)), random.integers(0, 256, most)
        chunks = {"PLTE": palette.astype(np.uint8).tobytes()}
        chunks |= {"tRNS": opacities.astype(np.uint8).tobytes()} if transparent else {}
        rgb, opacity = palette[samples[..., 0]], opacities[samples[..., 0]] if transparent else np.full((6, 7), 255)
    else:
        chunks = {"tRNS": samples[2, 3].astype(">u2").tobytes()} if transparent else {}
        eight = samples >> 8 if depth == 16 else samples * 255 // (most - 1)
        rgb = eight[..., :3] if colours in (2, 6) else np.repeat(eight[..., :1], 3, axis=2)
        opacity = eight[..., -1] if colours in (4, 6) else np.full((6, 7), 255)
        if transparent:
            opacity = np.where((samples == samples[2, 3]).all(axis=2), 0, 255)
    found, _ = decode_image(png(colours, depth, samples, **chunks), channels=channels, max_pixels=0, field=("image",))
    expected = 255 - (255 - rgb) * opacity[..., np.newaxis] / 255
    if channels == 1:
        expected = expected @ [[0.299], [0.587], [0.114]]
    np.testing.assert_allclose(found, expected, atol=2)


@pytest.mark.parametrize("lossless", [True, False])
@pytest.mark.parametrize("alpha", [True, False])
def test_the_size_of_a_webp_is_read_before_its_decoder_is_made(
    lossless: bool, alpha: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    mode = "RGBA" if alpha else "RGB"
    data = file_of(Pillow.new(mode, (1200, 900), (9, 9, 9, 100)[: len(mode)]), "WEBP", lossless=lossless)
    monkeypatch.setattr("PIL._webp.WebPAnimDecoder", None)
    with pytest.raises(TooLargeError, match="is 1200 x 900 pixels; at most 1000000"):
        read(bundle(cropped(4, 4)), data)


def test_no_warning_of_large_images_is_needed() -> None:
    made = bundle(resized(4, 4))
    made.description.limits.max_pixels = 200_000_000
    data = file_of(Pillow.new("1", (10_000, 10_000)))  # Pillow warns of over 89,478,485 pixels
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(made, data)


@pytest.mark.parametrize(("width", "height"), [(20_000, 20_000), (1001, 1000), (2**31 - 1, 2**31 - 1), (10**6 + 1, 1)])
def test_too_many_pixels_are_refused_by_the_header(width: int, height: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.delattr("PIL.ImageFile.ImageFile.load")  # nothing can be decoded
        with pytest.raises(TooLargeError, match="at most 1000000") as caught:
            read(bundle(resized(4, 4)), png(0, 8, np.zeros((3, 3, 1), int), size=(width, height)))
    assert caught.value.field == 'instances[0].inputs["image"]'
    row(bundle(resized(4, 4)), np.zeros((1000, 1000), np.uint8))  # as many as are allowed


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no image",
        file_of(np.full((90, 90), 7, np.uint8))[:60],
        file_of(NUMBERS, "TIFF"),
        file_of(NUMBERS, "PPM"),
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
    ],
)
def test_what_is_no_image_of_a_known_format(data: bytes) -> None:
    with pytest.raises(InputError, match="is not an image in one of the formats PNG, JPEG"):
        read(bundle(resized(4, 4)), data)


FILES = [file_of(np.dstack([NUMBERS] * 3), kind) for kind in ("PNG", "JPEG", "BMP", "GIF", "WEBP")]


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


def test_pictures_that_are_too_small_or_too_narrow() -> None:
    with pytest.raises(InputError, match="has 3 rows and 9 columns; at least 4 and 4 are needed") as caught:
        row(bundle(cropped(4, 4)), np.zeros((3, 9), np.uint8))
    assert caught.value.field == 'instances[0].inputs["image"]'
    with pytest.raises(InputError, match="is 10000 x 1 pixels, which is too narrow"):
        row(bundle(resized(4, 4, COVER), cropped(4, 4)), np.zeros((1, 10_000), np.uint8))
    with pytest.raises(InputError, match="has 9 for column; at most 8 are allowed"):
        row(bundle(rows=0, columns=0, most=8), np.zeros((3, 9), np.uint8))


def test_pictures_of_any_size_for_a_tensor_of_any_size() -> None:
    made = row(bundle(rows=0, columns=0, most=12), NUMBERS)
    np.testing.assert_array_equal(made.tensors["pixels"][0], NUMBERS)
    assert made.sizes == {"channel": 1, "row": 8, "column": 12}


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (
            bundle(),
            r"normalise_image, gets pictures of any size, but the tensor 'pixels' has the fixed shape \[1, 4, 4\]",
        ),
        (bundle(resized(4, 4, COVER)), "step 3, normalise_image, gets pictures of any size"),
        (bundle(resized(4, 6)), r"step 3, normalise_image, outputs \[1, 4, 6\]"),
        (bundle(resized(3, 9), cropped(4, 4)), "step 3, crop_image, keeps 4 x 4 pixels of a picture of 3 x 9"),
        (bundle(resized(0, 4)), "step 2, resize_image, makes a picture of 0 x 4 pixels"),
        (bundle(cropped(4, -1)), "step 2, crop_image, makes a picture of 4 x -1 pixels"),
        (bundle(resized(4, 4, 9)), "has a fit or a resampling unknown to this release"),
        (bundle({"decode_image": {"channels": 1}}), "decode_image, accepts an image file, but gets a picture"),
        (bundle({"decode_image": {"channels": 2}}), "accepts an image file"),
        (bundle({"tokenize": {"tensor": "pixels"}}), "accepts a pair or sentences or text, but gets a picture"),
        (bundle(resized(4, 4), mean=[0.5, 0.5]), "needs a mean and a deviation for each channel"),
        (bundle(resized(4, 4), deviation=[]), "needs a mean and a deviation for each channel"),
        (bundle(resized(4, 4), tensor="image"), "step 3, normalise_image, outputs the tensor 'image', which the input"),
        (bundle(resized(4, 4), deviation=[0]), "that is not finite, or a deviation of 0"),
        (bundle(resized(4, 4), scale=float("inf")), "that is not finite, or a deviation of 0"),
    ],
)
def test_steps_in_an_order_that_makes_no_sense(made: bundle_pb2.Bundle, reason: str) -> None:
    with pytest.raises(BundleError, match=reason):
        Preprocessor.from_parts(made, {})


def test_a_step_that_is_out_of_order_is_named() -> None:
    made = bundle(resized(4, 4))
    made.description.inputs[0].kind = model_pb2.INPUT_KIND_TEXT
    del made.preprocessing[0].steps[0]
    with pytest.raises(BundleError, match="step 1, resize_image, accepts a picture, but gets text"):
        Preprocessor.from_parts(made, {})


FIRST_DECODES = """
import sys, io, threading, warnings
sys.path.insert(0, {root!r})
from tests.bundle.test_bundle_pictures import bundle, resized, Preprocessor, Image
files = {files!r}
made = Preprocessor.from_parts(bundle(resized(4, 4)), {{}})
filters = list(warnings.filters)
start = threading.Barrier(len(files))
failed = []
def decode(data):
    start.wait()
    try:
        made.row({{"image": Image(data)}})
    except Exception as error:
        failed.append(error)
threads = [threading.Thread(target=decode, args=(data,)) for data in files]
[each.start() for each in threads]
[each.join() for each in threads]
assert not failed, failed
assert warnings.filters == filters
"""


def test_the_first_images_of_a_process_may_come_at_once() -> None:
    script = FIRST_DECODES.format(root=".", files=FILES * 4)
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


def test_threads_decode_what_one_thread_decodes() -> None:
    made = Preprocessor.from_parts(bundle(resized(4, 4)), {})
    chance = np.random.default_rng(0)
    kinds = ("JPEG", "PNG", "WEBP", "GIF", "BMP")
    files = [file_of(chance.integers(0, 255, (20 + each, 30), np.uint8), kinds[each % 5]) for each in range(60)]
    alone = [made.row({"image": Image(data)}).tensors["pixels"] for data in files]
    with ThreadPoolExecutor(8) as pool:
        together = pool.map(lambda data: made.row({"image": Image(data)}).tensors["pixels"], files)
        for one, other in zip(alone, together, strict=True):
            np.testing.assert_array_equal(one, other)
