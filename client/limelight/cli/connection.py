"""Connection options, shared by all commands that call a server."""

import inspect
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from limelight.base.addresses import DEFAULT_TARGET, HOST, PORT, TARGET, server_of
from limelight.base.commands import CommandError
from limelight.base.errors import Unavailable
from limelight.base.strings import decode_utf8
from limelight.client import Client
from limelight.handshakes import TlsError
from limelight.security import SecurityOptions
from limelight.transport import DEFAULT_TIMEOUT

_TOKEN, _TOKEN_FILE = "LIMELIGHT_TOKEN", "LIMELIGHT_TOKEN_FILE"

Target = Annotated[
    str | None,
    typer.Option(
        "--target",
        metavar="HOST:PORT",
        help=f"The server. [env var: {TARGET}, or {HOST} and {PORT}, as `limelight serve` reads them; "
        f"default: {DEFAULT_TARGET}]",
    ),
]
Timeout = Annotated[float, typer.Option("--timeout", min=0.001, help="Time limit of a call in seconds.")]
Ca = Annotated[
    Path | None,
    typer.Option("--ca", envvar="LIMELIGHT_CA", metavar="FILE", help="TLS: certificates that sign the server's (PEM)."),
]
Cert = Annotated[
    Path | None,
    typer.Option("--cert", envvar="LIMELIGHT_CERT", metavar="FILE", help="TLS: the client's certificate (PEM)."),
]
Key = Annotated[
    Path | None, typer.Option("--key", envvar="LIMELIGHT_KEY", metavar="FILE", help="TLS: the client's key (PEM).")
]
Tls = Annotated[
    bool,
    typer.Option(
        "--tls", envvar="LIMELIGHT_TLS", help="TLS with a server whose certificate a public authority signed."
    ),
]
ServerName = Annotated[
    str | None,
    typer.Option(
        "--server-name",
        envvar="LIMELIGHT_SERVER_NAME",
        metavar="NAME",
        help="TLS: name in the server's certificate, if it differs.",
    ),
]
TokenFile = Annotated[
    Path | None, typer.Option("--token-file", metavar="FILE", help=f"File with the token. [env var: {_TOKEN_FILE}]")
]
Token = Annotated[
    str | None,
    typer.Option(
        "--token",
        metavar="TOKEN",
        help=f"The token. Other users of this machine can see it; prefer --token-file. [env var: {_TOKEN}]",
    ),
]
Insecure = Annotated[
    bool,
    typer.Option("--insecure", help="Send the token to another machine without TLS, where third parties can read it."),
]


@dataclass(frozen=True)
class Connection:
    """Connection options of a command."""

    target: str
    timeout: float
    security: SecurityOptions = field(repr=False)

    @contextmanager
    def client(self) -> Iterator[Client]:
        """Connect to the server. Unavailable becomes a CommandError that names the server."""
        try:
            # Fewer attempts than the library's default: a person is waiting.
            with Client(self.target, timeout=self.timeout, attempts=3, **self.security) as client:
                try:
                    yield client
                except KeyboardInterrupt:
                    _end_process_soon()
                    raise
        except Unavailable as error:
            raise self.unreachable(error) from error

    def unreachable(self, error: Unavailable) -> CommandError:
        """Return the error for an unreachable server, or for one that speaks TLS where the command does not."""
        if isinstance(error, TlsError):
            return CommandError(TlsError(self.target, spoken=error.spoken, on_command_line=True).message)
        return CommandError(f"no server answers at {self.target} ({error.message})")


def _end_process_soon() -> None:
    """End the process in a second, even if gRPC waits forever for a call that Ctrl-C interrupted while it started."""
    end = threading.Timer(1, os._exit, [130])
    end.daemon = True
    end.start()


def with_connection_options(
    command: Callable[..., int | None], *, without: Sequence[str] = ()
) -> Callable[..., int | None]:
    """Give a command the connection options in place of its parameter `connection`; it may return an exit status.

    Args:
        without: options that the command does not have.
    """
    own, ours = inspect.signature(command).parameters, dict(inspect.signature(_connection).parameters)
    for name in without:
        del ours[name]

    @wraps(command)
    def run(**given: object) -> int | None:
        options = {name: given.pop(name) for name in ours}
        return command(connection=_connection(**options), **given)  # type: ignore[arg-type]

    parameters = [*(each for name, each in own.items() if name != "connection"), *ours.values()]
    keyword_only = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
    run.__signature__ = inspect.Signature(keyword_only)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def connection_of(parameters: Mapping[str, Any]) -> Connection:
    """Return the connection that the parameters of a command name; others, and those not given, are left out."""
    ours = inspect.signature(_connection).parameters
    return _connection(**{name: each for name, each in parameters.items() if name in ours and each is not None})


def _connection(
    target: Target = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
    tls: Tls = False,
    server_name: ServerName = None,
    token_file: TokenFile = None,
    token: Token = None,
    insecure: Insecure = False,
) -> Connection:
    if token is not None and token_file is not None:
        raise CommandError("give either --token or --token-file", status=2)
    if token is None and token_file is None:
        token = os.environ.get(_TOKEN) or None
        if token is None and os.environ.get(_TOKEN_FILE):
            token_file = Path(os.environ[_TOKEN_FILE])
    if token_file is not None:
        token = decode_utf8(token_file.read_bytes(), "token", str(token_file)).strip()
    security = SecurityOptions(
        ca=ca, cert=cert, key=key, tls=tls, server_name=server_name, token=token, insecure=insecure
    )
    return Connection(target or server_of(os.environ), timeout, security)
