"""A report as text."""

from collections.abc import Iterator, Sequence

from limelight.base.counts import counted
from limelight.evaluation.report import Report, Section
from limelight.evaluation.samples import Figure

MOST = 8  # subjects of a measure that are printed
_LINES = 5  # failures that are named


def lines(report: Report) -> Iterator[str]:
    """Yield the lines of a report for a person."""
    yield f"{report.model} version {report.version}, {report.headline}, {report.seconds:.1f} s"
    yield from notes(report)
    for section in report.sections:
        yield ""
        if section.skipped:
            yield f"{section.title}: not computed: {section.skipped}"
            continue
        yield f"{section.title} ({section.source})" if section.source else section.title
        shown, hidden = subjects(section)
        names = {each.subject: each.subject or "model" for each in section.figures}
        width = max(len(names[each]) for each in shown)
        for subject in shown:
            for each in section.figures:
                if each.subject == subject:
                    yield f"  {names[subject]:<{width}}  {each.name:<30}  {number(each.value):>7} {bounds(each)}"
        if hidden:
            yield f"  and {hidden} more in --out and --html"
        for curve in section.curves:
            points = ", ".join(f"{x:.0%} {y:.3f}" for x, y in curve.points)
            yield f"  {curve.name}, by share of masked heads: {points}"


def notes(report: Report) -> Iterator[str]:
    """Yield what makes a report incomplete."""
    if report.stopped:
        yield f"Rows after the first {report.answered:,} were not asked for: {report.stopped}"
    if report.failures:
        named = "; ".join(f"line {each.line}: {each.message}" for each in report.failures[:_LINES])
        more = "; …" if len(report.failures) > _LINES else ""
        yield f"{len(report.failures):,} errors: {named}{more}"


def subjects(section: Section) -> tuple[Sequence[str], int]:
    """Return the subjects to print, and the number of others: of heads, those that move the answer most."""
    found = list(dict.fromkeys(each.subject for each in section.figures))
    if len(found) <= MOST:
        return found, 0
    moves = {each.subject: each.value for each in section.figures if each.name == "answer moves by"}
    if moves:
        found.sort(key=lambda subject: -moves.get(subject, 0.0))
    return found[:MOST], len(found) - MOST


def number(value: float) -> str:
    """Format a value."""
    return f"{value:.3f}" if abs(value) < 100 else f"{value:,.1f}"


def bounds(figure: Figure) -> str:
    """Format the interval of a figure and its number of rows."""
    if figure.low is None or figure.high is None:
        return f"({counted(figure.rows, 'row')})"
    return f"[{number(figure.low)}, {number(figure.high)}] ({counted(figure.rows, 'row')})"
