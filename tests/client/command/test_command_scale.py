"""The colour scale of figures: equal weights have none, and larger weights are never paler."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.color import ColorSystem

from limelight.cli.palettes import Palette, is_light
from limelight.colours import colour
from limelight.figures import figures
from limelight.labels import plain
from limelight.maps import AttentionMap
from limelight.scale import FAINT, scale_of


def figure_of(weights: list[float], **fields: object):
    keys = plain("words", "tokens", [f"w{place}" for place in range(len(weights))])
    given = {"normalised": True, "query": plain("one", "one", ["one"]), "key": keys, **fields}
    each = AttentionMap(name="m", kind="pool", heads=(0,), weights=np.array([[weights]], np.float32), **given)  # type: ignore[arg-type]
    (figure,) = figures([each])
    return figure


@given(st.integers(2, 500), st.integers(0))
def test_equal_weights_have_no_colour_and_noise_has_little(size: int, seed: int):
    noise = np.random.default_rng(seed).uniform(0.9, 1.1, size)
    for weights, most in ((np.full(size, 1 / size), 1e-4), (noise / noise.sum(), 0.25)):
        figure = figure_of(weights.tolist())
        assert figure.equal == 1 / size
        assert figure.scale.strengths(figure.shaded[0]).max() <= most
        assert figure.scale.ends[0] == f"equal {1 / size:.3g}"


@given(st.lists(st.floats(0, 1, width=32), min_size=2, max_size=40).filter(any))
def test_a_larger_weight_is_never_paler(values: list[float]):
    weights = np.array(values, np.float32) / np.float32(sum(values))
    strengths = scale_of(float(weights.max()), signed=False, equal=1 / len(weights)).strengths(weights)
    assert ((strengths >= 0) & (strengths <= 1)).all()
    assert (np.diff(strengths[np.argsort(weights, kind="stable")]) >= 0).all()


@pytest.mark.parametrize(
    "fields", [{"normalised": False}, {"quantity": "scores"}, {"quantity": "norms"}, {"signed": True}]
)
def test_values_that_are_no_shares_have_a_scale_from_zero(fields: dict[str, object]):
    figure = figure_of([0.5, 0.25, 0.25], **fields)
    assert figure.equal is None
    np.testing.assert_allclose(figure.scale.strengths(figure.shaded[0]), [1, 0.5, 0.5])
    assert figure.scale.ends == ("0", "0.5")


def test_signed_values_have_a_scale_to_both_sides():
    scale = scale_of(2.0, signed=True, equal=None)
    np.testing.assert_allclose(scale.strengths(np.array([-2, 0, np.nan, 1], np.float32)), [-1, 0, 0, 0.5])
    assert scale.ends == ("-2", "2")


def test_a_figure_without_any_value_has_no_colour():
    assert not scale_of(0.0, signed=False, equal=None).strengths(np.zeros(3, np.float32)).any()


def test_stronger_colours_are_further_from_the_background(monkeypatch: pytest.MonkeyPatch):
    for sign in (1, -1):
        on_light = [sum(colour(sign * step / 8, on_light=True)) for step in range(9)]
        on_dark = [sum(colour(sign * step / 8)) for step in range(9)]
        assert on_light == sorted(on_light, reverse=True) and on_dark == sorted(on_dark)
    for value, light in (("0;15", True), ("15;0", False), ("0;default;7", True), ("", False), ("nonsense", False)):
        monkeypatch.setenv("COLORFGBG", value)
        assert is_light() is light


def luminance(palette: Palette, strength: float, system: ColorSystem) -> float:
    """Brightness of a word of a strength on a terminal with these colours; 0 is black."""
    background = palette.word(strength).bgcolor
    assert background is not None
    red, green, blue = background.downgrade(system).get_truecolor()
    return 0.299 * red + 0.587 * green + 0.114 * blue


@pytest.mark.parametrize("on_light", [False, True])
@pytest.mark.parametrize("system", [ColorSystem.STANDARD, ColorSystem.EIGHT_BIT, ColorSystem.TRUECOLOR])
def test_with_few_colours_too_a_stronger_one_is_never_closer_to_the_background(system: ColorSystem, on_light: bool):
    palette = Palette(system is ColorSystem.STANDARD, on_light)
    for sign in (1, -1):
        shades = [luminance(palette, sign * step / 100, system) for step in range(2, 101)]
        if system is not ColorSystem.TRUECOLOR:
            # The cube of 256 colours has steps of 40; neighbours may change places within one.
            shades = shades[::10] if system is ColorSystem.EIGHT_BIT else shades
        assert shades == sorted(shades, reverse=on_light), (sign, shades)
        assert len(set(shades)) > 1
    used = {palette.word(step / 100).bgcolor for step in range(-100, 101) if abs(step) >= 100 * FAINT}
    assert system is not ColorSystem.STANDARD or {each.number for each in used if each} <= set(range(8))


def test_with_few_colours_no_weight_and_no_number_look_different():
    palette = Palette(few=True, on_light=False)
    assert palette.word(FAINT / 2).bgcolor is None
    assert palette.cell(0.0, 2)[0].strip(), "an absent cell is blank"
    assert palette.cell(0.0, 2)[0] != palette.cell(1.0, 2)[0]
