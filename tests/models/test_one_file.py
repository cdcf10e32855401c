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
from tests.models import test_controls, test_presets, test_zoo_cards, test_zoo_padding
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
    test_zoo_cards.test_a_model_gives_the_outputs_and_maps_of_its_card_as_large_as_the_labels_say(made_up)
    test_zoo_cards.test_a_card_says_where_the_model_stands(made_up)
    test_zoo_padding.test_an_instance_is_answered_the_same_in_any_company(made_up)
    test_zoo_padding.test_without_the_mask_padding_changes_the_answer(made_up)
    test_controls.test_every_published_model_has_its_controls_of_equal_size(made_up)
    test_presets.test_every_published_model_has_the_sizes_of_its_paper(made_up)
    row = page_of_models.row(made_up)
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


def naming(model: str, text: str) -> bool:
    """Whether code names a published model: as a text, or by its module."""
    family, _, module = ZOO[model].module.rpartition(".")
    found = rf"[\"']{model}[\"'-]|models\.zoo\.{family}\.{module}\b|models\.zoo\.{family} import .*\b{module}\b"
    return re.search(found, text) is not None


@pytest.mark.parametrize("model", ZOO)
def test_no_file_but_a_models_own_and_the_index_names_it(model: str) -> None:
    own = ZOO_FOLDER / f"{ZOO[model].module.replace('.', '/')}.py"
    files = [file for folder in PRODUCT for file in (ROOT / folder).rglob("*.py")]
    files = [file for file in files if file not in (own, Path(index.__file__)) and IMPORTED not in file.parents]
    assert len(files) > 400 and own.is_file()
    assert not [file for file in files if naming(model, file.read_text(encoding="utf-8"))]


def test_no_test_has_a_list_of_the_models() -> None:
    """Tests of some models name those; what holds for all of them goes through the index."""
    texts = {file: file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("*.py")}
    counts = {file: sum(naming(model, text) for model in ZOO) for file, text in texts.items()}
    assert max(counts.values()) > 0
    assert not {file.name: count for file, count in counts.items() if count > len(ZOO) // 2}
