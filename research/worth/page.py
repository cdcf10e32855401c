"""The page of the figures, of the reports of `limelight evaluate`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Report = Mapping[str, Any]
# Of each measure, the figures that the page has.
SHOWN = {
    "answers": ("accuracy", "exact match"),
    "evidence": ("rank correlation", "AUPRC", "marked share of keys", "weight on marks"),
    "entropy": ("entropy", "correlation with confidence", "correlation with error"),
    "uniform": ("answers changed", "answer moves by", "log-probability lost"),
    "permuted": ("answers changed", "answer moves by", "divergence that keeps the answer"),
    "erasure": ("one word moves the answer by", "comprehensiveness", "sufficiency", "correlation with leave-one-out"),
    "flow": ("rank correlation",),
}


def page(reports: Sequence[Report], command: str, sets: Mapping[str, str]) -> str:
    """Write the page. sets: what each model is and reads, by the name of the model."""
    lines = [
        "# What the weights of the demo's models are worth: the tables",
        "",
        f"The figures behind [the page](../worth.md), written by `{command}`. "
        "In brackets: 95 % bootstrap intervals over rows.",
        "",
        "| model | what it is | rows | seconds |",
        "|---|---|---|---|",
        *(
            f"| `{each['model']}` | {sets[each['model']]} | {each['answered']} | {each['seconds']:.0f} |"
            for each in reports
        ),
    ]
    for measure, names in SHOWN.items():
        lines += _section(reports, measure, names)
    lines += _curves(reports)
    return "\n".join(lines) + "\n"


def _section(reports: Sequence[Report], measure: str, names: Sequence[str]) -> Iterator[str]:
    found = [(report, section) for report in reports for section in report["sections"] if section["name"] == measure]
    computed = [(report, section) for report, section in found if not section["skipped"]]
    if not computed:
        return
    first = computed[0][1]
    yield from (
        "",
        f"## {first['title']}",
        "",
        " ".join(filter(None, (first["summary"], first["source"] and f"{first['source']}."))),
        "",
    )
    there = [name for name in names if any(each["name"] == name for _, one in computed for each in one["figures"])]
    yield f"| model | of | {' | '.join(there)} |"
    yield "|---" * (len(there) + 2) + "|"
    for report, section in computed:
        for subject in dict.fromkeys(each["subject"] for each in section["figures"]):
            figures = {each["name"]: each for each in section["figures"] if each["subject"] == subject}
            if set(figures) & set(there):
                cells = " | ".join(_cell(figures.get(name)) for name in there)
                yield f"| `{report['model']}` | {f'`{subject}`' if subject else 'answers'} | {cells} |"
    skipped = [(report["model"], section["skipped"]) for report, section in found if section["skipped"]]
    reasons = dict.fromkeys(reason for _, reason in skipped)
    for reason in reasons:
        models = ", ".join(f"`{model}`" for model, its in skipped if its == reason)
        yield from ("", f"Not for {models}: {reason}.")


def _cell(figure: Mapping[str, Any] | None) -> str:
    if figure is None:
        return ""
    if figure["low"] is None:
        return f"{figure['value']:.2f}"
    return f"{figure['value']:.2f} [{figure['low']:.2f}, {figure['high']:.2f}]"


def _curves(reports: Sequence[Report]) -> Iterator[str]:
    for report in reports:
        for section in report["sections"]:
            if not section["curves"]:
                continue
            shares = [f"{x:.0%}" for x, _ in section["curves"][0]["points"]]
            yield from ("", f"## Pruning the heads of `{report['model']}`", "", f"{section['summary']}", "")
            yield f"| masked heads | {' | '.join(shares)} |"
            yield "|---" * (len(shares) + 1) + "|"
            for curve in section["curves"]:
                yield f"| {curve['name']} | {' | '.join(f'{y:.2f}' for _, y in curve['points'])} |"
