"""A report as one self-contained HTML page with plots."""

import math

from limelight.base.printing import escape_markup as escape
from limelight.cli.bench.plots import Axis, Line, plot
from limelight.cli.bench.report import Outcome, Ramp, Report, warnings

_STYLE = """
:root{color-scheme:light dark;--text:#1d2420;--faint:#68736c;--grid:#d9dfdb;--back:#fff;--one:#2c7a4b;--two:#b4530a}
@media(prefers-color-scheme:dark){:root{--text:#e6ece8;--faint:#98a39c;--grid:#38413c;--back:#161b18;--one:#6cc48f;
--two:#f0a05a}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--text);background:var(--back);max-width:1320px;margin:2rem auto;
padding:0 1rem}
h1{font-size:1.4rem}table{border-collapse:collapse;margin:1rem 0}
td,th{padding:.2rem .9rem .2rem 0;text-align:left;border-bottom:1px solid var(--grid);font-variant-numeric:tabular-nums}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,420px),1fr));gap:1rem}
svg{width:100%;height:auto}svg text{font:12px system-ui,sans-serif;fill:var(--faint);stroke:none}
svg .title{font-weight:600;fill:var(--text)}path{fill:none;stroke-width:2}path.grid{stroke:var(--grid);stroke-width:1}
path.one{stroke:var(--one)}path.two{stroke:var(--two)}path.bound{stroke:var(--faint);stroke-dasharray:5 4}
svg .name.one{fill:var(--one)}svg .name.two{fill:var(--two)}
"""


def page(report: Report) -> str:
    """Write the page; it loads nothing."""
    setup, outcome = report.setup, report.outcome
    title = f"{setup.model}: {setup.method} over {setup.protocol}"
    headline = f"{outcome.requests_per_second:,.1f} answers a second"
    if report.ramp:
        headline = f"Knee: {report.ramp.knee:,.1f} calls a second with a p99 of at most {report.ramp.p99_ms:g} ms"
    elif outcome.latency_ms:
        headline += f", p99 {outcome.latency_ms['p99']:,.1f} ms"
    plots = [_ramp_plot(report.ramp)] if report.ramp else []
    plots += [_curve(outcome), _latency_over_time(outcome), _rate_over_time(outcome)]
    notes = "".join(f"<p>{escape(each)}</p>" for each in warnings(outcome))
    facts = {name: value for name, value in vars(setup).items() if value not in ("", (), 0, 0.0, None)}
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
        f"<h1>{escape(title)}</h1><p>{escape(headline)}{' (interrupted)' if outcome.interrupted else ''}</p>{notes}"
        f'<div class="plots">{"".join(plots)}</div>'
        + _table("Latency in ms", {name: f"{value:,.2f}" for name, value in outcome.latency_ms.items()})
        + _table("Calls by status", {name: f"{value:,}" for name, value in outcome.codes.items()})
        + _table("Setup", {"started": report.started, **{name: _plain(value) for name, value in facts.items()}})
        + "</html>\n"
    )


def _curve(outcome: Outcome) -> str:
    # -log10 of the share of slower calls: 50 % at 0.3, 90 % at 1, 99 % at 2.
    points = [(-math.log10(1 - share / 100), value) for share, value in outcome.curve_ms if share < 100]
    ticks = [(-math.log10(1 - share / 100), f"{share:g} %") for share in (0, 50, 90, 99, 99.9, 99.99)]
    return plot(
        "Latency by share of answers", [Line("", points, "one")], Axis("answers at most as slow", ticks), Axis("ms")
    )


def _latency_over_time(outcome: Outcome) -> str:
    p50 = [(each.start + each.seconds / 2, each.p50_ms) for each in outcome.intervals]
    p99 = [(each.start + each.seconds / 2, each.p99_ms) for each in outcome.intervals]
    return plot("Latency over time", [Line("p50", p50, "one"), Line("p99", p99, "two")], Axis("seconds"), Axis("ms"))


def _rate_over_time(outcome: Outcome) -> str:
    answers = [(each.start + each.seconds / 2, each.answers / each.seconds) for each in outcome.intervals]
    errors = [(each.start + each.seconds / 2, each.errors / each.seconds) for each in outcome.intervals]
    lines = [Line("answers", answers, "one")]
    if outcome.errors:
        lines.append(Line("errors", errors, "two"))
    return plot("Answers a second over time", lines, Axis("seconds"), Axis("answers/s"))


def _ramp_plot(ramp: Ramp) -> str:
    # A rate that was measured twice counts by its last measurement.
    steps = [each for _, each in sorted({each.rate: each for each in ramp.steps}.items())]
    # Rates far over the bound would flatten the part of interest.
    most = 4 * ramp.p99_ms
    p50 = [(each.rate, None if each.p50_ms is None else min(each.p50_ms, most)) for each in steps]
    p99 = [(each.rate, most if each.p99_ms is None else min(each.p99_ms, most)) for each in steps]
    bound = [(0.0, ramp.p99_ms), (steps[-1].rate, ramp.p99_ms)]
    lines = [Line("p50", p50, "one"), Line("p99", p99, "two"), Line("bound", bound, "bound")]
    return plot(f"Latency by rate, cut at {most:g} ms", lines, Axis("calls a second"), Axis("ms"))


def _table(title: str, rows: dict[str, str]) -> str:
    if not rows:
        return ""
    cells = "".join(f"<tr><td>{escape(name)}</td><td>{escape(value)}</td></tr>" for name, value in rows.items())
    return f"<table><tr><th colspan=2>{escape(title)}</th></tr>{cells}</table>"


def _plain(value: object) -> str:
    return (
        ", ".join(map(str, value))
        if isinstance(value, tuple)
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
    )
