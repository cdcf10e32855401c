"""Answers in a notebook: a notebook is executed, and what it keeps of each widget is shown in a real Chromium."""

import base64
import dataclasses
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import limelight
from limelight.labels import plain
from tests.client.served import DOCUMENT, headline, label, paper, small_models, tiny

pytest.importorskip("anywidget", reason="anywidget is not installed")

CELLS = [
    "import limelight\nimport numpy as np\npicture = np.arange(64, dtype=np.uint8).reshape(8, 8)",
    'client = limelight.Client("{target}")',
    'limelight.widget(client.attend("tiny", "the <b>cat sat", maps="encoder.*"))',
    f'limelight.widget(client.attend("paper", "{DOCUMENT}"))',
    'limelight.widget(client.attend("glance", picture), image=picture)',
    'answer = client.attend("tiny", "the cat sat", maps="encoder.*", heads=[1], top_k=1)\n'
    'limelight.widget(answer, "encoder.1.*")',
    "import dataclasses\n"
    'answer = client.attend("glance", picture)\n'
    'boxes = [limelight.Box("cat", 0, 0.9, 0, 0, 4, 4, 1), limelight.Box("dog", 1, 0.8, 4, 4, 8, 8, 2)]\n'
    'results = {{"objects": limelight.Boxes(tuple(boxes), answer["encoder.1.self"].query.name, False)}}\n'
    "prediction = dataclasses.replace(answer.prediction, results=results)\n"
    "limelight.widget(dataclasses.replace(answer, prediction=prediction), image=picture)",
    'why = client.explain("tiny", "the <b>cat sat")\nprint(why.sentence)\nlimelight.widget(why)',
]
# Answers that display themselves, without a widget.
SHOWN = ('client.attend("tiny", "big <b>cat")["encoder.1.self"]', f'client.predict("paper", "{DOCUMENT}")')
# A host as anywidget's own: it imports the module from memory, and gives it the traits.
HOST = """<!doctype html><title>Notebook</title><style>button { color: red }</style>
<body style="background: %s; color: %s"><div id="cell"></div></body>"""
SHOW = """async ([esm, data]) => {
  const url = URL.createObjectURL(new Blob([esm], { type: "text/javascript" }));
  const bytes = Uint8Array.from(atob(data), (each) => each.charCodeAt(0));
  const traits = { answer: new DataView(bytes.buffer) };
  const module = (await import(url)).default;
  await module.render({ model: { get: (name) => traits[name] }, el: document.getElementById("cell") });
}"""

COLOURS = """(canvas) => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return new Set(new Uint32Array(data.buffer)).size;
}"""


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """An executed notebook."""
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    with small_models(tmp_path_factory.mktemp("repository")) as server:
        cells = [nbformat.v4.new_code_cell(each.format(target=server.target)) for each in (*CELLS, *SHOWN)]
        book = nbformat.v4.new_notebook(cells=cells)
        nbclient.NotebookClient(book, timeout=120, kernel_name="python3").execute()
    return book


def test_a_notebook_shows_an_answer_without_a_widget(notebook: Any) -> None:
    one_map, prediction = (each.outputs[0].data for each in notebook.cells[-len(SHOWN) :])
    assert "&lt;b&gt;cat" in one_map["text/html"] and "<b>cat" not in one_map["text/html"]
    assert prediction["text/plain"] == f"<Prediction paper version 1: {headline(paper())}>"


@pytest.fixture(scope="module")
def states(notebook: Any) -> list[Any]:
    """The module and the answer of each widget that the notebook keeps."""
    kept = notebook.metadata.widgets["application/vnd.jupyter.widget-state+json"]["state"]
    found = []
    for cell in notebook.cells[2 : len(CELLS)]:
        view = cell.outputs[-1].data["application/vnd.jupyter.widget-view+json"]
        state = kept[view["model_id"]]
        found.append([state["state"]["_esm"], state["buffers"][0]["data"]])
    return found


@pytest.fixture
def host(browser: Any) -> Iterator[Any]:
    """Shows a widget in a page without a server; any error that the browser reports fails the test."""
    context, errors = browser.new_context(viewport={"width": 900, "height": 900}), []

    def show(state: list[str], background: str = "white", text: str = "black") -> Any:
        tab = context.new_page()
        tab.on("pageerror", lambda error: errors.append(str(error)))
        tab.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        tab.on("request", lambda each: errors.append(each.url) if not each.url.startswith("blob:") else None)
        tab.set_content(HOST % (background, text))
        tab.evaluate(SHOW, state)
        tab.locator("[data-ready]").wait_for(timeout=20_000)
        return tab

    yield show
    context.close()
    assert not errors


