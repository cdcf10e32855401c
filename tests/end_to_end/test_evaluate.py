"""`limelight evaluate` asks a real server; figures of a model whose attention is known are known."""

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import limelight
from limelight import cli
from limelight.v1 import model_pb2
from limelight_export.pipeline import export_model
from limelight_models.attention import Attention
from limelight_models.attention.score import SelfAttentive
from limelight_models.cards.card import Card
from limelight_models.network import Answer, Network
from tests.kit import small, tiny
from tests.kit.serving import serving

pytestmark = pytest.mark.timeout(300)

TEXTS = (
    "the cat sat on a mat .",
    "a dog ran on the mat .",
    "the dog sat",
    "on the mat sat a cat",
    "a cat",
    "the dog .",
)
CLASSES = ("cat", "dog", "neither")
DEMO = Path(__file__).resolve().parents[2] / "deploy" / "demo"
Run = Callable[..., tuple[int, str, str]]


class Planted(Network):
    """Text -> classes: looks at "cat" and "dog" alone, and answers what it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(tiny.VOCABULARY, tiny.SIZE)
        self.pool = Attention(score=SelfAttentive(d_k=tiny.SIZE, d_w=1))
        self.classify = nn.Linear(tiny.SIZE, 3)
        for parameter in self.parameters():
            nn.init.zeros_(parameter)
        cat, dog = (4 + tiny.WORDS.index(word) for word in ("cat", "dog"))
        with torch.no_grad():
            self.embedding.weight[[cat, dog], 0] = 1.0
            self.embedding.weight[cat, 1], self.embedding.weight[dog, 1] = 1.0, -1.0
            for parameter in self.pool.score.key_map.parameters():
                parameter.view(-1)[0] = 1.0
            for parameter in self.pool.score.importance.parameters():
                parameter.fill_(500.0)
            self.classify.weight[0, 1], self.classify.weight[1, 1] = 8.0, -8.0

    def forward(self, **tensors: Tensor) -> Answer:
        words, mask = self.embedding(tensors["ids"]).unsqueeze(1), tensors["ids_mask"][:, None, None, :]
        pooled, pool = self.pool(None, words, mask=mask)
        return Answer({"logits": self.classify(pooled[:, 0, 0])}, {"pool": pool[:, :, 0]})


def classifying(card: Card) -> Card:
    """A card whose answer is one of three classes."""
    description = card.description
    description.task = model_pb2.TASK_CLASSIFICATION
    classes = model_pb2.ClassesDescription(output="logits", labels=CLASSES, activation=model_pb2.ACTIVATION_SOFTMAX)
    description.results.add(name="class", classes=classes)
    return card


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    repository = tmp_path_factory.mktemp("evaluated")
    maps = {"pool": (tiny.a_map("one", "words"), (tiny.BATCH, tiny.HEAD, tiny.KEY))}
    planted = classifying(tiny.card("planted", maps=maps))
    export_model(tiny.trained(Planted(), planted, *TEXTS[:2]), repository)
    torch.manual_seed(0)
    export_model(
        tiny.trained(tiny.Reader(), classifying(tiny.reader_card()), *TEXTS[:2]), repository, interventions=False
    )
    writer = small.trained("bahdanau")
    with torch.no_grad():
        for parameter in writer.model.parameters():
            parameter.mul_(6)  # it is sure of where it looks and what it writes
    export_model(writer, repository)
    shutil.copytree(DEMO / "slips", repository / "slips")
    without_interventions(repository / "slips" / "1" / "bundle.json", "word")
    with serving(repository) as running:
        yield running.server.address


def without_interventions(file: Path, name: str) -> None:
    """Take the interventions of one map out of a bundle's description."""
    bundle = json.loads(file.read_text(encoding="utf-8"))
    for each in bundle["maps"]:
        if each["map"] == name:
            for field in ("head_scales", "key_factors", "masked_output", "weights_inputs"):
                del each[field]
    (described,) = (each for each in bundle["description"]["maps"] if each["name"] == name)
    described["interventions"] = []
    file.write_text(json.dumps(bundle), encoding="utf-8")


