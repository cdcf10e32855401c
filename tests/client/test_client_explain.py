"""Explanations in Python: what the server says of every task, as arrays, tables, pages, pictures and files."""

import asyncio
import copy
import json
import math
import pickle
import random
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from PIL import Image

import limelight
from limelight import calls, requests
from limelight.cli.render_terminal import plain
from limelight.explanations import read_explanation
from limelight.figures import figures as figures_of_maps
from limelight.unit_figures import figures
from limelight.v1 import attention_pb2, service_pb2, values_pb2
from tests.client.served import DOCUMENT, PICTURE, SENTENCES, TEXT, tiny
from tests.client.test_client_notebook import drawn
from tests.kit import bundles
from tests.kit.bundles import LABELS, softmax
from tests.kit.forwarder import Forwarder
from tests.kit.serving import serving

INPUTS: dict[str, Any] = {
    "tiny": TEXT,
    "paper": DOCUMENT,
    "echo": TEXT,
    "glance": limelight.Image(PICTURE),
    "asked": {"image": limelight.Image(PICTURE), "question": "the cat"},
    "pair": ("the cat", "a dog ran"),
    "report": TEXT,
}


@pytest.mark.parametrize("model", INPUTS)
def test_every_task_is_explained_shown_saved_and_read_again(client: limelight.Client, model: str, tmp_path: Path):
    why = client.explain(model, INPUTS[model])
    assert list(why) == ["attention", "erase"] == list(why.keys()) and len(why) == 2
    assert why.rows == 1 + len(why.units) and why.target.score_kind == "log_probability"
    assert why["erase"].dtype == np.float64 and why["erase"].shape == (len(why.units),) and why["erase"].any()
    assert not why["attention"].flags.writeable and why["attention"].min() >= 0
    assert why.prediction.provenance.model == model
    frame = why.to_pandas()
    assert list(frame["unit"]) == list(why.units.labels) and list(frame["erase"]) == list(why["erase"])
    document = json.loads(json.dumps(why.to_dict()))
    assert document["ways"][1]["values"] == list(why["erase"]) and document["sentence"] == why.sentence
    texts = " ".join(drawn(why).texts)
    assert why.sentence in texts and why.prediction.heading in texts
    for name in ("why.npz", "why.png", "why.html"):
        why.save(tmp_path / name, image=INPUTS["glance"].data() if "image" in why.units.inputs else None)
    read = limelight.load(tmp_path / "why.npz")
    assert read == why == pickle.loads(pickle.dumps(why)) == copy.deepcopy(why) and repr(read) == repr(why)
    page = (tmp_path / "why.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>") and why.sentence in page
    assert ("<img" in page) == ("image" in why.units.inputs) and "<script" not in page and "http" not in page
    with Image.open(tmp_path / "why.png") as picture:
        assert picture.width > 300


def test_the_numbers_are_those_of_the_same_change_asked_alone(client: limelight.Client):
    why, answer = client.explain("tiny", TEXT), client.attend("tiny", TEXT)
    words = TEXT.split()
    assert why.units.labels == tuple(words) and why.unit_kind == "words" and why.texts == {"text": TEXT}
    assert why.target.label == answer.label == LABELS[why.target.index or 0]
    assert why.target.score == pytest.approx(math.log(answer.probability or 0), abs=1e-6)
    maps = [each.weights.mean(axis=(0, 1)) for each in answer.maps]
    assert why.ways["attention"].maps == tuple(answer) and why.ways["erase"].maps == ()
    np.testing.assert_allclose(why["attention"], np.mean(maps, axis=0), atol=1e-6)
    for place, change in enumerate(why["erase"]):
        erased = " ".join("unheard" if at == place else word for at, word in enumerate(words))
        chance = softmax(tiny(erased).outputs["logits"].astype(np.float64))[why.target.index or 0]
        assert change == pytest.approx(math.log(chance) - why.target.score, abs=1e-4)


def test_the_asynchronous_client_explains_alike_and_several_at_once(server: Forwarder, client: limelight.Client):
    async def asked() -> list[limelight.Explanation]:
        async with limelight.AsyncClient(server.target) as other:
            return await other.explain("tiny", [TEXT, "a dog"], ways="erase", timeout=20)

    for mine, theirs in zip(client.explain("tiny", [TEXT, "a dog"], ways="erase"), asyncio.run(asked()), strict=True):
        assert mine.units == theirs.units and list(mine) == ["erase"] and mine.sentence == ""
        np.testing.assert_allclose(mine["erase"], theirs["erase"], atol=1e-5)


