"""What proves who is at each end of a connection, and keeps others from reading along."""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

import grpc

from limelight.errors import InputError
from limelight.strings import check_string
from limelight.targets import is_local

_TOKEN = re.compile(r"[!-~]+")


class SecurityOptions(TypedDict, total=False):
    """How a client is sure of the server, and the server of the client.

    ca: file with the certificates (PEM) that the server's must be signed by; it turns TLS on.
    cert, key: files (PEM) of the client's own certificate and its key, for a server that wants one.
    tls: True for TLS with the certificates that gRPC brings, where `ca` is not given.
    server_name: the name in the server's certificate, where it is not the one that is connected to.
    token: what the server knows the caller by. It is sent with every call, and shown nowhere.
    insecure: True to send the token to another machine without TLS, where whoever is between can read and use it.
    """

    ca: str | os.PathLike[str] | None
    cert: str | os.PathLike[str] | None
    key: str | os.PathLike[str] | None
    tls: bool
    server_name: str | None
    token: str | None
    insecure: bool


@dataclass(frozen=True, kw_only=True)
class Security:
    """`SecurityOptions`, checked.

    Raises: InputError for a string that cannot be sent, ValueError for options that make no sense together, OSError for
    files not there.
    """

    ca: str | os.PathLike[str] | None = None
    cert: str | os.PathLike[str] | None = None
    key: str | os.PathLike[str] | None = None
    tls: bool = False
    server_name: str | None = None
    token: str | None = field(default=None, repr=False)
    insecure: bool = False

    def __post_init__(self) -> None:
        if (self.cert is None) is not (self.key is None):
            raise ValueError("cert and key are needed together: a certificate and its key")
        # gRPC's own error for metadata that it cannot send quotes it.
        if self.token is not None and not _TOKEN.fullmatch(self.token):
            place = getattr(_TOKEN.match(self.token), "end", int)()
            what = "it is empty, or has spaces, line ends or letters beyond ASCII"
            raise InputError(f"the token is no token: {what} (at character {place})")
        if self.server_name is not None:
            check_string(self.server_name, "server_name")

    @property
    def encrypted(self) -> bool:
        """True where TLS is asked for, in whatever way."""
        return self.tls or self.ca is not None or self.cert is not None

    def credentials(self) -> grpc.ChannelCredentials | None:
        """What gRPC needs for TLS; None without TLS. Raises: OSError where a file cannot be read."""
        if not self.encrypted:
            return None
        return grpc.ssl_channel_credentials(*(_read(each) for each in (self.ca, self.key, self.cert)))

    def options(self, *, encrypted: bool) -> tuple[tuple[str, int | str], ...]:
        """Channel options."""
        found: list[tuple[str, int | str]] = []
        if self.server_name:
            found.append(("grpc.ssl_target_name_override", self.server_name))
        if self.token is not None and not (encrypted or self.insecure):
            # A proxy is another machine, which could read the token.
            found.append(("grpc.enable_http_proxy", 0))
        return tuple(found)

    def metadata(self, target: str, *, encrypted: bool) -> tuple[tuple[str, str], ...]:
        """What is sent with every call. Raises: ValueError where the token could be read by others on its way."""
        if self.token is None:
            return ()
        if not (encrypted or self.insecure or is_local(target)):
            raise ValueError(
                "the token would be sent unencrypted to another machine: use TLS (ca, or tls), or say insecure"
            )
        return (("authorization", f"Bearer {self.token}"),)


def _read(path: str | os.PathLike[str] | None) -> bytes | None:
    return None if path is None else Path(path).read_bytes()
