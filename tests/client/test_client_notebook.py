"""Answers display themselves in notebooks: whole HTML, with every text escaped, shaded as a terminal shades."""

import dataclasses
import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import limelight
from limelight.colours import OVER
from limelight.figures import figures
from limelight.labels import plain
from limelight.scale import FAINT
from tests.client import served
from tests.client.served import DOCUMENT

TAGS = {"div", "b", "span", "svg", "g", "rect", "title", "text", "image", "details", "summary"}
HOSTILE = "<script>alert('1')</script><img src=x onerror=alert(1)>\"'&"


class Read(HTMLParser):
    """The elements and texts of a document, whose elements must be closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def words(self) -> dict[str, float]:
        """The opacity of each word's shade by its weight as written."""
        titled = [attributes for tag, attributes in self.elements if tag == "span" and attributes.get("title")]
        found = {str(each["title"]): re.search(r"([\d.e-]+)\)$", each.get("style") or "") for each in titled}
        return {title: float(opacity[1]) if opacity else 0.0 for title, opacity in found.items()}


def drawn(each: Any) -> Read:
    html = each._repr_html_()
    read = Read(html)
    assert {tag for tag, _ in read.elements} <= TAGS
    assert not any(name.startswith("on") for _, attributes in read.elements for name in attributes)
    assert len(html) < 1_000_000
    return read


def one_row(weights: list[float], labels: list[str], **fields: Any) -> limelight.AttentionMap:
    key, one = plain("words", "tokens", labels), plain("one", "one", ["one"])
    given = {"normalised": True, "weights": np.array([[weights]], np.float32), "query": one, "key": key, **fields}
    return limelight.AttentionMap(name="m", kind="pool", heads=(0,), **given)


def test_an_answer_shows_what_it_says_and_each_word_with_its_weight(client: limelight.Client):
    answer, expected = client.attend("paper", DOCUMENT), served.paper()
    read = drawn(answer)
    assert read.texts[0] == f"paper version 1: {served.headline(expected)}"
    assert {*DOCUMENT.split(), "word", "sentence"} <= set(read.texts)
    assert {f"{weight:.4f}" for weight in expected.maps["word"].weights[0]} <= set(read.words())


def test_shades_are_those_of_the_terminal():
    each = one_row([0.1, 0.2, 0.7], ["a", "b", "c"])
    (figure,) = figures([each])
    strengths = figure.scale.strengths(figure.shaded[0]).tolist()
    words = drawn(each).words()
    for weight, strength in zip(("0.1000", "0.2000", "0.7000"), strengths, strict=True):
        assert words[weight] == pytest.approx(strength * 0.85 if strength >= FAINT else 0, abs=0.01)
    evenly = drawn(one_row([0.25] * 4, ["a", "b", "c", "d"])).words()
    assert evenly == {"0.2500": 0}


def test_every_text_of_an_answer_is_escaped(client: limelight.Client):
    answer = client.attend("echo", {"text": f"{HOSTILE} b"})
    maps = [
        one_row([0.5, 0.5], [HOSTILE, "b"], query=plain(HOSTILE, "one", [HOSTILE])),
        one_row([0.5, 0.5], [HOSTILE, "b"], head_labels=plain("h", "heads", [HOSTILE])),
        dataclasses.replace(answer.maps[0], query=plain("s", "tokens", [HOSTILE] * len(answer.maps[0].query))),
        square(3, [HOSTILE, "b", "c"]),
    ]
    for each in maps:
        renamed = dataclasses.replace(each, name=HOSTILE)
        assert HOSTILE in " ".join(drawn(renamed).texts)
        drawn(dataclasses.replace(answer, maps=(each, renamed)))
    assert any("<script>" in each.lower() for each in drawn(answer).texts)


def square(size: int, labels: list[str] | None = None, **fields: Any) -> limelight.AttentionMap:
    axis = plain("words", "tokens", labels or [f"w{place}" for place in range(size)])
    weights = np.random.default_rng(0).dirichlet(np.ones(size), (1, size)).astype(np.float32)
    given = {"weights": weights, "normalised": True, "query": axis, "key": axis, **fields}
    return limelight.AttentionMap(name="encoder.0.self", kind="self", heads=(0,), **given)


def test_a_matrix_is_cells_or_one_picture_or_rows_by_its_size():
    small = drawn(square(8))
    titles = [text for text in small.texts if " → " in text]
    assert len(titles) == 64 and titles[0].startswith("w0 → w0 0.")
    large = [tag for tag, _ in drawn(square(200)).elements]
    assert "image" in large and large.count("rect") == 1
    assert "svg" not in [tag for tag, _ in drawn(square(400)).elements]


def test_signed_values_scores_and_missing_ones_are_shown():
    signed = drawn(one_row([-0.5, 0.25], ["a", "b"], signed=True, normalised=False))
    assert any("{},{},{}".format(*OVER[1]) in (attributes.get("style") or "") for _, attributes in signed.elements)
    absent = square(3, weights=np.full((1, 3, 3), np.finfo(np.float32).min), quantity="scores")
    assert sum("left out" in text for text in drawn(absent).texts) == 9
    nothing = plain("t", "tokens", [])
    drawn(square(3, weights=np.zeros((1, 0, 0), np.float32), query=nothing, key=nothing))


def test_a_grid_and_the_heads_of_a_map_are_drawn(client: limelight.Client, picture: bytes):
    answer = client.attend("glance", picture)
    assert [tag for tag, _ in drawn(answer).elements].count("svg") == 2
    assert [tag for tag, _ in drawn(answer.maps[0]).elements].count("svg") == 3  # the mean, and two heads


@pytest.fixture
def picture() -> bytes:
    return limelight.Image(np.arange(64, dtype=np.uint8).reshape(8, 8)).data()


def test_an_answer_with_many_maps_or_words_stays_small(client: limelight.Client):
    answer = client.attend("tiny", " ".join(f"word{number}" for number in range(600)))
    many = dataclasses.replace(answer, maps=answer.maps[:2] * 100)
    texts = drawn(many).texts
    assert "21 more maps" in texts and any(text.startswith("and 176 more maps") for text in texts)
    long = client.attend("paper", ". ".join(["It rains a lot"] * 900))
    assert any(re.fullmatch(r"and \d+ more rows", text) for text in drawn(long).texts)
