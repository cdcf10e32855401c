"""Writes the atlas, docs/models.md, coverage.md and taxonomy.md, and the tables of settings in docs/serving.md and
SECURITY.md.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from pages import coverage, models, settings, taxonomy
from pages.atlas import written

PAGES: Mapping[Path, Callable[[], str]] = {
    models.PAGE: models.page,
    coverage.PAGE: coverage.page,
    taxonomy.PAGE: taxonomy.page,
    settings.SETTINGS: settings.settings,
    settings.LIMITS: settings.limits,
}

if __name__ == "__main__":
    for path, made in PAGES.items():
        path.write_text(made(), encoding="utf-8")
    written.write()
