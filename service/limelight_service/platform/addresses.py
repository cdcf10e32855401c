"""Addresses to listen on: written, tried, and held for several processes."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from limelight_bundle.errors import LimelightError


def address_of(host: str, port: int) -> str:
    """Write an address as clients take it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def check_free(host: str, port: int) -> None:
    """Try an address first: gRPC's own failure is a page of C++ that says less.

    Raises: LimelightError where it cannot be listened on.
    """
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(place)
    except OSError as error:
        raise LimelightError(f"cannot listen on {address_of(host, port)}: {error.strerror}") from error


@contextmanager
def reserved(host: str, port: int) -> Iterator[int]:
    """Hold an address for processes that share it, against every other server; gives the port.

    Raises: LimelightError where it cannot be listened on.
    """
    check_free(host, port)
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        held = socket.socket(family, kind, protocol)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            held.bind(place)
        except OSError:  # connections of an earlier server linger there
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.bind(place)
    except OSError as error:
        raise LimelightError(f"cannot listen on {address_of(host, port)}: {error.strerror}") from error
    with held:
        yield held.getsockname()[1]
