"""A published model is one file and one line of the index: everything else finds it there."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import limelight
import limelight_models.zoo
from limelight_export.pipeline import export_model
from limelight_models import index
from limelight_models.index import ZOO, Entry
from pages import models as page_of_models
from tests.end_to_end.test_zoo import ask, difference, pytorch
from tests.kit import small
from tests.kit.serving import serving
from tests.models import test_zoo
from tests.models.runs import losses, order, run

ROOT = Path(__file__).resolve().parent.parent.parent
PRODUCT = ("models", "export", "bundle", "client", "service")
ZOO_FOLDER = ROOT / "models" / "limelight_models" / "zoo"
IMPORTED = ROOT / "export" / "limelight_export" / "importing"  # where models of other people have their own names
MADE_UP = "glance"


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A model whose file is in `tests/models/made_up`, as if it were in the zoo, and its line."""
    monkeypatch.setattr(limelight_models.zoo, "__path__", [*limelight_models.zoo.__path__, str(Path(__file__).parent)])
    monkeypatch.setitem(ZOO, MADE_UP, Entry("", "made_up.glance"))
    yield MADE_UP
    small.blueprint.cache_clear()
    small.card.cache_clear()


def test_a_model_is_checked_described_and_listed_by_its_file_and_its_line(made_up: str) -> None:
    assert made_up in index.names()
    test_zoo.test_a_name_leads_to_a_recipe_and_its_card_says_where_the_model_stands(made_up)
    test_zoo.test_a_model_has_the_sizes_of_its_paper(made_up)
    test_zoo.test_controls_and_other_alignments_are_of_equal_size_and_say_what_they_are(made_up)
    test_zoo.test_a_model_gives_the_outputs_and_maps_of_its_card_as_large_as_the_labels_say(made_up)
    test_zoo.test_an_instance_is_answered_the_same_in_any_company(made_up)
    test_zoo.test_without_the_mask_padding_changes_the_answer(made_up)
    row = page_of_models.row(made_up, None)
    assert row[1] == "Glance" and row[3] == "`limelight train glance`" and row[7] == "`pool`"


def test_a_model_is_trained_exported_and_served_by_its_file_and_its_line(made_up: str, tmp_path: Path) -> None:
    data = tmp_path / "texts.tsv"
    data.write_text("".join(f"{'ab'[n % 2]}\t{('sun', 'snow')[n % 2]} all day {n}\n" for n in range(40)))
    run(replace(order(made_up, data, tmp_path / "run"), preset="tiny"))
    assert losses(tmp_path / "run")[-1] < losses(tmp_path / "run")[0]
    torch.manual_seed(0)
    trained = small.trained(made_up)
    export_model(trained, tmp_path / "repository")
    with serving(tmp_path / "repository") as running, limelight.Client(running.server.address) as client:
        answers = ask(client, made_up, trained.examples)
    expected = pytorch(trained, trained.examples)
    assert [difference(answer, sample) for answer, sample in zip(answers, expected, strict=True)] == ["", "", ""]


def naming(model: str) -> re.Pattern[str]:
    """What names a published model in code: a text, or its module."""
    family, _, module = ZOO[model].module.rpartition(".")
    return re.compile(
        rf"[\"']{model}[\"'-]|models\.zoo\.{family}\.{module}\b|models\.zoo\.{family} import .*\b{module}\b"
    )


def test_no_file_but_a_models_own_and_the_index_names_it_and_no_test_lists_them() -> None:
    """Tests of some models name those; what holds for all of them goes through the index."""
    found = {model: naming(model) for model in ZOO}
    files = [file for folder in PRODUCT for file in (ROOT / folder).rglob("*.py")]
    texts = {file: file.read_text(encoding="utf-8") for file in files if IMPORTED not in file.parents}
    assert len(texts) > 400
    for model, pattern in found.items():
        own = ZOO_FOLDER / f"{ZOO[model].module.replace('.', '/')}.py"
        named = {file for file, text in texts.items() if pattern.search(text)}
        assert own in texts and named <= {own, Path(index.__file__)}, model
    for file in (ROOT / "tests").rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        assert sum(pattern.search(text) is not None for pattern in found.values()) <= len(ZOO) // 2, file.name
