"""A stranger's checkpoint is imported, served and explained: looking away from "not" turns what it says."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import limelight
from limelight import cli
from limelight_export.importing.huggingface.importer import import_checkpoint
from tests.kit.serving import serving

pytestmark = pytest.mark.timeout(300)

ROOT = Path(__file__).resolve().parent.parent.parent
TEXT = "the music was not boring this time"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of the model of the guide."""
    checkpoint, repository = tmp_path_factory.mktemp("checkpoint") / "negation", tmp_path_factory.mktemp("repository")
    subprocess.run([sys.executable, ROOT / "examples" / "negation.py", checkpoint], check=True, capture_output=True)
    import_checkpoint(checkpoint, repository)
    return repository


@pytest.fixture(scope="module")
def target(repository: Path) -> Iterator[str]:
    with serving(repository) as running:
        yield running.server.address


@pytest.fixture
def run(target: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("LIMELIGHT_TARGET", target)

    def run(*arguments: object) -> tuple[int, str, str]:
        status = cli.main(list(map(str, arguments)))
        return status, *capsys.readouterr()

    return run


def test_looking_away_from_not_turns_the_answer(run: Run, target: str) -> None:
    with limelight.Client(target) as client:
        why = client.explain("negation", TEXT)
        maps = why.ways["look_away"].maps
        away = [limelight.scale_keys(each, limelight.TextSpan(14, 17)) for each in maps]
        turned = client.predict("negation", TEXT, interventions=away)
        usual = client.predict("negation", TEXT.replace("not ", ""))
    assert (why.prediction.label, turned.label, usual.label) == ("good", "bad", "bad")
    assert list(why) == ["attention", "look_away"] and maps == ("encoder.0.self", "encoder.1.self")
    away_from = dict(zip(why.units.labels, why["look_away"], strict=True))
    assert away_from["not"] < -2 and away_from["boring"] < -2
    assert all(abs(change) < 0.1 for word, change in away_from.items() if word not in ("not", "boring"))
    # How far both agree differs from processor to processor: each rounds otherwise, and so another model is learned.
    agreement = why.agreement("attention", "look_away")
    assert agreement.verdict != "disagree"
    told = "agree on 7 words" if agreement.verdict == "agree" else "agree cannot be told from 7 words"
    status, output, _ = run("explain", "negation", TEXT)
    assert status == 0 and f"ttention and looking away {told}: rank correlation {agreement.correlation:.2f}" in output
    lines = [line.split()[0] for line in output.splitlines() if line.startswith(("not ", "boring "))]
    assert sorted(lines) == ["boring", "not"]


def test_of_the_other_class_the_words_speak_against_it(run: Run) -> None:
    ways = [f"--way={each}" for each in ("look-away", "look-only", "erase", "erase-others", "rollout")]
    document = json.loads(run("explain", "negation", TEXT, "--for", "bad", "--json", *ways)[1])
    values = {each["way"]: dict(zip(TEXT.split(), each["values"], strict=True)) for each in document["ways"]}
    assert document["target"]["label"] == "bad" and document["target"]["score"] < -2
    assert values["look_away"]["not"] > 2 and values["erase"]["not"] > 2, "without it, it is bad"
    assert values["erase_others"]["boring"] > 2, "alone, it is bad"
    assert max(values["rollout"], key=lambda word: values["rollout"][word]) in ("not", "boring")


def test_a_record_of_it_is_replayed_on_another_server(run: Run, repository: Path, tmp_path: Path) -> None:
    file = tmp_path / "why.json"
    assert run("explain", "negation", TEXT, "--record", file, "--json")[0] == 0
    with serving(repository) as other:
        status, output, _ = run("replay", file, "--target", other.server.address, "--tolerance", "1e-5")
    assert status == 0 and "holds: no number differs by more than" in output


def test_attention_is_compared_with_looking_away_over_rows(run: Run, repository: Path, tmp_path: Path) -> None:
    texts = [TEXT, "the film was not good", "the plot seemed very clever", "the cast is awful as they say"]
    data, out = tmp_path / "rows.jsonl", tmp_path / "report.json"
    data.write_text("".join(json.dumps({"text": each}) + "\n" for each in texts), encoding="utf-8")
    assert run("evaluate", "negation", "--data", data, "--measure", "erasure", "--out", out)[0] == 0
    (section,) = json.loads(out.read_text(encoding="utf-8"))["sections"]
    found = {(each["subject"], each["name"]): each["value"] for each in section["figures"]}
    assert found["most moving word", "one word moves the answer by"] > 0.2
    assert found["encoder.0.self", "correlation with looking away"] > 0.2
    with serving(repository, max_instances=4) as other:  # rows of a call: few units at once
        again = ("evaluate", "negation", "--data", data, "--measure", "erasure", "--target", other.server.address)
        assert run(*again, "--out", out)[0] == 0
    (section,) = json.loads(out.read_text(encoding="utf-8"))["sections"]
    for each in section["figures"]:
        assert each["value"] == pytest.approx(found[each["subject"], each["name"]], abs=1e-3)
