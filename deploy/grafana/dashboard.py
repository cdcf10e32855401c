"""Writes the dashboard beside this file: `python deploy/grafana/dashboard.py`.

Panels are data: a title, a unit, queries, and how to read them. Every query is evaluated by a test against a real
server.
"""

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from grafana_foundation_sdk.builders import common, prometheus, stat, table, timeseries
from grafana_foundation_sdk.builders.dashboard import Dashboard, DatasourceVariable, QueryVariable, Row
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import BigValueGraphMode, LegendPlacement, TooltipDisplayMode
from grafana_foundation_sdk.models.dashboard import DataSourceRef, VariableRefresh, VariableSort
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

FILE = Path(__file__).with_name("limelight.json")
SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
DIMENSIONS = ("cluster", "namespace", "job")
SCOPE = ", ".join(f'{each}=~"${each}"' for each in DIMENSIONS)
SERVICES = f'{SCOPE}, grpc_service=~"limelight.*|inference.*"'
MODEL = f'{SCOPE}, model=~"$model"'
RATE = "[$__rate_interval]"
HEIGHT, WIDTH = 8, 8  # of 24 columns


@dataclass(frozen=True)
class Query:
    """An expression and the legend of its series, with labels in double braces. exemplars: draw traces as dots."""

    expression: str
    legend: str
    exemplars: bool = False


@dataclass(frozen=True)
class Panel:
    """One picture. kind: timeseries, stat or table. most: of the axis, where there is one."""

    title: str
    description: str
    unit: str
    queries: Sequence[Query]
    kind: str = "timeseries"
    most: float | None = None
    width: int = WIDTH


def rate(counter: str, by: str, labels: str = SCOPE) -> Query:
    """Ask for a rate, summed by a label."""
    return Query(f"sum by ({by}) (rate({counter}{{{labels}}}{RATE}))", f"{{{{{by}}}}}")


