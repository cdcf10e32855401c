"""`limelight attend --png`: the pixels of what is drawn."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import limelight
from limelight.cli import drawing, render_png
from limelight.colours import OPACITIES, OVER, RAMPS, colour
from limelight.figures import Figure, GridHeatmap
from tests.client import served
from tests.client.command.people import Run
from tests.client.served import DOCUMENT, TEXT
from tests.kit.bundles import WORDS


def test_a_grid_cut_by_top_k_has_gaps(run: Run, picture: Path, tmp_path: Path):
    asked, weights = ("attend", "glance", picture, "--map", "encoder.0.self", "--top-k", "2"), served.looks()
    kept = weights >= np.sort(weights)[-2]
    shown = [f"{weight:.4f}" if here else "-" for weight, here in zip(weights, kept, strict=True)]
    lines = run(*asked)[1].splitlines()
    assert " ".join(lines[4:9]).split() == ["[class]", *shown]
    assert lines[9] == f"left out: {1 - weights[kept].sum():.4f}"
    path = tmp_path / "a.png"
    assert run(*asked, "--png", path)[0] == 0
    first, covered = (read(path, below=1)[44 : 44 + 336, x : x + 336] for x in (16, 16 + 336 + 8))
    same = (first == covered).all(axis=2).reshape(4, 84, 4, 84)[:, 2:-2, :, 2:-2]  # between the lines
    seen = kept[1:] & (np.array([served.strength(each, 1 / 17) for each in weights[1:]]) >= 0.02)
    assert (same.all(axis=(1, 3)).ravel() == ~seen).all(), "what was left out leaves the picture as it is"


def test_cells_without_a_number_differ_from_those_without_weight(tmp_path: Path):
    cells = np.array([[0, np.nan], [1, -1]], np.float32)
    render_png.save([Figure("", heat=GridHeatmap(cells, ()))], tmp_path / "a.png")
    drawn = read(tmp_path / "a.png")[44 : 44 + 336, 16 : 16 + 336]
    places = [drawn[row, column].tolist() for row in (84, 252) for column in (84, 252)]
    light = RAMPS["light"]
    assert places[0] == [255] * 3 != places[1] and places[2:] == [list(light[0][-1]), list(light[1][-1])]


def test_cells_reach_beyond_a_picture_that_was_padded(tmp_path: Path):
    """Of a picture of 100 x 50 the cells cover a square of 100 around its middle: two rows of four lie over it."""
    image = io.BytesIO()
    Image.new("RGB", (100, 50), (0, 0, 255)).save(image, "PNG")
    heat = GridHeatmap(np.ones((4, 4), np.float32), (), limelight.Region(0, -25, 100, 75))
    render_png.save([Figure("", heat=heat)], tmp_path / "a.png", image=image.getvalue())
    drawn = read(tmp_path / "a.png")[44 : 44 + 336, 16 : 16 + 336]
    assert (drawn[84:252] == [0, 0, 255]).all(), "the picture stands in the middle"
    assert (drawn[:84] == 255).all() and (drawn[252:] == 255).all(), "above and below is what was padded"


def read(path: Path, *, below: int = 0) -> np.ndarray:
    """The pixels [row, column, colour]; below: those below a heading of so many lines."""
    picture = Image.open(path)
    assert picture.format == "PNG"
    return np.asarray(picture.convert("RGB")).astype(int)[16 + 26 * below if below else 0 :]


def drawn(strength: float) -> tuple[int, int, int]:
    """The colour of a strength in a picture, which has 255 of them."""
    return colour(round(strength * 255) / 255, on_light=True)


def test_a_picture_of_words_by_words_has_a_column_a_key(run: Run, tmp_path: Path):
    path, text = tmp_path / "a.png", "the hippopotamus cat"
    answer = served.tiny(text)
    said = f"tiny version 1: {served.headline(answer)}\n{path}\n"
    assert run("attend", "tiny", text, "--map", "encoder.1.self", "--png", path) == (0, said, "")
    pixels = read(path, below=1)[:-38]  # above the scale
    weights = answer.maps["encoder.1.self"].weights.mean(axis=0)
    colours = np.array([[drawn(served.strength(weight, 1 / 3)) for weight in row] for row in weights])
    cell = colours.repeat(24, axis=0).repeat(24, axis=1)
    spots = np.argwhere((pixels == colours[0, 0]).all(axis=2)).tolist()
    places = [(top, left) for top, left in spots if np.array_equal(pixels[top : top + 72, left : left + 72], cell)]
    ((top, left),) = places
    ink = [(pixels[32:top, start : start + 24].sum(axis=2) < 300).sum() for start in (left + 24, left + 48)]
    assert ink[0] > 2 * ink[1], "the longer word stands over its own column"


def test_a_picture_of_an_image_lays_the_grid_over_it(run: Run, picture: Path, tmp_path: Path):
    path = tmp_path / "a.png"
    assert run("attend", "glance", picture, "--map", "encoder.0.self", "--png", path)[0] == 0
    first, covered = (read(path, below=1)[44 : 44 + 336, x : x + 336] for x in (16, 16 + 336 + 8))
    strengths = np.array([served.strength(each, 1 / 17) for each in served.looks()[1:]]).reshape(4, 4)
    opacity = np.where(strengths >= 0.02, OPACITIES[0] + (OPACITIES[1] - OPACITIES[0]) * strengths, 0)
    opacity = opacity.repeat(84, axis=0).repeat(84, axis=1)[..., None]
    expected = first * (1 - opacity) + np.array(OVER[0]) * opacity
    lines = (np.arange(336) % 84) > 1  # between the lines
    assert np.abs(covered - expected)[lines][:, lines].max() <= 2, "each cell as strong as its weight"
    assert (first == first[..., :1]).all(), "the picture that was sent stands on the left, and is grey"


@pytest.mark.parametrize("orientation", [1, 6])
def test_cells_are_laid_over_the_part_of_the_picture_that_they_cover(run: Run, tmp_path: Path, orientation: int):
    """Of a picture of 3 x 1 the model sees the middle third, which is white; the rest is blue. So too where the file
    holds it lying down and its orientation says that it stands upright: then it is 1 x 3.
    """
    pixels = np.zeros((100, 300, 3), np.uint8)
    pixels[..., 2] = 255
    pixels[:, 100:200] = 255
    sent, path = tmp_path / "sent.png", tmp_path / "new" / "folder" / "a.png"
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(pixels).save(sent, exif=exif)
    assert run("attend", "glance", sent, "--map", "encoder.0.self", "--png", path)[0] == 0
    upright = orientation == 6
    # 336 pixels for the cells, three times as many for the picture, which stands first and again under the cells.
    high, wide = (1008, 336) if upright else (336, 1008)
    drawn = read(path, below=1)[16 + 28 : 16 + 28 + high]
    first, second = drawn[:, 16 : 16 + wide], drawn[:, 16 + wide + 8 : 16 + 2 * wide + 8]
    if upright:
        first, second = first.transpose(1, 0, 2), second.transpose(1, 0, 2)
    blue, white = [0, 0, 255], [255, 255, 255]
    inside, outside = slice(360, 648), (slice(0, 312), slice(696, 1008))
    assert (first[:, inside] == white).all()
    changed = ~(second[:, inside] == white).all(axis=2)
    assert changed.any() and changed[84].all(), "cells and their lines cover the middle third"
    for side in outside:
        assert (first[:, side] == blue).all() and (second[:, side] == blue).all(), "and nothing else"


def test_without_a_selection_the_map_that_shows_most_is_drawn_alone(run: Run, picture: Path, tmp_path: Path):
    path, alone = tmp_path / "a.png", tmp_path / "b.png"
    for model, given, name, count in (("paper", DOCUMENT, "word", 2), ("glance", picture, "encoder.1.self", 2)):
        status, _, told = run("attend", model, given, "--png", path)
        assert (status, told) == (0, f"limelight: --png draws {name}; --map '*' draws all {count} maps\n")
        assert run("attend", model, given, "--map", name, "--png", alone)[0] == 0
        assert (read(path) == read(alone)).all()
        assert run("attend", model, given, "--map", "*", "--png", alone)[0] == 0
        assert read(alone).size > read(path).size


def test_other_pictures_are_drawn_too(run: Run, tmp_path: Path):
    for name, text in (("paper", DOCUMENT), ("echo", TEXT), ("tiny", " ".join(WORDS[4:] * 20))):
        path = tmp_path / f"{name}.png"
        assert run("attend", name, text, "--png", path)[0] == 0
        weak, strong = drawn(0.1), drawn(1.0)
        blue = read(path)[..., 2] - read(path)[..., 0]
        assert (blue > weak[2] - weak[0]).any(), "words are shaded"
        assert (read(path) == strong).all(axis=2).any(), "the scale"


def test_a_picture_says_above_what_was_asked_and_answered(run: Run, picture: Path, tmp_path: Path):
    """The same maps below a line for the answer, and one for the question where there is one."""
    drawn = {}
    for name, values in {"glance": [picture], "short": [picture, "is it?"], "long": [picture, "is it " * 60]}.items():
        path = tmp_path / f"{name}.png"
        model = "glance" if name == "glance" else "asked"
        assert run("attend", model, *values, "--map", "encoder.0.self", "--png", path)[0] == 0
        drawn[name] = read(path)
    lines = {"glance": 1, "short": 2, "long": 4}
    sheets = {name: pixels[16 + 26 * lines[name] :] for name, pixels in drawn.items()}
    # To the model both questions are unknown words, of which it takes the mean.
    assert (sheets["short"] == sheets["long"]).all() and sheets["glance"].shape == sheets["short"].shape
    heading = {name: pixels[16 : 16 + 26 * lines[name]] for name, pixels in drawn.items()}
    # The answer in each, and over it the question, of which three lines are kept.
    black = {name: (pixels.sum(axis=2) < 150).reshape(-1, 26, pixels.shape[1]) for name, pixels in heading.items()}
    inked = {name: lines_of.any(axis=2).sum(axis=1) for name, lines_of in black.items()}
    assert all((rows > 8).all() for rows in inked.values()), "every line has letters"
    assert (drawn["long"][: 16 + 4 * 26, -16:] == 255).all(), "which end before the margin"


def test_a_heading_that_is_wider_than_its_maps_widens_the_picture(tmp_path: Path):
    narrow = Figure("m", heat=GridHeatmap(np.ones((4, 4), np.float32), ()))
    for heading in ({}, {"answer": "a word"}, {"question": "twenty words or so " * 5, "answer": "a word"}):
        render_png.save([narrow], tmp_path / f"{len(heading)}.png", heading=heading)
    widths = [read(tmp_path / f"{number}.png").shape[1] for number in range(3)]
    assert widths[0] == widths[1] == 336 + 2 * 16 and 368 < widths[2] <= 480


@pytest.mark.parametrize("text", ["ab " * 100, "ab" * 400, "", "ab"])
def test_lines_fit_and_say_where_something_is_left_out(text: str):
    face = drawing.load_font(18)
    lines = drawing.wrap_text(text, face, 200, most=3)
    assert len(lines) == (3 if text.count(" ") > 9 else 1)
    assert all(face.getlength(line) <= 200 for line in lines)
    assert lines[-1].endswith("…") == (len(text) > 9)
    kept = " ".join(lines).replace(" …", "").replace("…", "")
    assert text.startswith(kept) and "……" not in lines[-1]
