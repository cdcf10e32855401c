"""Locality of a target, and use of a proxy.

gRPC sends calls through the proxy of `grpc_proxy`, `https_proxy` or `http_proxy`, unless `no_grpc_proxy` or `no_proxy`
names the target. It ignores variables in capitals, and sends calls for this machine through the proxy as well. This
client never uses a proxy for this machine, and honours `NO_PROXY`.
"""

import ipaddress
import os
import re
import socket
from collections.abc import Iterator, Mapping

_EXCEPTIONS = ("no_grpc_proxy", "no_proxy", "NO_PROXY")
_HERE = ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback")
_NO_NETWORK = ("unix:", "unix-abstract:", "vsock:")
_SCHEME = re.compile(r"^(dns:(///?)?|ipv4:|ipv6:)", re.IGNORECASE)

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def resolvable(target: str) -> str:
    """Return the target in a notation that gRPC's resolver accepts, not as `localhost.` or `127.1`."""
    scheme = found[0] if (found := _SCHEME.match(target)) and found[0].lower().startswith("dns:") else ""
    host, port = _split(target.removeprefix(scheme))
    if not _is_loopback(host) or ":" in host or "," in target:
        return target
    address = _address(host)
    return f"{scheme}{host.removesuffix('.') if address is None else address}{f':{port}' if port else ''}"


def is_local(target: str) -> bool:
    """Return whether gRPC reaches only this machine by a target, in any notation."""
    if target.startswith(_NO_NETWORK[:2]):
        return True
    hosts = [host for host, _ in places(target)]
    return bool(hosts) and all(_is_loopback(host) for host in hosts)


def is_direct(target: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether a target is reached without a proxy.

    True for this machine, and for targets in `no_grpc_proxy`, `no_proxy` or `NO_PROXY`: hosts, domains with their
    subdomains, addresses and networks, each with or without a port, or `*` for all.
    """
    if target.startswith(_NO_NETWORK):
        return True
    named = list(places(target))
    exceptions = [each.strip() for name in _EXCEPTIONS for each in environment.get(name, "").split(",")]
    # gRPC asks a proxy for a list of addresses as if it were one name.
    return any(_means_this_machine(host) for host, _ in named) or all(
        any(_matches(each, host, port) for each in exceptions) for host, port in named
    )


def has_several_addresses(target: str) -> bool:
    """Return whether a target names several servers: a list of addresses, or a DNS name written with `dns:`.

    A plain `host:port` means one server, whatever it resolves to: its one connection may go idle.
    """
    scheme, _, rest = target.lower().partition(":")
    return scheme == "dns" or (scheme in ("ipv4", "ipv6") and "," in rest)


def places(target: str) -> Iterator[tuple[str, str]]:
    """Yield host and port of each address of a target; an absent port is empty."""
    rest = _SCHEME.sub("", target)
    for each in rest.split(",") if target.lower().startswith(("ipv4:", "ipv6:")) else [rest]:
        yield _split(each)


def _split(address: str) -> tuple[str, str]:
    if bracketed := re.fullmatch(r"\[(.*)\](?::(\d*))?", address):
        return bracketed[1].lower(), bracketed[2] or ""
    host, colon, port = address.rpartition(":")
    # An IPv6 address without brackets has more colons, and no port.
    return (host.lower(), port) if colon and ":" not in host else (address.lower(), "")


def _address(host: str) -> _Address | None:
    """Parse a host as an address, in any notation of the C library; None for a name."""
    try:
        address: _Address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        try:
            # The C library accepts 127.1, 0x7f.0.0.1 and 2130706433.
            return ipaddress.IPv4Address(socket.inet_aton(host)) if re.fullmatch(r"[0-9a-fx.]+", host) else None
        except (OSError, ValueError):
            return None
    return getattr(address, "ipv4_mapped", None) or address


def _is_loopback(host: str) -> bool:
    address = _address(host)
    return host.removesuffix(".") == "localhost" if address is None else address.is_loopback


def _means_this_machine(host: str) -> bool:
    """Return whether a host is this machine, or a name that should mean it and gets no unencrypted token."""
    address = _address(host)
    if address is not None:
        return address.is_loopback or address.is_unspecified
    name = host.removesuffix(".")
    return name in _HERE or name.endswith(".localhost")


def _matches(exception: str, host: str, port: str) -> bool:
    """Return whether an entry of `no_proxy` matches a host and port."""
    if exception == "*":
        return True
    address = _address(host)
    try:
        network = ipaddress.ip_network(exception.strip("[]"), strict=False)
    except ValueError:
        pass
    else:
        return address is not None and address.version == network.version and address in network
    named, at = _split(exception)
    named = named.removeprefix("*").removeprefix(".").removesuffix(".")
    if not named or (at and at != port):
        return False
    if address is not None:
        return _address(named) == address
    name = host.removesuffix(".")
    return name == named or name.endswith(f".{named}")