@pytest.fixture
def run(target: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("LIMELIGHT_TARGET", target)

    def run(*arguments: object) -> tuple[int, str, str]:
        status = cli.main(["evaluate", *map(str, arguments)])
        return status, *capsys.readouterr()

    return run


def rows(*, beside: int = 0) -> list[dict[str, Any]]:
    """Rows with evidence: the animal, or characters beside it."""
    found = []
    for text in TEXTS:
        animal = "cat" if "cat" in text else "dog"
        start = text.index(animal) - beside
        found.append({"text": text, "label": animal, "evidence": [[start, start + 1]]})
    return found


def written(folder: Path, rows: Iterable[Any]) -> Path:
    file = folder / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return file


def figures(report: dict[str, Any], measure: str, subject: str = "pool") -> dict[str, float]:
    """The values of a measure by name."""
    (section,) = (each for each in report["sections"] if each["name"] == measure)
    assert not section["skipped"]
    return {each["name"]: each["value"] for each in section["figures"] if each["subject"] == subject}


def test_a_model_that_looks_where_it_should_has_the_figures_of_one(run: Run, tmp_path: Path) -> None:
    out, html = tmp_path / "report.json", tmp_path / "report.html"
    status, output, errors = run("planted", "--data", written(tmp_path, rows()), "--out", out, "--html", html)
    assert (status, errors) == (0, "")
    report = json.loads(out.read_text(encoding="utf-8"))
    assert (report["rows"], report["sampled"], report["answered"], report["failures"]) == (6, 6, 6, [])
    assert figures(report, "answers", "") == {"accuracy": 1, "macro F1": 1}
    assert figures(report, "evidence")["AUPRC"] == figures(report, "evidence")["weight on marks"] == 1
    assert figures(report, "entropy")["entropy"] == pytest.approx(0, abs=1e-6)
    # Equal weights leave the sign of the animal's mark, so each answer stays, less surely.
    uniform = figures(report, "uniform")
    assert uniform["answers changed"] == 0 and uniform["answer moves by"] > 0.02
    # Nothing but the animal's word moves the answer, and no other word does.
    assert figures(report, "erasure")["one word moves the answer by"] == pytest.approx(
        figures(report, "erasure", "most moving word")["one word moves the answer by"]
    )
    assert figures(report, "erasure")["sufficiency"] == pytest.approx(0, abs=1e-5)
    assert figures(report, "erasure")["comprehensiveness"] == pytest.approx(1 - 1 / 3, abs=0.01)
    assert figures(report, "erasure")["correlation with leave-one-out"] > 0.5
    # A masked head leaves three equal classes.
    assert figures(report, "heads", "pool:0")["probability lost"] == pytest.approx(1 - 1 / 3, abs=0.01)
    assert figures(report, "permuted")["answer moves by"] > 0.3
    skipped = {each["name"]: each["skipped"] for each in report["sections"] if each["skipped"]}
    assert set(skipped) == {"flow", "effective", "pictures"} and "no stack has two layers" in skipped["flow"]
    assert "accuracy" in output and "[1.000, 1.000] (6 rows)" in output
    page = html.read_text(encoding="utf-8")
    HTMLParser().feed(page)
    assert "Equal weights" in page and "<script" not in page and "http" not in page


def test_a_model_that_writes_is_asked_for_its_answer_and_for_the_first_one_again(
    run: Run, target: str, tmp_path: Path
) -> None:
    out, name, model = tmp_path / "report.json", "decoder.cross", "bahdanau"
    changes = {
        "uniform": (name, limelight.replace(name, "uniform")),
        "heads": (f"{name}:0", limelight.scale_heads(name, {0: 0})),
    }
    asked, wanted = [], {each: list[list[float]]() for each in changes}
    with limelight.Client(target) as client:
        for example in client.model(model).examples:
            text = example.inputs["text"].text
            answer = client.predict(model, text).text or ""
            asked.append({"text": text, "label": answer})
            given = {"text": text, "target": answer}
            for measure, (_, change) in changes.items():
                logs = [
                    np.array(
                        client.predict(model, given, interventions=each, truncate=True).sequences[0].log_probabilities
                    )
                    for each in ([], [change])
                ]
                changed = client.predict(model, text, interventions=[change]).text != answer
                wanted[measure].append(
                    [changed, np.abs(np.diff(np.exp(logs), axis=0)).mean(), -np.diff(logs, axis=0).mean()]
                )
    assert run(model, "--data", written(tmp_path, asked), "--out", out)[0] == 0
    report = json.loads(out.read_text(encoding="utf-8"))
    assert figures(report, "answers", "")["exact match"] == 1 and report["failures"] == []
    for measure, (subject, _) in changes.items():
        mine = figures(report, measure, subject)
        values = [mine[each] for each in ("answers changed", "answer moves by", "log-probability lost")]
        assert values == pytest.approx(np.mean(wanted[measure], axis=0), rel=1e-3)
        assert mine["exact match lost"] == mine["answers changed"] and mine["answer moves by"] > 0.01
    assert figures(report, "heads", f"{name}:0")["answers changed"] > 0
    assert 0 < figures(report, "permuted", name)["answer moves by"] <= 1
    assert figures(report, "erasure", name)["one word moves the answer by"] > 0


def test_marks_where_nobody_looks_have_no_weight(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "report.json"
    data = written(tmp_path, rows(beside=2))
    assert run("planted", "--data", data, "--out", out, "--measure", "evidence")[0] == 0
    found = figures(json.loads(out.read_text(encoding="utf-8")), "evidence")
    assert found["weight on marks"] == pytest.approx(0, abs=1e-6) and found["rank correlation"] < 0


def test_without_interventions_one_line_says_how_to_get_the_rest(run: Run, tmp_path: Path) -> None:
    status, output, _ = run("reader", "--data", written(tmp_path, [{"text": text} for text in TEXTS]))
    assert status == 0 and "Right answers: not computed: the data state no expected answers" in output
    assert output.count("no map takes interventions: the bundle was made with --no-interventions; make it without") == 3
    assert "Erasure of words (" in output and "Entropy of attention (" in output


def test_words_are_not_looked_away_from_where_only_maps_of_sentences_can(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "report.json"
    data = DEMO.parents[1] / "examples" / "slips.jsonl"
    status, _, _ = run("slips", "--data", data, "--limit", 3, "--out", out)
    report = json.loads(out.read_text(encoding="utf-8"))
    assert status == 0 and not report["failures"]
    assert "correlation with leave-one-out" in figures(report, "erasure", "word")
    assert "correlation with looking away" not in figures(report, "erasure", "word")


def test_rows_that_fail_are_named_and_the_rest_is_measured(run: Run, tmp_path: Path) -> None:
    bad = [{"txt": "a"}, {"text": "a cat", "label": "cat", "evidence": [[4, 9]]}, {"text": "", "label": "cat"}]
    out = tmp_path / "report.json"
    status, output, _ = run("planted", "--data", written(tmp_path, [*bad, *rows()]), "--out", out)
    assert status == 1 and "9 rows; only 6 of them were answered" in output
    report = json.loads(out.read_text(encoding="utf-8"))
    assert [each["line"] for each in report["failures"]] == [1, 2, 3]
    assert "not within the 5 characters" in report["failures"][1]["message"]
    assert figures(report, "answers", "")["accuracy"] == 1


def test_rows_are_drawn_by_a_seed(run: Run, tmp_path: Path) -> None:
    data, reports = written(tmp_path, rows()), []
    for seed in (3, 3):
        out = tmp_path / "report.json"
        assert run("planted", "--data", data, "--limit", 4, "--seed", seed, "--out", out)[0] == 0
        reports.append(json.loads(out.read_text(encoding="utf-8")))
    one, again = ({**each, "started": "", "seconds": 0} for each in reports)
    assert one == again and (one["rows"], one["sampled"], one["seed"]) == (6, 4, 3)


@pytest.mark.parametrize(
    ("content", "options", "said"),
    [
        ([], (), "has no rows"),
        ([{"text": "a cat", "label": "horse"}], (), "no expected answer, such as 'horse', is a class of 'planted'"),
        ([{"text": "a cat", "label": 1.5}], (), "line 1: the expected answer is a text or a whole number, not float"),
        ([{"text": "a cat", "evidence": [["a"]]}], (), "line 1: evidence ['a'] is none of [start, end] in a text"),
        ([{"text": "a cat", "evidence": [[0, 1, 2, 3]]}], (), "is for no input of this row"),
        ([{"text": "a cat", "evidence": "cat"}], (), "line 1: evidence is not JSON"),
        ([{"text": "a cat"}], ("--label", "gold"), "--label: no row of"),
        ([{"text": "a cat"}], ("--measure", "worth"), "--measure: there is no measure 'worth'; there are answers,"),
        ([{"text": "a cat"}], ("--out", "nowhere/report.json"), "there is no folder nowhere"),
    ],
)
def test_data_that_cannot_be_evaluated_get_one_line(
    run: Run, tmp_path: Path, content: list[Any], options: tuple[str, ...], said: str
) -> None:
    status, output, errors = run("planted", "--data", written(tmp_path, content), *options)
    assert status in (1, 2) and output == ""
    assert said in errors and errors.count("\n") == 1