def shades(tab: Any, panel: str) -> list[str]:
    units = tab.locator(f"[aria-label^='{panel}'] .unit")
    found: list[str] = units.evaluate_all("units => units.map(each => each.style.backgroundColor)")
    return found


def test_an_answer_reacts_in_a_notebook_without_a_server(states: list[Any], host: Any) -> None:
    tab = host(states[0])
    assert tab.locator(".headline").inner_text().startswith(f"tiny version 1: {label(tiny('the <b>cat sat'))}")
    assert tab.locator(".thumb").count() == 4
    queries = tab.locator("[aria-label^='Queries'] .unit")
    assert "<b>cat" in "".join(queries.all_inner_texts()) and tab.locator("[aria-label^='Queries'] b").count() == 0
    tab.locator(".thumb").nth(1).click()
    before = shades(tab, "Keys")
    queries.nth(1).hover()
    assert "looks at" in tab.locator(".caption").nth(1).inner_text()
    queries.nth(1).click()
    assert "pinned" in tab.locator(".readout").inner_text() and any(shades(tab, "Keys"))
    tab.keyboard.press("Escape")
    tab.mouse.move(0, 0)
    assert shades(tab, "Keys") == before
    tab.locator("canvas.matrix").focus()
    tab.keyboard.press("+")
    tab.get_by_label("Sorted by").select_option("entropy")
    values = [float(each) for each in tab.locator(".thumb .value").all_inner_texts()]
    assert len(values) == 4 and values == sorted(values, reverse=True)


def test_documents_pictures_and_selections_have_their_pictures(states: list[Any], host: Any) -> None:
    document = host(states[1])
    assert document.locator(".nested .line").count() == 2
    shares = [float(each) for each in document.locator(".nested .sure").all_inner_texts()]
    assert sum(shares) == pytest.approx(1, abs=0.01) and min(shares) > 0
    colours = document.locator(".thumb canvas").first.evaluate(COLOURS)
    assert colours > 3  # what is no edge, and the weights of words
    picture = host(states[2])
    canvas = picture.locator(".panel.picture canvas").last
    drawn = canvas.evaluate("each => [each.width > 100, each.getContext('2d').getImageData(2, 2, 1, 1).data[3]]")
    assert drawn == [True, 255]
    selected = host(states[3])
    assert selected.locator("[data-part=map] option").all_inner_texts() == ["encoder.1.self"]
    selected.locator("[aria-label^='Queries'] .unit").first.hover()
    assert sum(map(bool, shades(selected, "Keys"))) == 1  # the one key that top_k kept


def test_objects_are_outlined_in_their_picture_all_or_that_of_a_query(states: list[Any], host: Any) -> None:
    tab = host(states[4])
    keys, queries = (tab.locator(f"[aria-label^='{each}'] canvas") for each in ("Keys", "Queries"))

    def outlined() -> list[bool]:
        """Whether the left edge of the first box, and the right edge of the second, have the outline's colour."""
        return [
            keys.evaluate("(each, [x, y]) => each.getContext('2d').getImageData(x, y, 1, 1).data.join()", place)
            == "255,214,10,255"
            for place in ([0, 100], [190, 300])
        ]

    assert outlined() == [True, True]
    queries.hover(position={"x": 140, "y": 40})  # r0c1, entry 2 behind the class token
    assert outlined() == [False, True]


def test_an_explanation_is_shown_as_in_the_page(notebook: Any, states: list[Any], host: Any) -> None:
    tab = host(states[5])
    assert tab.locator(".agreement").inner_text() == notebook.cells[len(CELLS) - 1].outputs[0].text.strip()
    words = tab.locator("[aria-label='Erase: words'] .unit")
    assert words.all_inner_texts() == ["the", "<b>cat", "sat"] and any(shades(tab, "Erase"))
    words.nth(1).hover()
    readout = tab.locator(".readout").inner_text()
    assert re.fullmatch(r"“<b>cat” · attention [\d.e-]+ · erase [\d.e-]+", readout)
    tab.get_by_role("button", name="erase").click()
    assert tab.locator(".values th[scope=row]").count() == 3


