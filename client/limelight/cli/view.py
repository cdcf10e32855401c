"""`limelight view`."""

import errno
import os
import sys
import threading
import time
import webbrowser
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from limelight.base import streams
from limelight.base.commands import CommandError
from limelight.base.errors import Unavailable
from limelight.cli.connection import Connection, with_connection_options
from limelight.handshakes import TlsError, explained
from limelight.security import Security
from limelight.view.export import export
from limelight.view.server import PageServer
from limelight.view.upstream import NotHttpError, Upstream, upstream_at

DEFAULT_ADDRESS = "127.0.0.1:8080"
DEFAULT_PORT = 8090
_PAUSE = 0.25  # seconds between attempts to reach a server that is not up

Address = Annotated[
    str, typer.Argument(metavar="ADDRESS", help="HTTP port of a server: HOST:PORT, as `limelight serve` prints it.")
]
Port = Annotated[
    int | None,
    typer.Option(
        "--port",
        min=0,
        max=65535,
        show_default=False,
        help=f"Port of the page; 0 for any free one. [default: {DEFAULT_PORT}, or a free one]",
    ),
]
Host = Annotated[
    str,
    typer.Option(
        "--host",
        help="Address on which the page is served. Any but this machine's own lets others open the page, unencrypted, "
        "if they know its key.",
    ),
]
Export = Annotated[
    Path | None,
    typer.Option(
        "--export",
        metavar="DIR",
        help="Write a copy of the page with the answers to the models' examples, for any web server, and end.",
    ),
]
NoBrowser = Annotated[bool, typer.Option("--no-browser", help="Print the page's address and open no browser.")]


@partial(with_connection_options, without=["target"])
def view(
    connection: Connection,
    address: Address = DEFAULT_ADDRESS,
    port: Port = None,
    host: Host = "127.0.0.1",
    no_browser: NoBrowser = False,
    folder: Export = None,
) -> None:
    """Open a page that shows a server's attention: `limelight view 127.0.0.1:8080`

    The server needs --http-port, and may still be starting: --timeout says how long it is waited for. The page is
    served on this machine alone; it runs until Ctrl-C.
    """
    upstream = upstream_at(address, Security(**connection.security), timeout=connection.timeout)
    _wait(upstream, connection)
    if folder is not None:
        for name in export(upstream, folder):
            print(name)
        print(folder / "index.html")
        return
    with open_page(upstream, host=host, port=port) as server:
        streams.say(f"limelight: the page is at {server.address} (Ctrl-C to stop)")
        if not no_browser and _has_desktop():
            # A browser that starts slowly does not delay the page.
            threading.Thread(target=webbrowser.open, args=[server.address], daemon=True).start()
        server.serve_forever()


def serve_page(address: str, *, timeout: float) -> str:
    """Serve the page of an HTTP port of this machine beside this program, until its end; return the page's address."""
    page = open_page(upstream_at(address, Security(), timeout=timeout))
    threading.Thread(target=page.serve_forever, name="page", daemon=True).start()
    return page.address


def open_page(upstream: Upstream, *, host: str = "127.0.0.1", port: int | None = None) -> PageServer:
    """Listen for the page: on a port that was chosen, or on the default port, or on a free one if that is taken.

    Raises:
        CommandError: the chosen port is taken, or the host is not this machine.
    """
    try:
        return PageServer(upstream, host=host, port=DEFAULT_PORT if port is None else port)
    except OSError as error:
        if port is None and error.errno == errno.EADDRINUSE:
            return PageServer(upstream, host=host, port=0)
        if error.errno == errno.EADDRINUSE:
            raise CommandError(
                f"port {port} is taken: choose another with --port, or --port 0 for a free one"
            ) from error
        raise CommandError(f"cannot listen on {host}: {error.strerror}") from error


def _wait(upstream: Upstream, connection: Connection) -> None:
    """Wait until a server listens, and check that it is one of Limelight."""
    seconds = connection.timeout
    end, is_told = time.monotonic() + seconds, False
    while True:
        try:
            _check(upstream, connection)
            return
        except ConnectionRefusedError as error:
            left = end - time.monotonic()
            if left <= 0:
                raise CommandError(
                    f"no server answered at {upstream.address} within {seconds:g} s: give the port of "
                    "`limelight serve --http-port`"
                ) from error
            if not is_told:
                print(
                    f"limelight: waiting {seconds:g} s for a server at {upstream.address}", file=sys.stderr, flush=True
                )
                is_told = True
            time.sleep(min(_PAUSE, left))


def _check(upstream: Upstream, connection: Connection) -> None:
    try:
        upstream.check()
    except ConnectionRefusedError:
        raise
    except PermissionError as error:
        raise CommandError(f"{upstream.address} refuses: {error}") from error
    except (NotHttpError, OSError) as error:
        failed = explained(Unavailable(str(error)), upstream.address, encrypted=upstream.tls is not None)
        if isinstance(failed, TlsError):
            raise replace(connection, target=upstream.address).unreachable(failed) from error
        if not isinstance(error, NotHttpError):
            raise CommandError(
                f"no server answers at {upstream.address} ({error.strerror or error}): give the port of "
                "`limelight serve --http-port`"
            ) from error
        raise CommandError(
            f"{upstream.address} is not Limelight's HTTP port: give that of `limelight serve --http-port`"
        ) from error


def _has_desktop() -> bool:
    """Return whether a browser would open in a window, and not in this terminal."""
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
