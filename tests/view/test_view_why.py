"""The panel Why in a real Chromium: the server's explanations, what is pointed at, links, saving, and refusals."""

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import limelight
from limelight.cli import main
from limelight.view.server import PageServer
from limelight_service.supervisor.in_process import InProcessServer
from tests.kit.serving import eventually
from tests.view.conftest import Opened, page_of
from tests.view.hostile import running, saying
from tests.view.test_view_page import QuietHandler, saved, shades, words

Served = tuple[PageServer, InProcessServer]
TEXT = "the cat sat on the mat"


def explained(tab: Any) -> Any:
    """The same tab, once its explanation is shown."""
    tab.locator(".why[aria-busy=false] .values:not(.before)").wait_for(timeout=20_000)
    return tab


def explain(tab: Any) -> Any:
    """Press Explain."""
    if not tab.locator(".why").evaluate("each => each.open"):
        tab.locator(".why > summary").click()
    tab.evaluate("document.querySelector('.values')?.classList.add('before')")
    tab.get_by_role("button", name="Explain").click()
    return explained(tab)


def values(tab: Any) -> list[tuple[str, list[float]]]:
    """Names and values of the units in the order of the table."""
    lines = [line.split("\t") for line in tab.locator(".values tbody tr").all_inner_texts()]
    return [(name.strip("“”"), [float(each) for each in cells]) for name, *cells in lines]


def test_a_text_is_shown_by_attention_and_by_effect_as_the_client_has_them(opened: Opened, changeable: Served) -> None:
    page, server = changeable
    with limelight.Client(server.address) as client:
        why = client.explain("structured", client.model("structured").examples[0])
    tab = explain(opened("model=structured", server=page))
    assert tab.locator(".agreement").inner_text() == why.sentence
    assert list(why) == ["attention", "look_away"]
    for column, way in enumerate(why):
        assert [name for name, _ in values(tab)] == list(why.units.labels)
        shown = [each[column] for _, each in values(tab)]
        np.testing.assert_allclose(shown, why[way], rtol=0.06)
    usual = tab.locator(".explained .told").first.inner_text()
    assert f"log-probability of {why.target.label}: " in usual and f"from {why.rows} rows" in usual
    # What the answer needs is blue, what speaks against it orange, in the strength of its change.
    changes = why["look_away"]
    colours = [[int(part) for part in re.findall(r"\d+", each)] or [255] * 3 for each in shades(tab, "Look away")]
    for (red, _, blue), change in zip(colours, changes / np.abs(changes).max(), strict=True):
        assert np.sign(red - blue) == np.sign(change) or abs(change) < 0.1
    assert np.argmin([sum(each) for each in colours]) == np.argmax(np.abs(changes))


def test_a_unit_is_pointed_at_in_its_text_the_table_and_by_keys_and_has_its_row_in_the_map(opened: Opened) -> None:
    tab = explain(opened(f"model=tiny&map=encoder.0.self&in.text={TEXT}"))
    words(tab, "Attention").nth(2).hover()
    readout, caption = tab.locator(".explained .readout"), tab.locator("[data-part=view] .caption").nth(1)
    name, (attention, erased) = values(tab)[2]
    assert name == "sat" and readout.inner_text() == f"“sat” · attention {attention:g} · erase {erased:g}"
    assert caption.inner_text() == "What “sat” looks at"
    assert tab.locator(".explained .unit.marked").all_inner_texts() == ["sat", "sat"]
    tab.locator(".values tbody tr").nth(1).hover()
    assert readout.inner_text().startswith("“cat” · ") and caption.inner_text() == "What “cat” looks at"
    tab.mouse.move(0, 0)
    assert readout.inner_text() == "" and "mean over" in caption.inner_text()
    tab.locator("[aria-label='Erase: words']").focus()
    tab.keyboard.press("ArrowRight")
    assert readout.inner_text().startswith("“the” · ") and caption.inner_text() == "What “the” looks at"


def test_the_table_is_sorted_by_each_way_and_back(opened: Opened) -> None:
    tab = explain(opened(f"model=tiny&in.text={TEXT}"))
    usual = values(tab)
    erase = tab.locator(".values th").filter(has_text="erase")
    for key, order in ((lambda each: each[1][1], "descending"), (lambda each: -each[1][1], "ascending")):
        erase.get_by_role("button").click()
        assert values(tab) == sorted(usual, key=key) != usual and erase.get_attribute("aria-sort") == order
    tab.get_by_role("button", name="unit").click()
    assert values(tab) == usual and erase.get_attribute("aria-sort") == "none"


