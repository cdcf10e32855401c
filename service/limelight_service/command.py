"""`limelight serve`. Light to import: what runs the server is imported when it runs."""

import errno
import inspect
import logging
import os
from collections.abc import Callable, Coroutine
from dataclasses import Field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from limelight.base.commands import CommandError
from limelight.base.streams import say
from limelight_bundle.errors import LimelightError
from limelight_service.checkpoints import with_checkpoints
from limelight_service.configuration import SettingsError, ignored_variables, load_settings
from limelight_service.platform.addresses import address_of
from limelight_service.repository.folders import given
from limelight_service.settings import Settings, public_settings

if TYPE_CHECKING:
    from limelight_service.supervisor.served import Served


logger = logging.getLogger(__name__)


def serve(**flags: Any) -> None:
    """Serve the models of a repository over gRPC, and with --http-port over HTTP.

    Each flag can also be an environment variable (--metrics-port is LIMELIGHT_METRICS_PORT) or a line of the file given
    with --config (metrics_port = 9464); a flag counts before a variable, a variable before the file.
    """
    file, print_only = flags.pop("config"), flags.pop("print_config")
    try:
        settings = load_settings(flags, file=file)
    except SettingsError as error:
        raise CommandError(error.message, status=2) from error
    if print_only:
        print(settings.to_toml(), end="")
        return
    if not settings.repository and not settings.model and not settings.checkpoint:
        raise CommandError("which models? Give --repository DIR, --model NAME=FOLDER, or --checkpoint DIR", status=2)
    if settings.repository and not Path(settings.repository).is_dir():
        raise CommandError(f"the repository {settings.repository} is no folder")
    try:
        for name, folder in settings.models:
            given(name, Path(folder))
    except LimelightError as error:
        raise CommandError(error.message) from error
    run(settings)


def print_address(server: "Served") -> None:
    """Say in one line where calls are answered."""
    http = f", HTTP on {server.http_url}" if server.http_url else ""
    metrics = f", metrics on {server.metrics_url}" if server.metrics_url else ""
    say(f"limelight: serving on {server.address}{http}{metrics}")


def run(settings: Settings, announce: Callable[[Any], None] = print_address) -> None:
    """Serve until a signal; `announce` is called with the server once calls are answered.

    Raises: CommandError in one line where the server cannot start.
    """
    from limelight_service.process_signals import leave_on_signal

    if settings.checkpoint:
        settings = with_checkpoints(settings)
    leave_on_signal()  # before anything is imported that takes a second
    limit_libraries()
    from limelight_service.supervisor.serving import serve as serve_settings

    _run(settings, serve_settings(settings, announce))


def limit_libraries() -> None:
    """Set up libraries for this process and those that it starts, before they are imported.

    They compute on the thread that calls them (the cores are the engine's), the C library keeps memory as a server
    needs it, and gRPC's core logs nothing, of which callers without any right could cause thousands of lines a second.
    """
    from limelight_service.platform.memory import settle_allocation

    settle_allocation()
    told = {"TOKENIZERS_PARALLELISM": "false", "OPENBLAS_NUM_THREADS": "1", "GRPC_VERBOSITY": "NONE"}
    for variable, value in told.items():
        os.environ.setdefault(variable, value)


def _run(settings: Settings, serving: Coroutine[Any, Any, None]) -> None:
    import asyncio

    from limelight_service.observability.logs import configure_logs, flush_logs

    configure_logs(settings.log_level, limit=settings.log_buffer_bytes)
    for variable in ignored_variables():
        logger.warning("%s is an address, as Kubernetes gives those of its Services: it is no setting here", variable)
    try:
        asyncio.run(serving)
    except LimelightError as error:
        raise CommandError(error.message + remedy(error, settings)) from error
    finally:
        flush_logs()


def remedy(error: LimelightError, settings: Settings) -> str:
    """Name the flag that helps where a port is taken; empty for other errors."""
    cause = error.__cause__
    if not isinstance(cause, OSError) or cause.errno != errno.EADDRINUSE:
        return ""
    if settings.metrics_port and f":{settings.metrics_port}:" in error.message:
        return "; give --metrics-port another port (LIMELIGHT_METRICS_PORT), or 0 for no metrics"
    if settings.http_port and error.message.startswith(
        f"cannot listen on {address_of(settings.host, settings.http_port)}:"
    ):
        return "; give --http-port another port (LIMELIGHT_HTTP_PORT), or 0 for no HTTP"
    return "; give --port another port (LIMELIGHT_PORT), or 0 for any free one"


def _signature() -> inspect.Signature:
    """Make a flag of each setting: they are stated once, in `Settings`."""
    parameters = [
        inspect.Parameter(
            each.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                Optional[_kind(each)],  # noqa: UP045 - made at run time
                typer.Option(
                    help=_help(each.metadata["rule"].summary, each.default),
                    show_default=False,  # the parameter's own is None: not given
                    metavar=_metavar(each.name, type(each.default)),
                    rich_help_panel=each.metadata["rule"].group.value,
                ),
            ],
        )
        for each in public_settings()
    ]
    config = Annotated[Optional[Path], typer.Option(help="A TOML file with settings.", metavar="FILE")]  # noqa: UP045
    print_config = Annotated[
        bool, typer.Option("--print-config", help="Print the settings that would be used, and stop.")
    ]
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters.append(inspect.Parameter("config", keyword, default=None, annotation=config))
    parameters.append(inspect.Parameter("print_config", keyword, default=False, annotation=print_config))
    return inspect.Signature(parameters)


def _kind(setting: Field[Any]) -> Any:
    return list[str] if setting.metadata["rule"].is_list else type(setting.default)


def _help(summary: str, default: Any) -> str:
    if default == "" or default is False:
        return summary
    return f"{summary} [default: {'on' if default is True else default}]"


def _metavar(name: str, kind: type) -> str | None:
    if name in ("repository", "model", "checkpoint"):
        return {"repository": "DIR", "model": "NAME=FOLDER", "checkpoint": "DIR|ORG/NAME"}[name]
    if name in ("tokens", "tls_cert", "tls_key", "tls_client_ca"):
        return "FILE"
    if name == "attention_signals":
        return "SHARE"
    rule = next(each for each in fields(Settings) if each.name == name).metadata["rule"]
    return "|".join(rule.choices) or {int: "N", float: "SECONDS", str: "TEXT", bool: None}[kind]


serve.__signature__ = _signature()  # type: ignore[attr-defined]
