"""Writes the table of settings in docs/serving.md from `Settings`: `python -m tests.service.settings_table`."""

from dataclasses import fields
from pathlib import Path

from service.settings import Settings
from service.toml import written

PAGE = Path(__file__).parents[2] / "docs" / "serving.md"
_BEGIN, _END = "<!-- settings -->\n", "<!-- end of settings -->\n"


def with_table(page: str) -> str:
    """Give the page with the table that the settings make."""
    lines = ["| setting | default | meaning |", "|---|---|---|"]
    for each in fields(Settings):
        rule = each.metadata["rule"]
        choices = f" One of {', '.join(rule.choices)}." if rule.choices else ""
        default = f"`{written(each.default)}`".replace('"', "") if each.default != "" else ""
        lines.append(f"| `{each.name}` | {default} | {rule.summary}{choices} |")
    before, rest = page.split(_BEGIN)
    return before + _BEGIN + "\n".join(lines) + "\n" + _END + rest.split(_END)[1]


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