def test_a_link_explains_the_same(opened: Opened, changeable: Served) -> None:
    tab = opened("model=vit&example=1", server=changeable[0])
    tab.locator(".why > summary").click()
    tab.get_by_label("Target").select_option("b")
    tab.get_by_label("Size: cells along a side of a patch").fill("2")
    tab.get_by_label("look away").uncheck()
    tab.get_by_label("erase others").check()
    explain(tab)
    assert "log-probability of b" in tab.locator(".explained .told").first.inner_text()
    assert len(values(tab)) == 6 and [len(each) for _, each in values(tab)] == [2] * 6
    link = tab.evaluate("location.hash")
    again = explained(opened(link.removeprefix("#"), server=changeable[0]))
    assert values(again) == values(tab) and again.evaluate("location.hash") == link
    assert again.get_by_label("Target").input_value() == tab.get_by_label("Target").input_value()
    again.get_by_role("button", name="Run").click()  # forgets the explanation
    assert eventually(lambda: "why=" not in again.evaluate("location.hash") and not again.locator(".values").count())


def test_patches_are_shaded_over_the_picture_and_have_their_cells_in_the_map(
    opened: Opened, changeable: Served
) -> None:
    tab = explain(opened("model=vit&map=encoder.0.self", server=changeable[0]))
    canvases = tab.locator(".explained canvas[aria-label*='cells']")
    assert canvases.count() == 2 and "4 × 6 cells" in (canvases.first.get_attribute("aria-label") or "")
    pixels = "each => each.getContext('2d').getImageData(0, 0, each.width, each.height).data.join()"
    first, second = (each.evaluate(pixels) for each in canvases.all())
    assert first != second
    canvases.last.hover(position={"x": 5, "y": 5})
    assert tab.locator(".explained .readout").inner_text().startswith("“r0c0” · attention ")
    assert "“r0c0”" in tab.locator("[data-part=view] .caption").nth(1).inner_text()


