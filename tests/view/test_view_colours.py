"""One palette for the page, notebooks, terminals and pictures, which every kind of colour vision reads."""

import io
import re
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from rich.console import Console

from limelight.cli import render_png
from limelight.cli.palettes import Palette
from limelight.cli.render_terminal import print_figures
from limelight.colours import MARK, OVER, RAMPS, colour
from limelight.figures import Figure, WeightMatrix, figures
from limelight.labels import plain
from limelight.maps import AttentionMap
from limelight.view.files import page_files
from tests.view.conftest import Opened

# Linear RGB as people without one kind of cones see it (Machado, Oliveira, Fernandes 2009, table 1, severity 1).
VISIONS = {
    "all cones": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "no red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "no green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "no blue": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def lab(colours: object, vision: str) -> NDArray[np.float64]:
    """CIE L*a*b* (D65) of sRGB colours [colour, 3] as a vision has them."""
    values = np.asarray(colours, float) / 255
    linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    seen = np.clip(linear @ np.array(VISIONS[vision]).T, 0, 1)
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = seen @ to_xyz.T / [0.9505, 1, 1.089]
    root = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    x, y, z = root.T
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=1)


@pytest.mark.parametrize("vision", VISIONS)
def test_every_colour_vision_tells_signs_and_strengths_apart(vision: str) -> None:
    for on_light in (True, False):
        above, below = (
            lab([colour(sign * step / 8, on_light=on_light) for step in range(9)], vision) for sign in (1, -1)
        )
        for ramp in (above, below):
            steps = np.diff(ramp[:, 0]) * (-1 if on_light else 1)
            assert (steps > 0).all(), "a larger weight is further from the background in lightness alone"
        assert np.linalg.norm(above - below, axis=1)[2:].min() > 15, "a sign is seen from a quarter of the scale on"
    assert np.linalg.norm(np.subtract(*lab(OVER, vision))) > 60


def test_the_page_has_the_colours_of_the_palette_in_both_themes(opened: Opened) -> None:
    tab = opened("model=tiny")
    strengths = np.linspace(-1, 1, 17)
    for theme in ("light", "dark"):
        tab.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
        of_page = tab.evaluate(
            """async ([theme, strengths]) => {
                const { colourTable, placeOf } = await import("./scale.js");
                const table = colourTable(theme);
                return strengths.map((each) => [...table.subarray(placeOf(each), placeOf(each) + 3)]);
            }""",
            [theme, strengths.tolist()],
        )
        expected = [colour(each, on_light=theme == "light") for each in strengths]
        assert np.abs(np.subtract(of_page, expected)).max() <= 1
        paper, mark = tab.evaluate(
            """() => {
                const styles = getComputedStyle(document.documentElement);
                return [getComputedStyle(document.body).backgroundColor, styles.getPropertyValue("--mark").trim()];
            }"""
        )
        # No weight has no colour: that of the page.
        assert [int(each) for each in re.findall(r"\d+", paper)] == list(RAMPS[theme][0][0]) == list(RAMPS[theme][1][0])
        assert mark == MARK


def test_no_module_of_the_page_has_colours_of_strengths_of_its_own() -> None:
    ink_and_frames = {"#000", "#111418", "#ffffff", "#ffd60a", "128, 128, 128"}
    for path, (_, content) in page_files().items():
        if path.endswith(".js") and path != "/palette.js":
            found = re.findall(r"#[0-9a-fA-F]{3,8}\b(?=\")|\d+, \d+, \d+(?=, 0)", content.decode())
            assert set(found) <= ink_and_frames, path


def test_terminals_notebooks_and_pictures_have_the_same_signed_colours(tmp_path: Path) -> None:
    weights = np.array([[1, -1], [0.5, -0.5]], np.float32)
    axis = plain("words", "tokens", ["a", "b"])
    each = AttentionMap(name="m", kind="self", heads=(0,), weights=weights[None], query=axis, key=axis, signed=True)
    render_png.save([Figure("", matrix=WeightMatrix(weights, ("", ""), ("", "")))], tmp_path / "a.png")
    drawn = {tuple(pixel) for pixel in np.asarray(Image.open(tmp_path / "a.png")).reshape(-1, 3).tolist()}
    assert {colour(round(each * 255) / 255, on_light=True) for each in (1, -1, 0.5, -0.5)} <= drawn
    for on_light in (True, False):
        styles = [Palette(few=False, on_light=on_light).word(strength) for strength in (1, -1, 0.5)]
        backgrounds = [style.bgcolor.get_truecolor() for style in styles if style.bgcolor]
        assert [tuple(each) for each in backgrounds] == [colour(each, on_light=on_light) for each in (1, -1, 0.5)]
    console = Console(file=io.StringIO(), force_terminal=True, color_system="truecolor", width=80)
    print_figures(figures([each], each_query=True), console)
    written = console.file.getvalue()  # type: ignore[attr-defined]
    assert all("48;2;{};{};{}m".format(*colour(strength)) in written for strength in (1, -1, 0.5))
    shown = each._repr_html_()
    assert all("{},{},{}".format(*over) in shown for over in OVER)