def test_without_pillow_a_picture_says_what_to_install(
    client: limelight.Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ModuleNotFoundError, match=r"a picture needs PIL.*limelight-client\[cli\]"):
        client.explain("tiny", TEXT).save(tmp_path / "why.png")


def test_options_go_onto_the_wire(server: Forwarder, client: limelight.Client):
    client.explain("tiny", TEXT, target="lively", units="tokens", ways=["attention", "erase"], maps="pool", heads=[0])
    asked = server.requests[-1]
    assert (asked.target.label, asked.units.kind) == ("lively", service_pb2.UNIT_KIND_TOKENS)
    assert list(asked.ways) == [service_pb2.WAY_ATTENTION, service_pb2.WAY_ERASE]
    assert asked.selections == [attention_pb2.MapSelection(names=["pool"], heads=[0])]
    groups = {"animal": limelight.TextSpan(4, 7), "rest": [0, 2]}
    why = client.explain("tiny", TEXT, target=2, units=limelight.Grouping(groups=groups, label_set="tokens"))
    asked = server.requests[-1]
    assert (asked.target.index, asked.units.label_set) == (2, "tokens")
    assert [each.name for each in asked.units.groups] == list(why.units.labels) == ["animal", "rest"]
    assert (why.unit_kind, why.target.label) == ("units", LABELS[2])
    forced = client.explain("echo", TEXT, target=limelight.Target(text="a mat", entry=-1), units=groups)
    assert (forced.target.entry, forced.target.label) == (1, "mat") and forced.prediction.text != "a mat"
    client.explain("pair", ("the cat", "a dog ran"), unit_inputs="pair.second", unit_size=0)
    assert server.requests[-1].units.inputs == ["pair.second"] and len(client.explain("pair", ("a", "b")).units) == 2
    client.explain("report", TEXT, target=limelight.Target(result="place", span=limelight.TextSpan(0, 3)))
    assert server.requests[-1].target.span == values_pb2.TextSpan(start=0, end=3)
    near = client.explain("report", TEXT, target=limelight.Target(result="vector", similar_to="a dog"))
    assert server.requests[-1].target.similar_to.inputs["text"].text == "a dog"
    assert near.target.score_kind == "similarity" and -1 <= near.target.score <= 1


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"unit": "words"}, TypeError, r"explain\(\) has no option 'unit'; did you mean 'units'\?"),
        ({"units": "word"}, ValueError, "units is one of 'words', 'sentences'"),
        ({"ways": "delete"}, ValueError, "a way is one of 'attention', 'rollout', 'look_away'"),
        ({"target": limelight.Target(label="a", index=0)}, ValueError, "a target has one of .* not label and index"),
        ({"maps": "pool", "selections": [limelight.Selection()]}, ValueError, "either `selections` or the fields"),
        ({"target": "joyful"}, limelight.InvalidArgument, "joyful"),
        ({"ways": "look_away"}, limelight.InvalidArgument, "WAY_LOOK_AWAY.*WAY_ERASE"),
        ({"units": "patches"}, limelight.InvalidArgument, "units.kind"),
        ({"units": {"far": limelight.TextSpan(90, 99)}}, limelight.InvalidArgument, "units.groups"),
    ],
)
def test_what_cannot_be_explained_is_said(
    client: limelight.Client, options: dict[str, Any], error: type[Exception], message: str
):
    with pytest.raises(error, match=message):
        client.explain("tiny", TEXT, **options)


def test_a_way_that_is_not_there_names_those_that_are(client: limelight.Client):
    why = client.explain("tiny", TEXT)
    assert why.agreement("erase", "attention") is why.agreements[0]
    with pytest.raises(KeyError, match=r"no way 'look_away'.*it has attention, erase"):
        why["look_away"]
    with pytest.raises(KeyError, match="no agreement of 'erase' and 'erase'"):
        why.agreement("erase", "erase")