def test_words_and_patches_of_one_instance_are_shown_each_as_what_they_are(
    opened: Opened, demo: tuple[PageServer, InProcessServer]
) -> None:
    page, server = demo
    with limelight.Client(server.address) as client:
        why = client.explain("canvas", client.model("canvas").examples[0])
    tab = explain(opened("model=canvas", server=page))
    assert tab.locator(".agreement").inner_text() == why.sentence
    assert "".join(words(tab, "Erase").all_inner_texts()) == "whatisrightoftheseven?"
    cell = int(np.argmax(-why["erase"][6:]))  # of 8 × 8, behind six words
    box = tab.locator("[aria-label='Erase: image'] canvas").bounding_box()
    tab.mouse.move(box["x"] + (cell % 8 + 0.5) * box["width"] / 8, box["y"] + (cell // 8 + 0.5) * box["height"] / 8)
    readout = tab.locator(".explained .readout").inner_text()
    assert readout.startswith(f"“r{cell // 8}c{cell % 8}” · ")
    assert float(readout.split(" ")[-1]) == pytest.approx(why["erase"][6 + cell], rel=0.06)


def test_nodes_of_a_graph_are_shaded(opened: Opened) -> None:
    tab = explain(opened("model=web"))
    canvas = tab.locator("[aria-label='Erase: nodes'] canvas")
    canvas.hover(position={"x": 230, "y": 60})
    assert "“" in tab.locator(".explained .readout").inner_text()
    colours = canvas.evaluate(
        "each => [...new Uint32Array(each.getContext('2d').getImageData(0, 0, each.width, each.height).data.buffer)]"
    )
    assert len(set(colours)) > 10


def test_a_step_of_a_generated_text_and_another_text_are_explained(
    opened: Opened, demo: tuple[PageServer, InProcessServer]
) -> None:
    page, server = demo
    tab = opened("model=dates&in.text=le 14 juillet 1789", server=page)
    tab.locator(".why > summary").click()
    tab.get_by_label("At", exact=True).select_option("6")
    explain(tab)
    assert "log-probability of 7 at 6" in tab.locator(".explained .told").first.inner_text()
    assert min(values(tab), key=lambda each: each[1][1])[0] == "juillet"  # the month's digit needs the month
    tab.get_by_label("At", exact=True).select_option("")
    tab.get_by_label("Text", exact=True).fill("1790-07-14")
    explain(tab)
    with limelight.Client(server.address) as client:
        why = client.explain("dates", "le 14 juillet 1789", target=limelight.Target(text="1790-07-14"))
    assert "log-probability of 1790-07-14" in tab.locator(".explained .told").first.inner_text()
    np.testing.assert_allclose([each[1] for _, each in values(tab)], why["look_away"], rtol=0.06, atol=1e-3)
    # Of several texts, the one that is chosen.
    chosen = "model=numbers&in.text=siebenundvierzig&strategy=STRATEGY_BEAM&text=1&why=usual"
    second = explained(opened(chosen, server=page))
    text = second.locator("button.text[aria-pressed='true']").inner_text()
    assert f"log-probability of {text}: " in second.locator(".explained .told").first.inner_text()
    # A text that was changed is answered first.
    tab.locator("textarea").first.fill("le 15 juillet 1789")
    explain(tab)
    assert tab.locator(".headline").inner_text() == "1789-07-15" and values(tab)[1][0] == "15"


def test_an_explanation_is_saved_with_the_map(opened: Opened, tmp_path: Path) -> None:
    tab = opened(f"model=tiny&map=encoder.0.self&head=0&in.text={TEXT}")
    with Image.open(saved(tab, "PNG", tmp_path)) as image:
        before = image.height
    explain(tab)
    with Image.open(saved(tab, "PNG", tmp_path)) as image:
        assert image.height > before + 200
    svg, page = (saved(tab, name, tmp_path).read_text() for name in ("SVG", "HTML"))
    sentence = tab.locator(".agreement").inner_text()
    for said in (sentence, "Erase · change of the log-probability", "encoder.0.self"):
        assert all(each in svg for each in said.split())
    assert "<th>erase</th>" in re.sub(r"(<th)[^>]*", r"\1", page) and "<button" not in page
    explanation = json.loads(saved(tab, "JSON", tmp_path).read_text())["explanation"]
    assert [each["way"] for each in explanation["ways"]] == ["WAY_ATTENTION", "WAY_ERASE"]
    assert explanation["units"]["texts"] == TEXT.split() and len(explanation["ways"][1]["values"]) == 6


def test_what_the_server_refuses_to_explain_is_told_until_it_is_explained(opened: Opened, changeable: Served) -> None:
    tab = opened("model=vit&mask=encoder.0.self:1&why=erase", server=changeable[0])
    problem = tab.locator(".why .problem")
    problem.get_by_text("do not go with an explanation").wait_for()
    assert tab.locator(".why").get_attribute("aria-busy") == "false" and "why=erase" in tab.evaluate("location.hash")
    tab.errors.clear()  # Chromium reports the status of the answer
    tab.get_by_role("button", name="Use all heads").click()
    assert eventually(lambda: not tab.locator(".masks").count())
    explain(tab)
    assert not problem.count()


def test_an_explanation_that_does_not_fit_its_units_is_told(opened: Opened) -> None:
    described = {
        "inputs": [{"name": "text", "kind": "INPUT_KIND_TEXT"}],
        "labelSets": [{"name": "t", "kind": "LABEL_KIND_TOKENS", "input": "text"}],
        "results": [{"name": "class", "classes": {"labels": ["a"]}}],
        "examples": [{"inputs": {"text": {"text": "a b"}}}],
    }
    why = {"target": {}, "units": {"name": "units", "kind": "LABEL_KIND_TOKENS", "size": 2, "texts": ["a", "b"]}}

    def answer(path: str) -> list[bytes]:
        if path == "/v1/models":
            found: Any = {"models": [{"model": {"name": "m"}, "state": "MODEL_STATE_READY", "isDefault": True}]}
        elif path.endswith(":explain"):
            found = {"explanations": [{**why, "ways": [{"way": "WAY_ERASE", "values": [1]}]}]}
        else:
            found = {"description": described, "predictions": [{"results": []}]}
        return [json.dumps(found).encode()]

    with saying(answer) as address, page_of(address) as page:
        tab = opened("model=m&why=erase", server=page)
        tab.locator(".why .problem").get_by_text("has 1 values for 2 units").wait_for()
        tab.close()


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (1280, "dark")])
def test_the_panel_fits_narrow_screens_and_dark_ones(opened: Opened, width: int, scheme: str) -> None:
    options = {"viewport": {"width": width, "height": 740}, "color_scheme": scheme}
    tab = explained(opened(f"model=tiny&in.text={TEXT}&why=attention,rollout,erase,erase_others", **options))
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    before = shades(tab, "Erase")
    tab.locator("#theme").click()
    assert shades(tab, "Erase") != before


def test_a_copy_for_any_web_server_has_the_explanations_of_the_examples(
    opened: Opened, demo: tuple[PageServer, InProcessServer], tmp_path: Path
) -> None:
    page, server = demo
    assert main(["view", server.http_url[7:], "--export", str(tmp_path / "copy")]) == 0
    live = explain(opened("model=slips&example=1", server=page))
    with running(partial(QuietHandler, directory=str(tmp_path / "copy"))) as place:
        tab = explain(opened("model=slips&example=1", address=f"http://{place}/"))
        assert values(tab) == values(live) and not tab.get_by_label("Units", exact=True).is_visible()