CALLS = (
    Panel(
        "Calls", "Calls that arrive, by method.", "reqps", [rate("grpc_server_started_total", "grpc_method", SERVICES)]
    ),
    Panel(
        "Errors by code",
        "Calls that end with an error. INVALID_ARGUMENT and NOT_FOUND are callers' mistakes, RESOURCE_EXHAUSTED is a "
        "refusal, INTERNAL is the server's fault.",
        "reqps",
        [rate("grpc_server_handled_total", "grpc_code", f'{SERVICES}, grpc_code!="OK"')],
    ),
    Panel(
        "Share of errors and refusals",
        "Of all calls in five minutes: errors of the server, and RESOURCE_EXHAUSTED.",
        "percentunit",
        [
            Query(f"limelight:errors:ratio_rate5m{{{SCOPE}}}", "errors of the server {{namespace}}"),
            Query(f"limelight:refused:ratio_rate5m{{{SCOPE}}}", "refused {{namespace}}"),
        ],
        most=1,
    ),
    Panel(
        "Latency",
        "Of answered calls, from their arrival until the answer is handed to gRPC, streams included. Dots are traced "
        "calls.",
        "s",
        [
            Query(
                f"histogram_quantile({quantile}, sum by (le) "
                f'(rate(grpc_server_handling_seconds_bucket{{{SERVICES}, grpc_code="OK"}}{RATE})))',
                f"p{100 * quantile:g}",
                exemplars=quantile == 0.99,
            )
            for quantile in (0.5, 0.95, 0.99)
        ],
    ),
    Panel(
        "p99 by method",
        "Over five minutes, of calls that were answered.",
        "s",
        [Query(f"max by (grpc_method) (limelight:latency_seconds:p99_5m{{{SCOPE}}})", "{{grpc_method}}")],
    ),
    Panel(
        "Calls by code",
        "Over five minutes; all methods together.",
        "reqps",
        [Query(f"sum by (grpc_code) (limelight:calls:rate5m{{{SCOPE}}}) > 0", "{{grpc_code}}")],
    ),
)
STAGES = (
    Panel(
        "Latency by stage, p95",
        "preprocess and encode: for each call, in a frontend. queue: for each row. batch and compute: for each batch "
        "or decode step, in an engine.",
        "s",
        [
            Query(
                "histogram_quantile(0.95, sum by (le, stage) "
                f"(rate(limelight_stage_duration_seconds_bucket{{{MODEL}}}{RATE})))",
                "{{stage}}",
            )
        ],
    ),
    Panel(
        "Latency by stage, mean",
        "What the stages cost, per call, row or batch.",
        "s",
        [
            Query(
                f"sum by (stage) (rate(limelight_stage_duration_seconds_sum{{{MODEL}}}{RATE})) / "
                f"sum by (stage) (rate(limelight_stage_duration_seconds_count{{{MODEL}}}{RATE}))",
                "{{stage}}",
            )
        ],
    ),
    Panel(
        "Time in the queue, p95",
        "Over five minutes, by model: the first to grow where a server is too small.",
        "s",
        [Query(f"limelight:queue_seconds:p95_5m{{{MODEL}}}", "{{model}}")],
    ),
    Panel(
        "Rows in a batch",
        "Mean by model; of a generating model, rows of a decode step.",
        "short",
        [
            Query(
                f"sum by (model) (rate(limelight_batch_rows_sum{{{MODEL}}}{RATE})) / "
                f"sum by (model) (rate(limelight_batch_rows_count{{{MODEL}}}{RATE}))",
                "{{model}}",
            )
        ],
    ),
    Panel(
        "Share of padding",
        "Places of batches that only pad: rows of very different lengths share batches.",
        "percentunit",
        [Query(f"limelight:padding:ratio_rate5m{{{MODEL}}}", "{{model}}")],
        most=1,
    ),
    Panel(
        "Places in batches",
        "Tokens, cells or nodes a second.",
        "short",
        [rate("limelight_tokens_total", "kind", MODEL)],
    ),
)
LOAD = (
    Panel(
        "Saturation",
        "Rows that arrive, refused ones too, by what the server can answer. 1 is full, at 2 twice as much arrives. "
        "The autoscaler reads it.",
        "percentunit",
        [
            Query(f"limelight_saturation{{{SCOPE}}}", "{{instance}}"),
            Query(f"limelight:saturation:avg{{{SCOPE}}}", "mean {{namespace}}"),
        ],
    ),
    Panel(
        "Parts at work",
        "Share of what each part of the servers can do: threads that compute, cores, event loops of frontends and "
        "engines. The highest is what is short.",
        "percentunit",
        [
            Query(
                f"sum by (part) (rate(limelight_work_seconds_total{{{SCOPE}}}{RATE})) / "
                f"(sum by (part) (limelight_capacity{{{SCOPE}}}) > 0)",
                "{{part}}",
            )
        ],
    ),
    Panel(
        "Backlog",
        "Seconds that the workers need for rows that wait, and for what is left of generations.",
        "s",
        [Query(f"sum by (instance) (limelight_backlog_seconds{{{SCOPE}}})", "{{instance}}")],
    ),
    Panel(
        "Queue", "Rows that wait.", "short", [Query(f"sum by (model) (limelight_queue_depth{{{MODEL}}})", "{{model}}")]
    ),
    Panel(
        "In flight",
        "Calls in the engines.",
        "short",
        [Query(f"sum by (model) (limelight_inflight_requests{{{MODEL}}})", "{{model}}")],
    ),
    Panel("Rows not answered", "By reason.", "short", [rate("limelight_rejected_total", "reason")]),
    Panel(
        "Answers that were kept",
        "Rows found in the response cache (--response-cache-bytes) or missed, and answers that made room, a second.",
        "short",
        [
            rate("limelight_cache_total", "result", MODEL),
            Query(
                f"sum by (namespace) (rate(limelight_cache_evictions_total{{{SCOPE}}}{RATE}))", "evicted {{namespace}}"
            ),
        ],
    ),
    Panel(
        "Bytes of the response cache",
        "Kept by all frontends of a server.",
        "bytes",
        [Query(f"sum by (instance) (limelight_cache_bytes{{{SCOPE}}})", "{{instance}}")],
    ),
)
GEN_AI_MODEL = f'{SCOPE}, gen_ai_request_model=~"$model"'
REQUESTS = (
    Panel(
        "Requests by what is done",
        "Of models that were found, by the names of OpenTelemetry's conventions for generative AI; errors apart.",
        "reqps",
        [
            Query(
                f"sum by (gen_ai_operation_name, error_type) "
                f"(rate(gen_ai_server_request_duration_seconds_count{{{GEN_AI_MODEL}}}{RATE}))",
                "{{gen_ai_operation_name}} {{error_type}}",
            )
        ],
    ),
    Panel(
        "Time to the first token, p95",
        "From the arrival of a request, by model.",
        "s",
        [
            Query(
                "histogram_quantile(0.95, sum by (le, gen_ai_request_model) "
                f"(rate(gen_ai_server_time_to_first_token_seconds_bucket{{{GEN_AI_MODEL}}}{RATE})))",
                "{{gen_ai_request_model}}",
            )
        ],
    ),
    Panel(
        "Time of each further token, mean",
        "Mean of the sequences, by model.",
        "s",
        [
            Query(
                "sum by (gen_ai_request_model) "
                f"(rate(gen_ai_server_time_per_output_token_seconds_sum{{{GEN_AI_MODEL}}}{RATE})) / "
                "sum by (gen_ai_request_model) "
                f"(rate(gen_ai_server_time_per_output_token_seconds_count{{{GEN_AI_MODEL}}}{RATE}))",
                "{{gen_ai_request_model}}",
            )
        ],
    ),
)
MODELS = (
    Panel(
        "Models and versions",
        "Those that answer.",
        "short",
        [Query(f"max by (model, version, provider, digest) (limelight_model_info{{{MODEL}}})", "")],
        kind="table",
    ),
    Panel(
        "Versions ready",
        "1: answers. 0: was refused.",
        "short",
        [Query(f"min by (model, version) (limelight_model_ready{{{MODEL}}})", "{{model}} {{version}}")],
        kind="stat",
    ),
    Panel(
        "Processes",
        "Ready, and ended unasked within 15 minutes. A server without --frontends is one process and has none of these "
        "series.",
        "short",
        [
            Query(f"sum by (role) (limelight_processes{{{SCOPE}}})", "{{role}}"),
            Query(f"sum by (role) (increase(limelight_process_ends_total{{{SCOPE}}}[15m]))", "{{role}} ended"),
        ],
    ),
    Panel(
        "Runs ended, rows not finite",
        "Runs that took longer than max_run_seconds, and rows that got an error for NaN or infinity, in 15 minutes.",
        "short",
        [
            Query(f"sum by (model) (increase(limelight_runs_ended_total{{{MODEL}}}[15m]))", "{{model}} ended"),
            Query(
                f"sum by (model) (increase(limelight_rows_not_finite_total{{{MODEL}}}[15m]))", "{{model}} not finite"
            ),
        ],
    ),
)
ATTENTION = (
    Panel(
        "Attention sent",
        "Bytes of weights in answers, by model.",
        "Bps",
        [rate("limelight_attention_bytes_total", "model", MODEL)],
    ),
    Panel(
        "Attention signals, mean",
        "Of sampled maps (--attention-signals), all maps of the models together. entropy: 0 looks at one key, 1 at all "
        "alike. special: weight on special tokens. largest: the largest weight. distance: 0 at the query itself, 1 at "
        "the other end.",
        "percentunit",
        [
            Query(
                f"sum by (signal) (rate(limelight_attention_signal_sum{{{MODEL}}}{RATE})) / "
                f"sum by (signal) (rate(limelight_attention_signal_count{{{MODEL}}}{RATE}))",
                "{{signal}}",
            )
        ],
        most=1,
    ),
    Panel(
        "Entropy by map, median",
        "Of sampled maps.",
        "percentunit",
        [
            Query(
                "histogram_quantile(0.5, sum by (le, model, map) "
                f'(rate(limelight_attention_signal_bucket{{{MODEL}, signal="entropy"}}{RATE})))',
                "{{model}} {{map}}",
            )
        ],
        most=1,
    ),
    Panel(
        "Attention drift",
        "How far a map's signals are from the reference in its bundle: ordinary inputs stay below 1. Above it is a "
        "reason to look at the inputs; it proves nothing.",
        "short",
        [Query(f"max by (model, map) (limelight_attention_drift{{{MODEL}}})", "{{model}} {{map}}")],
    ),
)
SECURITY = (
    Panel("Calls by token", "With --tokens.", "reqps", [rate("limelight_token_calls_total", "token")]),
    Panel(
        "Rows by token",
        "Begun a second, and in flight.",
        "short",
        [
            rate("limelight_token_rows_total", "token"),
            Query(f"sum by (token) (limelight_token_inflight_rows{{{SCOPE}}})", "{{token}} in flight"),
        ],
    ),
    Panel(
        "Without a good token",
        "Refused calls, by reason.",
        "reqps",
        [rate("limelight_unauthenticated_total", "reason")],
    ),
    Panel(
        "Certificate",
        "Days until it ends.",
        "d",
        [
            Query(
                f"min by (instance) ((limelight_certificate_expiry_seconds{{{SCOPE}}} - time()) / 86400)",
                "{{instance}}",
            )
        ],
        kind="stat",
    ),
)
GPU = (
    Panel(
        "GPUs at work",
        "From NVIDIA's dcgm-exporter, which is scraped beside the server.",
        "percent",
        [Query("avg by (gpu) (DCGM_FI_DEV_GPU_UTIL)", "GPU {{gpu}}")],
        most=100,
    ),
    Panel(
        "GPU memory",
        "Used, from dcgm-exporter.",
        "decmbytes",
        [Query("sum by (gpu) (DCGM_FI_DEV_FB_USED)", "GPU {{gpu}}")],
    ),
    Panel(
        "Versions by provider",
        "Where versions run: a count under cpu on a GPU machine is a server that was not told --provider cuda.",
        "short",
        [Query(f"count by (provider) (limelight_model_info{{{SCOPE}}})", "{{provider}}")],
    ),
)
ROWS = (
    ("Calls", CALLS),
    ("Stages and batches", STAGES),
    ("Requests and tokens", REQUESTS),
    ("Load", LOAD),
    ("Attention", ATTENTION),
    ("Models and processes", MODELS),
    ("Security", SECURITY),
    ("GPU", GPU),
)


