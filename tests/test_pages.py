"""Pages that state facts about code say what the code says; those of measurements can be written from the records."""

from pathlib import Path

import pytest

from benchmarks import performance_page
from hostile import page as reliability
from pages.__main__ import PAGES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_is_that_of_the_code(page: Path) -> None:
    assert page.read_text(encoding="utf-8") == PAGES[page](), "run make docs"


def test_pages_of_measurements_are_filled_from_the_records() -> None:
    for written in (performance_page.page(), performance_page.annex(), reliability.page()):
        assert "|---|" in written