def made(units: attention_pb2.LabelSet, instance: values_pb2.Instance, *, agree: float | None = 0.9) -> Any:
    """An explanation of made-up numbers, by attention and looking away; agree: None for no correlation."""
    message = service_pb2.Explanation(rows=units.size + 1, units=units)
    message.target.MergeFrom(service_pb2.ExplainedTarget(label="good", score_kind=1, score=-0.5))  # type: ignore[arg-type]
    values = np.linspace(0, 1, units.size)
    message.ways.add(way=service_pb2.WAY_ATTENTION, values=values, maps=["a", "b"])
    message.ways.add(way=service_pb2.WAY_LOOK_AWAY, values=0.5 - values, maps=["a"])
    given = {} if agree is None else {"correlation": agree, "low": agree - 0.2, "high": agree + 0.05}
    message.agreements.add(first=service_pb2.WAY_LOOK_AWAY, second=service_pb2.WAY_ATTENTION, **given)
    return read_explanation(message, instance, service_pb2.UnitOptions(kind=service_pb2.UNIT_KIND_WORDS))


def words(*spans: tuple[int, int], **columns: Any) -> attention_pb2.LabelSet:
    """Units of a text by their places."""
    return attention_pb2.LabelSet(
        name="units", kind=attention_pb2.LABEL_KIND_GROUPS, size=len(spans), starts=[start for start, _ in spans],
        ends=[end for _, end in spans], **{"texts": ["w"] * len(spans), "inputs": ["text"], **columns},
    )  # fmt: skip


def sent(**inputs: Any) -> values_pb2.Instance:
    return requests.explain_request("m", inputs).instances[0]


@pytest.mark.parametrize(
    ("agree", "verdict", "said"),
    [
        (
            0.9,
            "agree",
            "Looking away and attention agree on 3 words: rank correlation 0.90 (95 % interval 0.70 to 0.95).",
        ),
        (-0.9, "disagree", "Looking away and attention disagree on 3 words: rank correlation -0.90"),
        (
            0.1,
            "cannot tell",
            "Whether looking away and attention agree cannot be told from 3 words: rank correlation 0.10",
        ),
        (None, "cannot tell", "cannot be told from 3 words: one of them is the same for all."),
    ],
)
def test_one_sentence_says_whether_attention_and_looking_away_agree(agree: float | None, verdict: str, said: str):
    why = made(words((0, 1), (2, 3), (4, 5)), sent(text="a b c"), agree=agree)
    assert why.agreement("attention", "look_away").verdict == verdict and said in why.sentence
    assert why.to_dict()["agreements"][0]["verdict"] == verdict


def test_a_text_is_shown_as_it_was_sent_with_what_stands_between_and_after_its_units():
    why = made(words((8, 11), (2, 5)), sent(text="- abc\n  def."))
    attention, away = figures(why)
    (row,) = attention.rows
    assert (row.gaps, row.pieces, row.rest) == (("- ", "\n  "), ("abc", "def"), ".")
    assert row.weights.tolist() == [1, 0] and away.rows[0].weights.tolist() == [-0.5, 0.5], "by their places"
    assert away.scale.strengths(away.shaded[0]).tolist() == [1, -1], "a loss is blue"
    assert away.scale.ends == ("0.5", "-0.5") and attention.scale.is_relative


def test_units_that_overlap_or_are_of_several_texts_are_shown():
    over = made(words((0, 3), (2, 5)), sent(text="abcde"))
    assert [row.pieces for each in figures(over) for row in each.rows] == [("w", "w")] * 2
    pair = made(
        words((0, 1), (0, 1), (2, 3), inputs=["p.first", "p.second"], input_indices=[0, 1, 1]), sent(p=("a", "b c"))
    )
    assert [(row.label, row.pieces, row.rest) for row in next(figures(pair)).rows] == [
        ("p.first", ("a",), ""),
        ("p.second", ("b", "c"), ""),
    ]
    listed = made(words((0, 1), (0, 1), parents=[0, 1], parent="sentences"), sent(text=limelight.Document(["a", "b"])))
    assert [row.pieces for row in next(figures(listed)).rows] == [("w",), ("w",)]


def test_sentences_are_read_from_a_document(client: limelight.Client):
    why = client.explain("paper", DOCUMENT, units="sentences")
    assert why.units.labels == SENTENCES and why.unit_kind == "sentences"
    listed = client.explain("paper", limelight.Document(SENTENCES), units="words")
    assert [len(row.words) for row in next(figures(listed)).rows] == [4, 4]
    assert listed.units.parents.tolist() == [0] * 4 + [1] * 4


