"""`limelight demo`: serves the small trained models of the project, and prints commands that work as pasted."""

import errno
import os
import shlex
import socket
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from limelight.base import parts
from limelight.base.addresses import server_of
from limelight.base.commands import CommandError
from limelight.base.program import program
from limelight.base.streams import say
from limelight_service.command import run
from limelight_service.configuration import SettingsError, load_settings
from limelight_service.settings import Settings

if TYPE_CHECKING:
    from limelight.v1 import model_pb2, values_pb2
    from limelight_service.supervisor.in_process import InProcessServer

_HERE = Path(__file__).resolve().parent
# Part of a wheel; in a checkout they have a folder of their own.
DEMO = _HERE / "demo_models" if (_HERE / "demo_models").is_dir() else _HERE.parents[1] / "deploy" / "demo"
_WIDTH = 100
_HTTP_PORT = 8080
_PAGE_SECONDS = 60.0  # that an answer to the page may take
_OF_HTTP = ("starlette", "uvicorn", "orjson")  # packages of the extra `http`


def demo(
    repository: Annotated[Path, typer.Option(help="Folder of bundles to serve.", metavar="DIR")] = DEMO,
    port: Annotated[
        Optional[int],  # noqa: UP045 - typer's own form
        typer.Option(help="Port for gRPC; 0 for any free one. [default: 50051, or a free one]", show_default=False),
    ] = None,
    metrics_port: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(help="Port for metrics; 0 for none. [default: 9464, or a free one]", show_default=False),
    ] = None,
    http_port: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(help="Port for HTTP; 0 for none. [default: 8080, or a free one]", show_default=False),
    ] = None,
) -> None:
    """Serve small trained models and print what to try."""
    if not repository.is_dir():
        raise CommandError(f"--repository: there is no folder {repository}")
    chosen = {"port": port, "metrics_port": metrics_port, "http_port": http_port}
    try:
        settings = load_settings({"repository": str(repository), "workers": 1, "log_level": "warning", **chosen})
    except SettingsError as error:
        raise CommandError(error.message, status=2) from error
    settings = replace(settings, frontends=0)
    if http_port is None and not settings.http_port and all(map(find_spec, _OF_HTTP)):
        settings = replace(settings, http_port=_HTTP_PORT)
    settings, taken = on_free_ports(settings, chosen=chosen)
    run(settings, lambda server: print_commands(server, taken))


def print_commands(server: "InProcessServer", taken: Sequence[int] = ()) -> None:
    """Print what to try with each model that loaded, made of its own examples; taken: ports that others are in."""
    say("\n".join(_lines(server, taken)))


def _lines(server: "InProcessServer", taken: Sequence[int]) -> Iterator[str]:
    if page := _open_page(server):
        yield f"See what they look at: {page}\n"
    target = "" if server.address == server_of(os.environ) else f" --target {server.address}"
    yield from (f"Port {each} is taken by another program: a free one is used instead." for each in taken)
    http = f", HTTP on {server.http_url}" if server.http_url else ""
    metrics = f", metrics on {server.metrics_url}" if server.metrics_url else ""
    yield f"Serving on {server.address}{http}{metrics}"
    yield "Try, in another terminal (Ctrl-C here to stop):\n"
    name = program()
    yield f"  {name} models{target}"
    served = [each.model for each in server.models.catalogue.statuses() if each.model is not None and each.is_default]
    # Those that write come first, as in the page: what each part of an answer comes from is seen at once.
    for description in sorted((each.schema.description for each in served), key=lambda each: not _writes(each)):
        yield f"\n{does(description)}"
        for command in commands(description):
            yield f"  {name} {command}{target}"
        if own := own_command(description):
            yield f"  # one of yours: {name} {own}{target}"


def _open_page(server: "InProcessServer") -> str:
    """Serve the page of `limelight view` beside the server: its address; empty where the server has no HTTP port."""
    if not server.http_url:
        return ""
    serve_page = parts.load("page")
    return str(serve_page(server.http_url, timeout=_PAGE_SECONDS)) if serve_page else ""


def on_free_ports(settings: Settings, chosen: Mapping[str, int | None]) -> tuple[Settings, list[int]]:
    """Move each port that is taken, and that nobody chose by its flag, to a free one; the ports that were taken."""
    hosts = {"port": settings.host, "metrics_port": settings.metrics_host, "http_port": settings.host}
    taken = [
        name
        for name, host in hosts.items()
        if chosen.get(name) is None and (wanted := getattr(settings, name)) and _free_port(host, wanted) is None
    ]
    moved: dict[str, Any] = {name: _free_port(hosts[name], 0) or 0 for name in taken}
    return replace(settings, **moved), [getattr(settings, name) for name in taken]


def _free_port(host: str, port: int) -> int | None:
    """Try to listen; the port, None where it is taken. 0: any free one."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(place)
            return int(trial.getsockname()[1])
    except OSError as error:
        # Another reason is told by the server itself.
        return None if error.errno == errno.EADDRINUSE else port


def does(description: "model_pb2.ModelDescription") -> str:
    """Say what a model does, the first sentence of its summary, and what each input should be, in lines."""
    said = [f"  {description.name}: {_first_sentence(description.summary)}"]
    said += [f"    {each.name}: {each.summary}" for each in description.inputs if not each.optional]
    return "\n".join(textwrap.fill(line, _WIDTH, subsequent_indent="    ") for line in said)


def commands(description: "model_pb2.ModelDescription") -> Iterator[str]:
    """Yield the command that shows a model's attention, and for one that generates, those that let it write.

    What is seen in a picture is drawn over it, which a terminal cannot.
    """
    examples = [shlex.quote(text) for text in _texts(description)] or ["--example 0"]
    yield f"attend {description.name} {examples[0]}{_drawn(description)}"
    if _writes(description):
        yield from (f"generate {description.name} {example}" for example in examples[1:] or examples)


def _writes(description: "model_pb2.ModelDescription") -> bool:
    return any(each.HasField("sequence") for each in description.results)


def own_command(description: "model_pb2.ModelDescription") -> str:
    """The command for what somebody has in a file; empty where it is as well typed."""
    values = _required(description)
    kinds = [value.WhichOneof("kind") for value in values]
    if "image" in kinds:
        given = ("PICTURE.png" if each.image else shlex.quote(each.text) for each in values)
        return f"attend {description.name} {' '.join(given)}{_drawn(description)}"
    if kinds in (["text"], ["document"]) and not _texts(description):
        return f"attend {description.name} @FILE"
    return ""


def _drawn(description: "model_pb2.ModelDescription") -> str:
    """The option that draws maps, for a model that sees pictures."""
    return f" --png {description.name}.png" if any(each.image for each in _required(description)) else ""


def _texts(description: "model_pb2.ModelDescription") -> list[str]:
    """The examples of a model that takes one text, where they are arguments: each of one line."""
    examples = (_required(description, number) for number in range(len(description.examples)))
    texts = [values[0].text or values[0].document.text for values in examples if len(values) == 1]
    return [text for text in texts if text and "\n" not in text]


def _required(description: "model_pb2.ModelDescription", example: int = 0) -> "list[values_pb2.Value]":
    """The values of an example for the required inputs, in their order; empty where there is none."""
    examples = description.examples[example : example + 1]
    return [shown.inputs[each.name] for shown in examples for each in description.inputs if not each.optional]


def _first_sentence(text: str) -> str:
    return text.partition(". ")[0].rstrip(".") + "."
