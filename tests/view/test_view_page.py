"""The page in a real Chromium: each kind of model, what is pointed at and pinned, links, saving, bad answers."""

import base64
import io
import json
import re
import tempfile
import wave
from collections.abc import Callable
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

import limelight
from limelight.cli import main
from limelight.security import Security
from limelight.view.server import PageServer
from limelight_bundle.values import TensorValue
from limelight_export.pipeline import export_model
from limelight_service.demo import print_commands
from limelight_service.supervisor.in_process import InProcessServer
from tests.kit import small
from tests.kit.serving import eventually, free_port, serving
from tests.view.conftest import LONG, Opened, page_of
from tests.view.hostile import MARKUP, REQUESTS, hostile, running, saying

SHADED = ".unit[style*='background-color: rgb']"


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves a folder."""

    def log_message(self, format: str, *args: Any) -> None:
        pass


def words(tab: Any, panel: str = "Keys") -> Any:
    """The units of a panel."""
    return tab.locator(f"[aria-label^='{panel}'] .unit")


def shades(tab: Any, panel: str = "Keys") -> list[str]:
    shades: list[str] = words(tab, panel).evaluate_all("units => units.map(each => each.style.backgroundColor)")
    return shades


def test_a_first_visit_shows_an_answer_and_its_attention_on_a_narrow_screen_too(opened: Opened) -> None:
    for options in ({}, {"viewport": {"width": 360, "height": 740}}):
        tab = opened(**options)
        assert tab.locator(".result").count() and tab.locator(".problem:visible").count() == 0
        assert tab.locator(".unit").count() or tab.locator("canvas").count()
    tab = opened("model=tiny&map=encoder.0.self&in.text=the cat sat on the mat", **options)
    assert tab.evaluate("document.documentElement.scrollWidth") <= 360, "without scrolling to the side"


def test_the_demo_begins_with_the_models_that_write(
    opened: Opened, demo: tuple[PageServer, InProcessServer], capsys: pytest.CaptureFixture[str]
) -> None:
    print_commands(demo[1])
    printed = re.findall("^  ([a-z]+): ", capsys.readouterr().out, re.MULTILINE)
    assert printed == ["dates", "numbers", "canvas", "digits", "slips"]
    tab = opened(server=demo[0])
    assert "model=dates" in tab.evaluate("location.hash") and tab.locator(".headline").inner_text() == "1789-07-14"
    seven = words(tab, "Queries").nth(6)  # the month's second digit
    seven.hover()
    shaded = tab.locator(f"[aria-label^='Keys'] {SHADED}").all_inner_texts()
    assert seven.inner_text() == "7" and shaded and set("".join(shaded)) <= set("juillet")
    about = tab.locator(".about")
    about.locator("summary").click()
    assert "ISO 8601" in about.inner_text() and "text: One date with its year" in about.inner_text()


def test_a_model_is_named_with_its_row_of_the_atlas(opened: Opened, demo: tuple[PageServer, InProcessServer]) -> None:
    tab = opened("model=dates", server=demo[0])
    row = tab.locator("[data-part='row'] details")
    assert row.locator("summary").text_content() == "In the atlas of attention: J1 RNNsearch"
    row.locator("summary").click()
    assert "tanh(W s_{i-1} + U h_j)" in row.locator("code").first.text_content()
    paper = row.get_by_role("link", name="Neural Machine Translation by Jointly Learning to Align and Translate")
    assert paper.get_attribute("href") == "https://doi.org/10.48550/arXiv.1409.0473"
    named = """async (given) => {
        const { aboutRow } = await import("./row.js");
        return given.map((each) => aboutRow(each).map((made) => made.firstChild.textContent.split(": ")[1]));
    }"""
    bert = "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding"
    given = [{"title": "sparsemax"}, {"citation": {"title": bert}}, {"title": "sparsemax", "citation": {"title": "x"}}]
    found = tab.evaluate(named, [*given, {"title": "our own"}, {}])
    assert [each[:1] for each in found] == [["C7 sparsemax"], found[1][:1], [], [], []] and found[1][0][:3] == "L1 "


@pytest.mark.parametrize("width", [320, 400, 900, 1600])
def test_heads_are_a_grid_of_layers_at_any_width(
    opened: Opened, demo: tuple[PageServer, InProcessServer], width: int
) -> None:
    tab = opened("model=numbers", server=demo[0], viewport={"width": width, "height": 900})
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    boxes = tab.locator(".thumb").evaluate_all("all => all.map(each => each.getBoundingClientRect().toJSON())")
    assert len(boxes) == 6 * 4 and all(each["width"] >= 20 for each in boxes)
    lefts = [sorted({round(each["left"]) for each in boxes[head::4]}) for head in range(4)]
    tops = [sorted({round(each["top"]) for each in boxes[first : first + 4]}) for first in range(0, 24, 4)]
    assert all(len(each) == 1 for each in lefts + tops) and lefts == sorted(lefts) and tops == sorted(tops)


def test_a_typed_text_is_answered_with_how_sure_the_model_is(opened: Opened) -> None:
    tab = opened("model=tiny&map=pool")
    tab.locator("textarea").fill("the dog ran far")
    tab.keyboard.press("Control+Enter")
    words(tab).get_by_text("far", exact=True).wait_for()
    assert any(shades(tab))
    assert "%" in tab.locator(".bar .sure").first.inner_text()
    low, _, high = tab.locator(".ends").inner_text().partition(" to ")
    assert low.startswith("equal 0.") and float(high) > 0


def test_pointing_shows_both_ways_and_a_pin_stays_until_it_is_unlocked(opened: Opened) -> None:
    tab = opened("model=tiny&map=encoder.1.self&head=1&in.text=the cat sat on the mat")
    queries, keys = words(tab, "Queries"), words(tab, "Keys")
    count = queries.count()
    assert count == keys.count() >= 6 and not any(shades(tab, "Queries"))
    mean = shades(tab)
    queries.nth(2).hover()
    assert "looks at" in tab.locator(".caption").nth(1).inner_text() and shades(tab) != mean
    columns = []
    for key in range(count):
        keys.nth(key).hover()
        assert tab.locator(".caption").first.inner_text().startswith("What looks at") and not any(shades(tab))
        columns.append(shades(tab, "Queries"))
    assert any(map(any, columns)) and len(set(map(tuple, columns))) > 1
    queries.nth(2).click()
    pinned = shades(tab)
    keys.nth(3).hover()
    assert shades(tab) == pinned and "pinned" in tab.locator(".readout").inner_text()
    assert "q=" in tab.evaluate("location.hash")
    tab.keyboard.press("Escape")
    tab.mouse.move(0, 0)
    assert shades(tab) == mean and "q=" not in tab.evaluate("location.hash")


def test_the_keyboard_alone_reaches_words_and_heads(opened: Opened) -> None:
    tab = opened("model=tiny&map=encoder.0.self&in.text=the cat sat")
    tab.locator("[aria-label^='Queries']").focus()
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("Enter")
    assert "pinned" in tab.locator(".readout").inner_text()
    tab.locator(".thumb[tabindex='0']").focus()
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("Enter")
    tab.wait_for_url(re.compile("head=1"))
    tab.keyboard.press("ArrowLeft")
    tab.keyboard.press("Enter")
    tab.wait_for_url(re.compile("head=0"))


def test_thumbnails_are_pooled_and_sorted_by_entropy(opened: Opened) -> None:
    tab = opened("model=tiny&in.text=the cat sat on the mat")
    assert tab.locator(".thumb").count() == 5
    tab.get_by_label("Sorted by").select_option("entropy")
    values = [float(each) for each in tab.locator(".thumb .value").all_inner_texts()]
    assert len(values) == 5 and values == sorted(values, reverse=True) and 0 <= values[-1] <= values[0] <= 1
    tab.locator(".thumb").first.click()
    assert tab.locator(".thumb[aria-current='true']").count() == 1


def test_heads_are_sorted_by_their_share_on_what_is_pinned(opened: Opened) -> None:
    tab = opened("model=tiny&map=encoder.0.self&head=0&in.text=the cat sat on the mat")
    assert "pinned" not in tab.get_by_label("Sorted by").inner_text()
    words(tab).nth(2).click()
    tab.get_by_label("Sorted by").select_option("pinned")
    values = [float(each) for each in tab.locator(".thumb .value").all_inner_texts()]
    assert len(values) == 5 and values == sorted(values, reverse=True) and values[0] > values[-1] > 0
    # The first head is the one that looks there most; what is pinned stays so in the other head.
    best = tab.locator(".thumb").first
    shown = best.locator(".value").inner_text()
    best.click()
    tab.locator(".thumb:first-child[aria-current='true']").wait_for()
    assert "mean → " in (told := tab.locator(".readout").inner_text()) and "pinned" in told
    assert float(told.split(": ")[1].split(",")[0].split(" ")[0]) == pytest.approx(float(shown), rel=0.03)
    again = opened(tab.evaluate("location.hash").removeprefix("#"))
    assert again.locator(".thumb .value").all_inner_texts() == [f"{each:g}" for each in values]


def test_a_link_opens_the_same_view(opened: Opened) -> None:
    tab = opened("model=tiny&map=encoder.0.self&head=1&in.text=a dog sat on the far mat .&log=1")
    tab.locator("canvas.matrix").focus()
    tab.keyboard.press("+")
    words(tab, "Queries").nth(1).click()
    link = tab.evaluate("location.hash")
    assert "window=" in link and "log=1" in link
    again = opened(link.removeprefix("#"))
    assert again.evaluate("location.hash") == link
    assert again.locator("textarea").input_value() == "a dog sat on the far mat ."
    assert again.get_by_label("log scale").is_checked()
    again.mouse.move(0, 0)
    tab.mouse.move(0, 0)
    assert shades(again) == shades(tab)


def test_the_theme_follows_the_system_and_the_choice_of_a_person(opened: Opened) -> None:
    tab = opened("model=tiny&map=pool&in.text=the cat sat", color_scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    assert tab.evaluate(background) != "rgb(255, 255, 255)"
    before = shades(tab)
    tab.locator("#theme").click()
    assert tab.evaluate("document.documentElement.dataset.theme") == "light" and shades(tab) != before
    assert tab.evaluate(background) == "rgb(255, 255, 255)"


def test_documents_have_two_levels(opened: Opened) -> None:
    tab = opened("model=paper&map=word&in.text=the cat sat. a dog ran far.")
    assert tab.locator(".nested .line").count() > 1
    shares = [float(each) for each in tab.locator(".nested .sure").all_inner_texts()]
    assert sum(shares) == pytest.approx(1, abs=0.02)
    assert tab.locator(f".nested {SHADED}").count()


def test_a_misspelt_keyword_lights_up_as_a_whole_word_everywhere(
    opened: Opened, demo: tuple[PageServer, InProcessServer], capsys: pytest.CaptureFixture[str]
) -> None:
    page, server = demo
    for typo in ("retrun", "whiel"):
        text = "def count(end):\n    at = 0\n    while at < end:\n        at += 1\n    return at\n"
        text = text.replace({"retrun": "return", "whiel": "while"}[typo], typo)
        tab = opened(f"model=slips&in.document={quote(text)}", server=page)
        assert tab.locator(f".nested {SHADED}").all_inner_texts() == [typo]
        assert "misspelt keyword" in tab.locator(".bar").first.inner_text()
        tab.locator(f".nested {SHADED}").hover()
        assert tab.locator(".readout").inner_text().startswith(f"“{typo}”: ")
        tab.get_by_label("whole words").uncheck()
        assert typo not in tab.locator(".nested .unit").all_inner_texts()  # its pieces
        assert main(["attend", "slips", text, "--map", "word", "--target", server.address]) == 0
        words = dict(re.findall(r"(\w+)\(([\d.]+)\)", capsys.readouterr().out))
        assert float(words[typo]) > 0.9 and words["count"] == "0.0000"


def test_a_dropped_picture_is_answered_with_its_patches_shaded(opened: Opened, tmp_path: Path) -> None:
    Image.new("L", (8, 8), 200).save(tmp_path / "grey.png")
    tab = opened("model=picture")
    tab.locator("input[type=file]").set_input_files(tmp_path / "grey.png")
    tab.get_by_role("button", name="Run").click()
    assert eventually(lambda: "example" not in tab.evaluate("location.hash"))
    box = tab.locator(".picture canvas").bounding_box()
    tab.mouse.move(box["x"] + 5, box["y"] + 5)
    assert "r0c0" in tab.locator(".readout").inner_text()


def sounds_sent() -> list[bytes]:
    inputs = [each["instances"][0]["inputs"] for each in REQUESTS if "instances" in each]
    return [base64.b64decode(each["sound"]["audio"]["wav"]) for each in inputs if "sound" in each]


def test_a_sound_of_any_format_is_sent_as_one_channel(opened: Opened, tmp_path: Path) -> None:
    stereo = np.repeat(np.round(8000 * np.sin(np.arange(4410) / 10)).astype("<i2"), 2)
    with wave.open(str(tmp_path / "stereo.wav"), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(44100)
        file.writeframes(stereo.tobytes())
    (tmp_path / "none.wav").write_bytes(b"no sound")
    with hostile() as (address, _), page_of(address) as page:
        tab = opened(server=page)
        tab.get_by_text("Optional inputs").click()
        tab.locator("input[type=file]").set_input_files(tmp_path / "none.wav")
        tab.get_by_text("cannot read this sound").wait_for()
        tab.locator("input[type=file]").set_input_files(tmp_path / "stereo.wav")
        tab.locator("audio").wait_for(state="attached")
        tab.get_by_role("button", name="Run").click()
        assert eventually(sounds_sent)
    with wave.open(io.BytesIO(sounds_sent()[-1])) as sent:
        assert (sent.getnchannels(), sent.getframerate(), sent.getsampwidth()) == (1, 16000, 2)
        assert sent.getnframes() == pytest.approx(1600, abs=2)
        samples = np.frombuffer(sent.readframes(1600), "<i2")
    assert 5000 < samples.max() < 9000 and -9000 < samples.min() < -5000


def test_an_example_of_samples_is_sent_as_a_sound(opened: Opened) -> None:
    with hostile() as (address, _), page_of(address) as page:
        before = len(sounds_sent())
        opened("example=1", server=page)
        assert len(sounds_sent()) > before
    with wave.open(io.BytesIO(sounds_sent()[-1])) as sent:
        assert (sent.getnchannels(), sent.getframerate()) == (1, 16000)
        assert np.frombuffer(sent.readframes(9), "<i2").tolist() == [16384, -16383, 32767, 0]


def test_a_sound_is_recorded_in_the_page(opened: Opened) -> None:
    with hostile() as (address, _), page_of(address) as page:
        tab = opened(server=page, permissions=["microphone"])
        tab.get_by_text("Optional inputs").click()
        tab.get_by_role("button", name="Record", exact=True).click()
        tab.get_by_role("button", name="Stop", exact=True).wait_for()
        tab.wait_for_timeout(1500)
        tab.get_by_role("button", name="Stop", exact=True).click()
        tab.locator("audio").wait_for(state="attached")
        tab.get_by_role("button", name="Run").click()
        assert eventually(sounds_sent)
    with wave.open(io.BytesIO(sounds_sent()[-1])) as sent:
        assert (sent.getnchannels(), sent.getframerate()) == (1, 16000) and sent.getnframes() > 8000
        assert np.frombuffer(sent.readframes(16000), "<i2").any()


def test_a_span_is_pinned_with_shift(opened: Opened) -> None:
    tab = opened("model=tiny&map=encoder.0.self&head=0&in.text=the cat sat on the mat")
    told = []
    for key in (1, 2, 3):
        words(tab).nth(key).hover()
        told.append(float(tab.locator(".readout").inner_text().split(": ")[1].split(",")[0]))
    words(tab).nth(3).click()
    words(tab).nth(1).click(modifiers=["Shift"])
    readout = tab.locator(".readout").inner_text()
    assert "cat sat on" in readout and "pinned" in readout
    assert float(readout.split(": ")[1].split(",")[0]) == pytest.approx(sum(told), rel=0.02)
    assert tab.locator("[aria-label^='Keys'] .marked").count() == 3
    tab.get_by_label("Sorted by").select_option("pinned")
    again = opened(tab.evaluate("location.hash").removeprefix("#"))
    assert again.locator("[aria-label^='Keys'] .marked").count() == 3
    assert again.locator(".readout").inner_text() == readout
    tab.keyboard.press("Escape")
    assert "to=" not in tab.evaluate("location.hash")


def test_scores_and_norms_are_shown_where_a_map_has_them(opened: Opened) -> None:
    tab = opened("model=tiny&map=encoder.1.self&head=0&in.text=the cat sat")
    of = tab.locator("[data-part=quantity]")
    assert of.locator("option").all_inner_texts() == ["weights", "scores", "norms of weighted values"]
    of.select_option("QUANTITY_SCORES")
    tab.wait_for_url(re.compile("quantity=QUANTITY_SCORES"))
    eventually(lambda: tab.locator(".ends").inner_text().startswith("-"))
    low, _, high = tab.locator(".ends").inner_text().partition(" to ")
    assert float(low) == -float(high) < 0
    of.select_option("QUANTITY_NORMS")
    eventually(lambda: not tab.locator(".ends").inner_text().startswith("-"))
    assert not tab.locator(".ends").inner_text().startswith("equal")
    tab.locator("[data-part=map]").select_option("pool")  # has weights alone
    tab.wait_for_url(re.compile("map=pool"))
    assert not of.is_visible() and tab.locator(".ends").inner_text().startswith("equal")


def test_a_graph_has_arrows_and_names(opened: Opened) -> None:
    tab = opened("model=web")
    assert tab.locator("[aria-label^='Graph of']").count()
    canvas = tab.locator("[aria-label^='Graph of'] canvas")
    canvas.hover(position={"x": 230, "y": 60})
    assert "what looks at it" in tab.locator(".caption").inner_text()


def test_generated_tokens_stream_and_each_step_has_its_row(opened: Opened) -> None:
    tab = opened("model=echo&map=decoder.0.cross&in.text=the cat sat")
    assert tab.locator(".headline").inner_text()
    steps = words(tab, "Queries")
    assert steps.count() > 1
    steps.first.hover()
    assert any(shades(tab))
    tab.locator("[data-part=map]").select_option("decoder.0.self")
    tab.wait_for_url(re.compile("decoder.0.self"))
    tab.get_by_label("The text is").select_option("STRATEGY_SAMPLE")
    tab.wait_for_url(re.compile("seed="))
    tab.get_by_label("The text is").select_option("STRATEGY_BEAM")
    texts = tab.locator("button.text")
    texts.nth(2).wait_for()
    assert [each.get_attribute("aria-pressed") for each in texts.all()] == ["true", "false", "false"]
    wanted = [each.inner_text() for each in texts.all()]
    for number in (1, 2):
        texts.nth(number).click()
        tab.wait_for_url(re.compile(f"text={number}"))
        assert eventually(lambda text=wanted[number]: " ".join(words(tab, "Queries").all_inner_texts()[:-1]) == text)
    again = opened(tab.evaluate("location.hash").removeprefix("#"))
    assert again.locator("button.text[aria-pressed='true']").inner_text() == wanted[2]
    assert " ".join(words(again, "Queries").all_inner_texts()[:-1]) == wanted[2]


def test_a_model_without_maps_says_so(opened: Opened) -> None:
    tab = opened("model=noisy")
    assert "no attention maps" in tab.locator(".answer").inner_text()


def test_what_the_server_refuses_is_told(opened: Opened) -> None:
    tab = opened("model=tiny&map=encoder.0.self&in.text=the cat sat")
    tab.errors.clear()
    results = tab.locator(".results").inner_text()
    tab.locator("textarea").fill("the " * 300)
    tab.get_by_role("button", name="Run").click()
    tab.locator(".problem").wait_for()
    assert "500" in (problem := tab.locator(".problem").inner_text()) and problem.startswith("text ")
    # The answer before stays, and what is opened of it is of its input.
    assert "Below is the last answer" in problem and tab.locator(".results").inner_text() == results
    for name in ("encoder.1.self", "pool"):
        tab.locator("[data-part=map]").select_option(name)
        tab.wait_for_url(re.compile(f"map={name}"))
        assert eventually(lambda: "cat" in words(tab).all_inner_texts()) and words(tab).count() < 9
    tab.locator("textarea").fill("a dog")
    tab.keyboard.press("Control+Enter")
    words(tab).get_by_text("dog", exact=True).wait_for()
    assert not tab.locator(".problem:visible").count()
    tab.errors.clear()  # Chromium reports the status of the answer
    assert "no model nothing" in opened("model=nothing").locator(".problem").inner_text()


def test_two_inputs_are_compared_with_their_difference(opened: Opened) -> None:
    tab = opened("model=tiny&map=pool&in.text=the cat sat")
    tab.get_by_role("button", name="Compare").click()
    tab.locator("#difference .panel").wait_for()
    assert not any(shades(tab.locator("#difference")))
    tab.locator("textarea").nth(1).fill("the dog ran")
    tab.locator("textarea").nth(1).press("Control+Enter")
    tab.wait_for_url(re.compile("ran"))
    assert any(shades(tab.locator("#difference"))) and "-" in tab.locator("#difference .ends").inner_text()
    again = opened(tab.evaluate("location.hash").removeprefix("#"))
    assert again.locator("#difference .panel").count() == 1


def test_a_head_is_masked_and_the_answer_compared_with_that_of_all_heads(
    opened: Opened, changeable: tuple[PageServer, InProcessServer]
) -> None:
    page, server = changeable
    with limelight.Client(server.address) as client:
        example = client.model("vit").examples[0]
        usual = client.predict("vit", example)
        masked = [limelight.scale_heads("encoder.0.self", {1: 0})]
        changed = client.predict("vit", example, interventions=masked)
    tab = opened("model=vit&example=0&map=encoder.0.self&head=1", server=page)
    button = tab.get_by_role("button", name="Mask this head")
    assert button.get_attribute("aria-pressed") == "false" and not tab.locator(".masks").count()
    button.click()
    tab.wait_for_url(re.compile("mask=encoder.0.self%3A1"))
    assert "Answered without encoder.0.self head 1" in tab.locator(".masks").inner_text()
    assert button.get_attribute("aria-pressed") == "true" and tab.locator(".thumb.masked").count() == 1
    rows = compared(tab)
    for answer, column in ((changed, 0), (usual, 1)):
        for each in answer.classes[:3]:
            shown = float(re.sub("[^0-9.]", "", rows[each.label][column]))
            assert shown == pytest.approx(100 * each.probability, abs=0.051)
    again = opened(tab.evaluate("location.hash").removeprefix("#"), server=page)
    assert compared(again) == rows
    tab.locator("[data-part=head]").select_option("")  # the mean of all heads is none that can be masked
    assert eventually(lambda: not button.is_visible())
    tab.get_by_role("button", name="Use all heads").click()
    assert eventually(lambda: not tab.locator(".masks").count() and "mask=" not in tab.evaluate("location.hash"))
    assert not tab.locator(".problem:visible").count()


def test_the_rollout_of_a_stack_is_a_map_of_its_own(
    opened: Opened, changeable: tuple[PageServer, InProcessServer]
) -> None:
    page, server = changeable
    with limelight.Client(server.address) as client:
        example = client.model("vit").examples[0]
        layers = client.attend("vit", example, maps="encoder.*.self", reduce="mean").maps
    expected = np.eye(layers[0].weights.shape[-1])
    for each in layers:
        expected = (0.5 * each.weights[0] + 0.5 * np.eye(len(expected))) @ expected
    tab = opened("model=vit&example=0&map=encoder.rollout", server=page)
    assert len(layers) > 1 and "Abnar and Zuidema" in tab.locator("[data-part=summary]").inner_text()
    weights = json.loads(saved_text(tab, "JSON"))["weights"]
    np.testing.assert_allclose(weights, expected, atol=1e-4)
    assert not tab.get_by_role("button", name="Mask this head").is_visible()
    # A model without two layers over the same entries has none, nor has a copy without a server.
    assert "rollout" not in opened("model=paper").locator("[data-part=map]").inner_text()


def compared(tab: Any) -> dict[str, list[str]]:
    """The rows of the table of what is compared, by their names."""
    rows = [each.locator("td").all_inner_texts() for each in tab.locator(".compared tr").all()[1:]]
    return dict(zip(tab.locator(".compared th[scope=row]").all_inner_texts(), rows, strict=True))


def test_texts_of_other_lengths_are_compared_by_what_they_have(
    opened: Opened, demo: tuple[PageServer, InProcessServer]
) -> None:
    """Answers and measures of any; entries that are in both; and equal parts where little is."""
    asked = (
        "model=numbers&map=decoder.1.cross&in.text=siebenundvierzig&b.model=numbers&b.map=decoder.1.cross&b.in.text="
    )
    tab = opened(f"{asked}vierzig", server=demo[0])
    rows = compared(tab)
    assert rows["text"][:2] == ["47", "40"] and len(rows["evenness of the weights"]) == 3
    note = tab.locator("#difference-note").inner_text()
    assert "7 of 16 and 7 are in both" in note and "of the weight is there, in the second 1." in note
    assert words(tab.locator("#difference")).all_inner_texts() == list("vierzig")
    # The same numbers as by hand: the weights of the first at its last seven letters minus those of the second.
    with limelight.Client(demo[1].address) as client:
        weights = [
            client.attend("numbers", text, maps="decoder.1.cross", reduce="mean")["decoder.1.cross"].weights[0]
            for text in ("siebenundvierzig", "vierzig")
        ]
    words(tab.locator("#difference"), "Queries").first.hover()
    expected = np.abs(weights[0][:, -7:] - weights[1]).max()
    shown = float(tab.locator("#difference .ends").inner_text().partition(" to ")[2])
    assert shown == pytest.approx(expected, rel=0.01)
    parts = opened(f"{asked}forty-two", server=demo[0])
    assert "cut into 8 equal parts" in parts.locator("#difference-note").inner_text()
    assert words(parts.locator("#difference")).all_inner_texts() == [f"part {each}" for each in range(1, 9)]
    other = opened("model=numbers&b.model=canvas", server=demo[0])
    assert compared(other)["answer"][0].startswith("47 (") and compared(other)["answer"][1].startswith("six (")
    assert "different things" in other.locator("#difference-note").inner_text()
    lines = opened("model=slips&b.model=slips&b.example=1", server=demo[0])
    assert (
        compared(lines)["misspelt keyword"][2].startswith("+")
        and "=" in words(lines.locator("#difference")).all_inner_texts()
    )


def saved(tab: Any, name: str, folder: Path) -> Path:
    """Save what is shown in a form."""
    tab.locator(".menu summary").click()
    with tab.expect_download() as download:
        tab.locator("#save").get_by_role("button", name=name).click()
    download.value.save_as(folder / download.value.suggested_filename)
    return folder / download.value.suggested_filename


def saved_text(tab: Any, name: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        return saved(tab, name, Path(folder)).read_text()


def test_a_view_is_saved_in_four_forms(opened: Opened, tmp_path: Path) -> None:
    tab = opened(f"model=tiny&map=encoder.0.self&head=0&in.text={quote('the <b> cat')}")
    with Image.open(saved(tab, "PNG", tmp_path)) as image:
        assert image.width > 600 and len(image.convert("RGB").getcolors(2**20) or ()) > 20
    svg, page = (saved(tab, name, tmp_path).read_text() for name in ("SVG", "HTML"))
    assert svg.startswith("<svg") and "cat" in svg and "encoder.0.self" in svg
    assert "<b>" not in page and "src=" not in page and "cat" in page
    numbers = json.loads(saved(tab, "JSON", tmp_path).read_text())
    assert numbers["map"] == "encoder.0.self" and sum(numbers["weights"][0]) == pytest.approx(1, abs=1e-3)


def test_a_text_of_characters_that_xml_lacks_is_saved(opened: Opened, tmp_path: Path) -> None:
    tab = opened(f"model=tiny&map=pool&in.text={quote('the' + chr(27) + '[31m cat' + chr(1) + chr(0xFFFF) + ' dog')}")
    written = "".join(ElementTree.parse(saved(tab, "SVG", tmp_path)).getroot().itertext())
    assert "dog" in written and "\ufffd" in written
    with Image.open(saved(tab, "PNG", tmp_path)) as image:
        assert image.width > 600
    assert not re.search("[\x00-\x08\x0e-\x1f]", saved(tab, "HTML", tmp_path).read_text())
    assert not tab.locator(".problem:visible").count()


def test_a_view_that_no_picture_holds_is_saved_smaller_and_what_fails_is_told(opened: Opened, tmp_path: Path) -> None:
    tab = opened("model=tiny&map=pool")
    for side in ("height", "width"):
        tab.locator("[data-part=view]").evaluate(f"view => {{ view.style = '{side}: 300000px'; }}")
        with Image.open(saved(tab, "PNG", tmp_path)) as image:
            assert 10_000 < max(image.size) <= 2**14
        assert "5 % of its size" in tab.locator(".problem").inner_text()
    tab.evaluate("""() => {
        OffscreenCanvas.prototype.convertToBlob = () => Promise.reject(new Error("no memory is left"));
        JSON.stringify = () => { throw new Error("it is too long"); };
    }""")
    for name, why in (("PNG", "no memory is left"), ("JSON", "JSON failed: it is too long")):
        tab.locator(".menu summary").click()
        tab.locator("#save").get_by_role("button", name=name).click()
        tab.locator(".problem").get_by_text(why).wait_for()
        assert not tab.locator("#save").is_visible()


def test_markup_of_the_server_stays_text_and_bad_maps_are_told(opened: Opened) -> None:
    with hostile() as (address, _), page_of(address) as page:
        tab = opened(f"map={quote(MARKUP)}", server=page)
        problem = tab.locator(".problem").inner_text()
        for name, why in {"short": "1 × 2 × 2", "nan": "not numbers", "unlabelled": "no labels"}.items():
            assert name in problem and why in problem
        assert words(tab).first.inner_text() == MARKUP
        assert tab.title() == "Limelight" and tab.locator("main img, main script").count() == 0
        heard = opened("map=heard", server=page)
        assert "0 to 1.5 s" in heard.locator(".panel.picture").inner_text()
        heard.locator(".picture canvas").hover(position={"x": 190, "y": 5})
        assert "frame 1" in heard.locator(".readout").inner_text()
        tab.get_by_label("Model").select_option("failed@1")
        assert MARKUP in tab.locator(".problem").inner_text()


LIES: dict[str, list[dict[str, Any]]] = {
    "2147483647 entries": [{"name": "t", "kind": "LABEL_KIND_TOKENS", "size": 2**31 - 1}],
    "9 entries, and 1 texts": [{"name": "t", "kind": "LABEL_KIND_TOKENS", "size": 9, "texts": ["a"]}],
    "a grid of 65536 × 65536": [
        {"name": "t", "kind": "LABEL_KIND_GRID", "size": 4, "grid": {"rows": 2**16, "columns": 2**16}}
    ],
    "are none, in order, of 3": [
        {"name": "t", "kind": "LABEL_KIND_SENTENCES", "size": 2, "starts": [0, 0], "ends": [3, 3], "inputs": ["text"]}
    ],
    "1 × 1048576 × 1048576": [{"name": "t", "kind": "LABEL_KIND_NODES", "size": 2**20}],
}


def test_numbers_of_an_answer_are_held_against_what_it_has(opened: Opened) -> None:
    lies = list(LIES)
    described = {
        "inputs": [{"name": "text", "kind": "INPUT_KIND_TEXT"}],
        "maps": [{"name": "m", "heads": 1, "queryLabels": "t", "keyLabels": "t", "form": "MAP_FORM_EDGES"}],
        "examples": [{"inputs": {"text": {"text": "a b"}}}],
    }
    index = {"dataType": "DATA_TYPE_INT32", "shape": [1], "data": [0]}
    weights = {"dataType": "DATA_TYPE_FLOAT32", "shape": [1, 1], "data": [[1]]}
    edges = {"name": "m", "heads": [0], "queryLabels": "t", "keyLabels": "t", "weights": weights}
    edges |= {"queryIndex": index, "keyIndex": index}

    def answer(path: str) -> list[bytes]:
        if path == "/v1/models":
            models = [
                {"model": {"name": str(each)}, "state": "MODEL_STATE_READY", "isDefault": True}
                for each in range(len(lies))
            ]
            return [json.dumps({"models": models}).encode()]
        name, _, call = path.removeprefix("/v1/models/").partition(":")
        prediction = {"labelSets": LIES[lies[int(name)]]}
        found = {"results": [{"prediction": prediction, "maps": [edges]}]} if call else {"description": described}
        return [json.dumps(found).encode()]

    with saying(answer) as address, page_of(address) as page:
        tab = opened("model=0", server=page)
        for number, lie in enumerate(lies):
            tab.get_by_label("Model").select_option(str(number))
            tab.locator(".problem").get_by_text(lie).first.wait_for()
        tab.close()


def test_a_copy_for_any_web_server_has_the_answers_to_the_examples(opened: Opened, http: str, tmp_path: Path) -> None:
    assert main(["view", http, "--export", str(tmp_path / "copy")]) == 0
    with running(partial(QuietHandler, directory=str(tmp_path / "copy"))) as place:
        address = f"http://{place}/"
        for model in ("tiny", "paper", "echo", "web", "picture"):
            tab = opened(f"model={model}", address=address)
            assert tab.locator(".thumb").count() and not tab.locator(".problem:visible").count()
        tab = opened("model=tiny&map=pool&example=1", address=address)
        assert any(shades(tab))
        tab.locator("textarea").fill("a new text")
        tab.keyboard.press("Control+Enter")
        tab.get_by_text("This copy of the page has no server").wait_for()


def test_the_key_is_taken_from_the_address_and_the_token_is_not_in_the_page(opened: Opened) -> None:
    with hostile() as (address, seen), page_of(address, Security(token="s3cret")) as page:
        tab = opened(server=page)
        assert "key=" not in tab.evaluate("location.hash") and seen
        assert "s3cret" not in tab.content()
        assert tab.evaluate("JSON.stringify(localStorage)").count(page.key) == 1


def test_a_long_text_is_read_in_windows_and_rows(opened: Opened) -> None:
    tab = opened("model=long&map=encoder.0.self&head=0&in.text=the")
    asked: list[tuple[str, int]] = []
    tab.on("response", lambda response: asked.append((response.url, int(response.headers["content-length"]))))
    tab.locator("textarea").fill(" ".join(["the cat sat on a mat . dog ran far"] * (LONG // 10 - 1)))
    tab.keyboard.press("Control+Enter")
    queries, keys = words(tab, "Queries"), words(tab)
    queries.nth(LONG - 200).wait_for(timeout=60_000)
    count = queries.count()
    assert eventually(lambda: any(f"rows=0-{count}&columns=0-{count}&most=1x{count}" in url for url, _ in asked))

    def ask(act: Callable[[], None], wanted: str) -> str:
        """Act, and wait for the answer to a request of such a window; others may come between."""
        with tab.expect_response(re.compile(f"/heads/[^?]*[?]{wanted}")) as response:
            act()
        return str(response.value.url.partition("?")[2])

    ask(queries.nth(31).hover, f"rows=31-32&columns=0-{count}&most=1x{count}")
    shown = tab.locator(".caption").nth(1)
    assert eventually(lambda: "“cat” looks at" in shown.inner_text()) and any(shades(tab))
    assert not any(shades(tab)[-200:])  # far below what is seen
    keys.nth(count - 1).scroll_into_view_if_needed()
    assert eventually(lambda: any(shades(tab)[-200:]))
    ask(keys.nth(count - 2).hover, f"rows=0-{count}&columns={count - 2}-{count - 1}&")
    assert eventually(lambda: any(shades(tab, "Queries")))
    part = f"rows=(?!0-{count}&)"
    once = ask(tab.get_by_label("Zoom in").click, part)
    ask(tab.get_by_label("Zoom in").click, f"(?!{re.escape(once)}){part}")
    assert "window=" in tab.evaluate("location.hash")
    # No answer has all weights of a head.
    assert max(size for _, size in asked) < count * count // 4


def test_each_kind_of_the_zoo_has_its_picture(opened: Opened, tmp_path: Path) -> None:
    for name in ("memn2n", "sagan", "pointer-network"):
        export_model(small.trained(name), tmp_path)
    with serving(tmp_path, http_port=free_port()) as models, page_of(models.server.http_url[7:]) as page:
        # A document of sentences, which another input stands beside, is sent as its example has it.
        tab = opened("model=memn2n", server=page)
        assert words(tab).all_inner_texts() == ["A cat sat", "It rains"]
        first, second = (each.bounding_box() for each in words(tab).all())
        assert second["y"] - first["y"] < 1.5 * first["height"]  # no empty line between them
        tab.get_by_label("document").fill("It rains")
        tab.keyboard.press("Control+Enter")
        assert eventually(lambda: words(tab).all_inner_texts() == ["It rains"])
        assert not any(shades(tab))  # there is no other place to look at
        drawn = opened("model=sagan", server=page).locator("canvas.drawn")
        assert "numbers from" in (drawn.get_attribute("aria-label") or "")
        colours = drawn.evaluate("c => [...c.getContext('2d').getImageData(0, 0, c.width, c.height).data]")
        assert {0, 255} <= set(colours[::4]) and len(set(colours[::4])) > 8
        # Numbers are lists as a person writes them, and no longer than they need be.
        tab = opened("model=pointer-network", server=page)
        written = tab.get_by_role("textbox", name="points")
        sent = small.trained("pointer-network").examples[0]["points"]
        assert isinstance(sent, TensorValue)
        points = [[float(str(each)) for each in row] for row in sent.array]
        assert written.input_value() == json.dumps(points, separators=(",", ":"))
        written.fill("[[0.1, 0.2], [0.5, 0.9], [0.9, 0.1]]")
        tab.keyboard.press("Control+Enter")
        assert eventually(lambda: words(tab).all_inner_texts() == ["point 0", "point 1", "point 2"])