def test_a_dark_notebook_has_dark_colours_and_styles_stay_apart(states: list[Any], host: Any) -> None:
    paper = "each => getComputedStyle(each).backgroundColor"
    light, dark = host(states[0]), host(states[0], "#111", "#eee")
    assert light.locator(".widget").evaluate(paper) == "rgb(255, 255, 255)"
    assert dark.locator(".widget").evaluate(paper) == "rgb(24, 28, 36)"
    assert dark.locator(".thumb").first.evaluate("each => getComputedStyle(each).color") != "rgb(255, 0, 0)"
    assert dark.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(17, 17, 17)"


def read(widget: Any) -> tuple[dict[str, Any], bytes]:
    length, _, rest = widget.answer.partition(b"\n")
    return json.loads(rest[: int(length)]), rest[int(length) :]


def one_map(weights: np.ndarray[Any, Any], **fields: Any) -> limelight.AttentionMap:
    axes = [
        plain(name, "tokens", [str(each) for each in range(size)])
        for name, size in zip("qk", weights.shape[1:3], strict=True)
    ]
    given = {"query": axes[0], "key": axes[1], "normalised": True, "heads": tuple(range(len(weights))), **fields}
    return limelight.AttentionMap(name="encoder.0.cross", kind="cross", weights=weights, **given)


def test_a_large_map_goes_as_bytes_and_a_larger_one_says_how_to_select() -> None:
    weights = np.random.default_rng(0).dirichlet(np.ones(1100), (1, 1000)).astype(np.float32)
    message, data = read(limelight.widget(one_map(weights)))
    (sent,) = message["maps"]
    scales, values = (
        np.frombuffer(data, dtype, np.prod(sent[name]["shape"]), sent[name]["offset"]).reshape(sent[name]["shape"])
        for name, dtype in (("scales", "<f4"), ("weights", "u1"))
    )
    assert np.abs(values * scales[:, :, None] - weights).max() <= scales.max() / 2 + 1e-6
    with pytest.raises(ValueError, match=r"select some, such as limelight.widget\(answer, 'encoder.0.cross'\)"):
        limelight.widget(one_map(np.repeat(weights, 9, axis=0)))


def test_keys_that_are_cut_are_no_shares_and_features_are_averaged() -> None:
    keys = plain("k", "tokens", ["a", "b", "c"])
    message, _ = read(limelight.widget(one_map(np.full((1, 1, 2), 0.25, np.float32), key=keys.take([0, 2]))))
    assert message["maps"][0]["normalised"] is False
    message, data = read(limelight.widget(one_map(np.array([[[[0.2, 0.4], [0.8, 0.6]]]], np.float32))))
    assert np.frombuffer(data, "<f4") == pytest.approx([0.3, 0.7])
    assert message["maps"][0]["weights"]["shape"] == [1, 1, 2]
    with pytest.raises(KeyError, match=r"encoder\.0\.cross"):
        limelight.widget(one_map(np.ones((1, 1, 1), np.float32)), "decoder.*")


def test_words_of_sentences_that_were_not_selected_stand_alone() -> None:
    sentences, words = plain("s", "sentences", ["a b", "c d"]), plain("w", "tokens", ["c", "d"])
    words = dataclasses.replace(words, parent="s", parents=np.array([1, 1], np.int32))
    weights = np.array([[[0.5, 0.5], [0.5, 0.5]]], np.float32)
    for query, parents in ((sentences, [1, 1]), (sentences.take([1]), None)):
        message, _ = read(limelight.widget(one_map(weights[:, : len(query)], query=query, key=words)))
        sent = next(each for each in message["labelSets"] if each["name"] == "w")
        assert (sent.get("parents"), sent["parent"]) == (parents, "s" if parents else "")


def test_a_missing_extra_is_one_line_that_names_it() -> None:
    program = (
        "import sys; sys.modules['anywidget'] = None; import limelight\n"
        "try: limelight.widget(None)\nexcept ModuleNotFoundError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == (
        "limelight.widget() needs anywidget, which is not installed: pip install anywidget, "
        "or limelight-client[notebook]\n"
    )


def test_the_module_has_the_page_s_own_files(states: list[Any]) -> None:
    page = Path(limelight.__path__[0]) / "view" / "page"
    for name in ("explorer.js", "headview.js", "matrix.js", "maps.js", "view.css"):
        assert json.dumps((page / name).read_text(encoding="utf-8")) in states[0][0]
    assert base64.b64decode(states[0][1]).partition(b"\n")[0].isdigit()