def test_an_inconsistent_answer_is_refused():
    request = requests.explain_request("m", {"text": "a b"})
    message = service_pb2.ExplainResponse()
    with pytest.raises(limelight.Internal, match="0 answers for 1 instances"):
        calls.read(calls.explained(request), message)
    message.explanations.add(units=words((0, 1), (2, 3))).ways.add(way=service_pb2.WAY_ERASE, values=[0.5])
    with pytest.raises(limelight.Internal, match="way 'erase' has 1 values for 2 units"):
        calls.read(calls.explained(request), message)


def test_an_explanation_with_other_bytes_is_shown_or_an_error():
    chance, read_ones = random.Random(0), 0
    names = ["a", "b", "row 0, column 0", "row 0, column 1"]
    columns = {"inputs": ["text", "image"], "input_indices": [0, 0, 1, 1], "parents": [0, 1, 0, 0], "texts": names}
    message = service_pb2.Explanation(rows=5, units=words((0, 1), (2, 3), (0, 0), (0, 0), **columns))
    message.target.label, message.target.index, message.target.entry = "good", 1, 2
    for way in (service_pb2.WAY_ATTENTION, service_pb2.WAY_ERASE):
        message.ways.add(way=way, values=[0.5, -0.5, 0.25, 0], maps=["a"])
    numbers = {"correlation": 0.5, "low": 0, "high": 1}
    message.agreements.add(first=service_pb2.WAY_ATTENTION, second=service_pb2.WAY_ERASE, **numbers)
    whole = service_pb2.ExplainResponse(explanations=[message]).SerializeToString()
    call = calls.explained(requests.explain_request("m", {"text": "a b c"}))
    assert list(calls.read(call, service_pb2.ExplainResponse.FromString(whole))[0]) == ["attention", "erase"]
    for _ in range(1000):
        data = bytearray(whole)
        for _ in range(chance.choice([1, 2, 8])):
            data[chance.randrange(len(data))] = chance.choice([0, 1, 2, 127, 128, 255, chance.randrange(256)])
        try:
            (why,) = calls.read(call, service_pb2.ExplainResponse.FromString(bytes(data)))
        except (DecodeError, limelight.Internal):
            continue
        assert [repr(why), why._repr_html_(), why.to_dict(), *(list(plain(each)) for each in figures(why))]
        read_ones += 1
    assert read_ones > 10


def test_a_grid_of_patches_is_a_heat_map(client: limelight.Client):
    why = client.explain("glance", INPUTS["glance"])
    for each in figures(why):
        assert each.heat is not None and each.heat.cells.size == len(why.units)
        assert each.heat.region == limelight.Region(0, 0, 8, 8)
    (whole,) = figures_of_maps(client.attend("glance", INPUTS["glance"], maps="encoder.0.self").maps)
    assert whole.heat is not None and re.match(r"attention · share, mean of \d maps$", next(figures(why)).title)


def test_patches_beside_words_have_a_grid_of_their_own():
    cells = [f"row {row}, column {column}" for row in range(2) for column in range(3)]
    places = {"inputs": ["text", "image"], "input_indices": [0, *[1] * 6], "texts": ["what?", *cells]}
    texts, patches, *_ = figures(made(words((0, 5), *[(0, 0)] * 6, **places), sent(text="what?")))
    assert texts.rows[0].pieces == ("what?",) and texts.heat is None and not patches.rows
    assert patches.heat is not None and patches.heat.cells.tolist() == pytest.approx(np.arange(1, 7).reshape(2, 3) / 6)
    places["texts"][-1] = "row 1, column 7"
    (texts, patches, *_) = figures(made(words((0, 5), *[(0, 0)] * 6, **places), sent(text="what?")))
    assert patches.heat is None and len(patches.rows[0].words) == 6, "no whole grid"


def test_nodes_and_numbers_are_explained(tmp_path: Path):
    bundles.web(tmp_path)
    bundles.picture(tmp_path)
    with serving(tmp_path) as running, limelight.Client(running.server.address) as client:
        nodes = client.explain("web", client.model("web").examples[0])
        number = client.explain("picture", client.model("picture").examples[0], target="weight", ways="erase")
        usual = client.predict("picture", client.model("picture").examples[0])
    assert nodes.unit_kind == "nodes" and nodes.target.score_kind == "log_probability"
    assert [row.words for row in next(figures(nodes)).rows] == [nodes.units.labels]
    assert (number.target.label, number.target.score_kind) == ("weight", "value")
    assert number.target.score == pytest.approx(usual.numbers[1].value, rel=1e-5) and number["erase"].shape == (4,)
