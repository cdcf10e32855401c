"""Addresses: those to listen on, written, tried, and held for several processes, and those that callers name."""

import ipaddress
import re
import socket
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from limelight_bundle.errors import LimelightError

_AUTHORITY = re.compile(r"(\[[0-9a-f:.]+\]|[^\[\]:/@\s]*)(?::\d{0,5})?", re.IGNORECASE)


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


def is_loopback(host: str) -> bool:
    """True for a host that only this machine reaches."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        pass
    try:
        found = {str(place[0]) for *_, place in socket.getaddrinfo(host, None)} if host else set()
    except OSError:
        return False
    return bool(found) and all(ipaddress.ip_address(each.partition("%")[0]).is_loopback for each in found)


def is_foreign(authority: str, own: Collection[str]) -> bool:
    """True for the host of a request whose name somebody else may have, and have point to this machine.

    A page there would be of the same origin (DNS rebinding). An address is no such name, nor is one without a dot:
    nobody else can make it point anywhere. own: names that are allowed, in lower case.
    """
    found = _AUTHORITY.fullmatch(authority)
    if found is None:
        return True
    name = found[1].lower()
    if "." not in name or name in own or name.endswith(".localhost"):
        return False
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return True
    return False
