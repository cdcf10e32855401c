"""A report as one HTML page that loads nothing and runs nothing."""

from limelight.base.printing import escape_markup as escape
from limelight.cli.bench.plots import Axis, Line, plot
from limelight.cli.evaluate.table import bounds, notes, number
from limelight.evaluation.report import Report, Section
from limelight.evaluation.samples import Figure

_STYLE = """
:root{color-scheme:light dark;--text:#1d2420;--faint:#5b665f;--grid:#d9dfdb;--back:#fff;--one:#2c7a4b;--two:#b4530a}
@media(prefers-color-scheme:dark){:root{--text:#e6ece8;--faint:#98a39c;--grid:#38413c;--back:#161b18;--one:#6cc48f;
--two:#f0a05a}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--text);background:var(--back);max-width:1000px;margin:2rem auto;
padding:0 1rem}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2.2rem}.faint{color:var(--faint)}
.wide{overflow-x:auto}table{border-collapse:collapse;margin:.6rem 0;width:100%}
td,th{padding:.2rem .9rem .2rem 0;text-align:left;border-bottom:1px solid var(--grid);font-variant-numeric:tabular-nums}
svg{height:auto}svg.plot,svg[role=img]{max-width:640px;width:100%}svg.bar{width:140px;height:14px;vertical-align:middle}
svg text{font:12px system-ui,sans-serif;fill:var(--faint);stroke:none}
svg .title{font-weight:600;fill:var(--text)}path{fill:none;stroke-width:2}path.grid{stroke:var(--grid);stroke-width:1}
path.one{stroke:var(--one)}path.two{stroke:var(--two)}svg .name.one{fill:var(--one)}svg .name.two{fill:var(--two)}
.bar path{stroke:var(--one)}.bar path.grid{stroke:var(--grid)}.bar circle{fill:var(--one)}
"""
_ROLES, _ORDERS = ("one", "two"), ("ordered", "random")


def page(report: Report) -> str:
    """Write the page."""
    title = f"{report.model}: what its attention is worth"
    facts = f"Version {report.version}, {report.headline}. {report.started}, {report.seconds:.1f} s."
    head = (
        f'<!doctype html><html lang="en"><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width,initial-scale=1"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style><h1>{escape(title)}</h1><p>{escape(facts)}</p>"
    )
    parts = [head, *(f"<p><strong>{escape(each)}</strong></p>" for each in notes(report))]
    parts.append('<p class="faint">In brackets: 95 % bootstrap intervals over rows.</p>')
    parts += map(_section, report.sections)
    return "".join(parts) + "</html>\n"


def _section(section: Section) -> str:
    head = f"<h2>{escape(section.title)}</h2>"
    if section.skipped:
        return f'{head}<p class="faint">Not computed: {escape(section.skipped)}.</p>'
    source = f' <span class="faint">{escape(section.source)}.</span>' if section.source else ""
    rows = "".join(map(_row, section.figures))
    table = f'<div class="wide"><table><tr><th>of<th>figure<th>value<th>interval<th></tr>{rows}</table></div>'
    drawn = ""
    if section.curves:
        ticks = [(step / 4, f"{step * 25} %") for step in range(5)]
        named = [
            Line(name, each.points, role) for each, name, role in zip(section.curves, _ORDERS, _ROLES, strict=True)
        ]
        title = f"{section.curves[0].name.partition(',')[0].capitalize()}, heads masked by importance or at random"
        drawn = plot(title, named, Axis("masked heads", ticks), Axis(""))
    return f"{head}<p>{escape(section.summary)}{source}</p>{drawn}{table}"


def _row(each: Figure) -> str:
    cells = (each.subject or "model", each.name, number(each.value), bounds(each))
    return f"<tr>{''.join(f'<td>{escape(cell)}' for cell in cells)}<td>{_bar(each)}</tr>"


def _bar(each: Figure) -> str:
    """Draw a figure with its interval on an axis from -1 or 0 to 1; nothing for one beyond it."""
    ends = [each.value, *(end for end in (each.low, each.high) if end is not None)]
    if max(map(abs, ends)) > 1:
        return ""
    least = -1.0 if min(ends) < 0 else 0.0

    def across(value: float) -> float:
        return 5 + 130 * (value - least) / (1 - least)

    axis = f'<path class="grid" d="M5 7H135M{across(0):.1f} 2V12"/>'
    span = ""
    if each.low is not None and each.high is not None:
        span = f'<path d="M{across(each.low):.1f} 7H{across(each.high):.1f}"/>'
    point = f'<circle cx="{across(each.value):.1f}" cy="7" r="3"/>'
    return f'<svg class="bar" viewBox="0 0 140 14" aria-hidden="true">{axis}{span}{point}</svg>'