def dashboard() -> str:
    """Make the dashboard, as JSON."""
    made = (
        Dashboard("Limelight")
        .uid("limelight")
        .description("Made by deploy/grafana/dashboard.py of Limelight.")
        .tags(["limelight"])
        .time("now-1h", "now")
        .refresh("30s")
        .timezone("browser")
        .editable()
        .with_variable(DatasourceVariable("datasource").label("Data source").type("prometheus"))
    )
    for label in (*DIMENSIONS, "model"):
        made = made.with_variable(
            QueryVariable(label)
            .label(label.capitalize())
            .datasource(SOURCE)
            .query(f"label_values(limelight_model_info, {label})")
            .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
            .sort(VariableSort.ALPHABETICAL_ASC)
            .multi(True)
            .include_all(True)
            .all_value(".*")
        )
    for title, panels in ROWS:
        made = made.with_row(Row(title))
        for panel in panels:
            made = made.with_panel(_panel(panel))
    written = JSONEncoder(sort_keys=True, separators=(",", ":")).encode(made.build())
    return re.sub(r',(?=\{"(?:collapsed|datasource)":)', ",\n", written) + "\n"  # a line for each panel


def _panel(panel: Panel) -> timeseries.Panel | stat.Panel | table.Panel:
    made: timeseries.Panel | stat.Panel | table.Panel
    match panel.kind:
        case "table":
            made = table.Panel().show_header(True)
        case "stat":
            made = stat.Panel().graph_mode(BigValueGraphMode.NONE)
        case _:
            made = timeseries.Panel().fill_opacity(10).line_width(1).axis_soft_min(0)
            made = made.legend(common.VizLegendOptions().show_legend(True).placement(LegendPlacement.BOTTOM))
            made = made.tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI))
    made = made.title(panel.title).description(panel.description).unit(panel.unit).datasource(SOURCE)
    made = made.height(HEIGHT).span(panel.width)
    if panel.most is not None:
        made = made.max(panel.most)
    for place, query in enumerate(panel.queries):
        asked = prometheus.Dataquery().expr(query.expression).legend_format(query.legend).ref_id(chr(ord("A") + place))
        if query.exemplars:
            asked = asked.exemplar(True)
        if panel.kind == "table":
            asked = asked.instant().format(PromQueryFormat.TABLE)
        made = made.with_target(asked)
    return made


if __name__ == "__main__":
    if sys.argv[1:] == ["--print"]:
        sys.stdout.write(dashboard())
    else:
        FILE.write_text(dashboard(), encoding="utf-8")
