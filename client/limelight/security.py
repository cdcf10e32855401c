"""Encryption and authentication of a connection."""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict, Unpack

import grpc

from limelight.base.errors import InputError
from limelight.base.strings import check_string
from limelight.base.suggestions import check_keywords
from limelight.targets import is_local

# Arguments of a client beside these options, for suggestions.
_OTHERS = ("target", "timeout", "max_response_bytes", "attempts", "credentials", "metadata", "options")
_TOKEN = re.compile(r"[!-~]+")


class SecurityOptions(TypedDict, total=False):
    """Options of TLS and of the caller's token.

    Attributes:
        ca: file of the certificates (PEM) that sign the server's certificate; enables TLS.
        cert, key: files (PEM) of the client's certificate and key, for mutual TLS.
        tls: True for TLS with gRPC's own root certificates, if `ca` is not given.
        server_name: name in the server's certificate, if it differs from the target.
        token: the caller's token. It is sent with every call and never displayed.
        insecure: True allows sending the token to another machine without TLS, where third parties can read it.
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
    """Validated `SecurityOptions`.

    Raises:
        InputError: a string cannot be sent.
        ValueError: options contradict one another.
        OSError: a file is missing.
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
        # gRPC's own error would display the token.
        if self.token is not None and not _TOKEN.fullmatch(self.token):
            place = getattr(_TOKEN.match(self.token), "end", int)()
            what = "it is empty, or has spaces, line ends or letters beyond ASCII"
            raise InputError(f"the token is invalid: {what} (at character {place})")
        if self.server_name is not None:
            check_string(self.server_name, "server_name")

    @property
    def encrypted(self) -> bool:
        """True if TLS is enabled by any option."""
        return self.tls or self.ca is not None or self.cert is not None

    def credentials(self) -> grpc.ChannelCredentials | None:
        """Return gRPC's channel credentials; None without TLS. Raises OSError if a file cannot be read."""
        if not self.encrypted:
            return None
        return grpc.ssl_channel_credentials(*(_read(each) for each in (self.ca, self.key, self.cert)))

    def options(self, *, encrypted: bool) -> tuple[tuple[str, int | str], ...]:
        """Return channel options."""
        found: list[tuple[str, int | str]] = []
        if self.server_name:
            found.append(("grpc.ssl_target_name_override", self.server_name))
        if self.token is not None and not (encrypted or self.insecure):
            # A proxy is another machine that could read the token.
            found.append(("grpc.enable_http_proxy", 0))
        return tuple(found)

    def metadata(self, target: str, *, encrypted: bool) -> tuple[tuple[str, str], ...]:
        """Return the metadata of every call. Raises ValueError if third parties could read the token."""
        if self.token is None:
            return ()
        if not (encrypted or self.insecure or is_local(target)):
            raise ValueError(
                "the token would be sent unencrypted to another machine: use TLS (ca or tls), or set insecure"
            )
        return (("authorization", f"Bearer {self.token}"),)


def _read(path: str | os.PathLike[str] | None) -> bytes | None:
    return None if path is None else Path(path).read_bytes()


def security_of(**options: Unpack[SecurityOptions]) -> Security:
    """Validate the options of a client. Raises TypeError for an unknown one, and what `Security` raises."""
    check_keywords(options, (*SecurityOptions.__optional_keys__, *_OTHERS), "Client()")
    return Security(**options)
