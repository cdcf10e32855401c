"""Pages that state facts about code say what the code says."""

from pathlib import Path

import pytest

from pages.__main__ import PAGES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_is_that_of_the_code(page: Path) -> None:
    assert page.read_text(encoding="utf-8") == PAGES[page](), "run make docs"
