"""`limelight models`."""

from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from limelight.base import streams
from limelight.base.counts import counted
from limelight.base.printing import printable
from limelight.cli import as_json, options, server_names
from limelight.cli.connection import Connection, with_connection_options
from limelight.descriptions import Model, ModelStatus

Name = Annotated[
    str | None,
    typer.Argument(
        metavar="[MODEL]", help="Describe this model instead of listing all.", autocompletion=server_names.models
    ),
]


@with_connection_options
def models(
    connection: Connection,
    name: Name = None,
    as_document: options.Json = False,
    version: options.Version = 0,
) -> None:
    """List a server's models, or describe one: inputs, attention maps, metrics."""
    with connection.client() as client:
        if name is None:
            statuses = client.models()
            if as_document:
                as_json.write(as_json.models(statuses))
            else:
                _print_list(statuses)
        else:
            model = client.model(name, version)
            if as_document:
                as_json.write(model.to_dict())
            else:
                _print_model(model)


def _print_list(statuses: list[ModelStatus]) -> None:
    if not statuses:
        print("no models")
        return
    table = _table("model", "version", "state", "task", "title")
    for each in statuses:
        state = f"{each.state}: {each.reason}" if each.reason else each.state
        version = f"{each.version} (default)" if each.default else str(each.version)
        task = "" if each.task == "unspecified" else each.task.replace("_", " ")
        table.add_row(*_cells(each.name, version, state, task, each.title))
    _print(table)


def _print_model(model: Model) -> None:
    print(f"{model.name} version {model.version}: {model.title} ({model.task.replace('_', ' ')}, {model.status.state})")
    if model.status.reason:
        print(model.status.reason)
    if model.summary:
        print(model.summary)
    if model.inputs:
        table = _table("input", "kind", "")
        for each in model.inputs:
            table.add_row(*_cells(each.name, each.kind + (", optional" if each.optional else ""), each.summary))
        _print(table)
    if model.maps:
        table = _table("attention map", "kind", "heads", "query", "key", "form", "also", "")
        for map_ in model.maps:
            also = ", ".join((*map_.quantities, *(["interventions"] if map_.interventions else [])))
            row = (map_.name, map_.kind, str(map_.heads), map_.query, map_.key, map_.form, also, map_.summary)
            table.add_row(*_cells(*row))
        _print(table)
        for reason in dict.fromkeys(each.no_interventions for each in model.maps if each.no_interventions):
            names = [each.name for each in model.maps if each.no_interventions == reason]
            print(f"no interventions on {'any map' if len(names) == len(model.maps) else ', '.join(names)}: {reason}")
    if model.classes:
        shown = ", ".join(model.classes[:20])
        print(f"classes: {shown}{', …' if len(model.classes) > 20 else ''} ({len(model.classes)})")
    for result in (result for result in model.results if result.kind == "boxes"):
        print(f"boxes: {result.name}, of a probability above {result.threshold:g}")
    for stack in dict.fromkeys(each.stack for each in model.hidden):
        layers = [each for each in model.hidden if each.stack == stack]
        print(f"hidden states: {stack}, layers 0 to {len(layers) - 1} of {counted(layers[0].size, 'number')}")
    for target in (target for result in model.results for target in result.targets):
        print(f"number: {target.name}{f' in {target.unit}' if target.unit else ''}")
    for metric in model.metrics:
        beside = {"float32": metric.float32_value, metric.baseline_name or "baseline": metric.baseline}
        others = ", ".join(f"{name}: {value:.4g}" for name, value in beside.items() if value is not None)
        print(f"{metric.name} on {metric.split}: {metric.value:.4g}{f' ({others})' if others else ''}")
    if model.precision != "unspecified":
        print(f"precision: {model.precision}")
    for column, values in model.taxonomy.items():
        if values:
            print(f"{column}: {', '.join(values)}")
    if model.citation.title:
        paper = model.citation
        print(f"paper: {', '.join(paper.authors)} ({paper.year}). {paper.title}. {paper.venue}")
    if model.training_data.name:
        data = model.training_data
        examples = f"{counted(data.training_examples, 'example')}, {data.held_out_examples} held out"
        print(f"trained on: {data.name} ({examples}{', ' + data.licence if data.licence else ''})")
        if data.summary:
            print(data.summary)
    for line, values in (
        ("imported from", model.source.classes),
        ("repository", (model.source.repository,)),
        ("revision", (model.source.revision,)),
        ("licence", (model.source.licence,)),
        ("configuration fields without effect", model.source.ignored_fields),
    ):
        if any(values):
            print(f"{line}: {', '.join(values)}")
    for graph in model.graphs:
        nodes = ", ".join(f"{counted(count, 'node')} on {provider}" for provider, count in graph.nodes.items())
        print(f"graph {graph.name}: {graph.provider}{' (' + nodes + ')' if nodes else ''}")


def _cells(*texts: str) -> list[Text]:
    """Return texts as cells, escaped before their widths are taken."""
    return [Text(printable(each)) for each in texts]


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _print(table: Table) -> None:
    console = streams.console()
    if console.is_terminal:
        console.print(table)
        return
    # Output to a pipe is neither folded nor padded.
    wide = streams.console(width=10_000, color_system=None)
    with wide.capture() as capture:
        wide.print(table)
    print("\n".join(line.rstrip() for line in capture.get().splitlines()))
