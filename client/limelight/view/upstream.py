"""The server whose calls are passed on: its HTTP port, TLS, and the caller's token."""

import http.client
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

import grpc

from limelight.base.errors import Error, InputError
from limelight.base.printing import printable
from limelight.security import Security

MOST_BYTES = 2**28
"""Of an answer that is held in memory."""


class NotHttpError(Exception):
    """The server at the address does not speak the protocol over HTTP."""


@dataclass(frozen=True)
class Upstream:
    """The HTTP port of a server.

    Attributes:
        timeout: seconds that a piece of an answer may take.
        server_name: name in the server's certificate, if it differs from the host.
        has_identity: whether calls carry rights of the caller: a token, or a client's certificate.
        headers: of every call; the caller's token is among them.
    """

    host: str
    port: int
    timeout: float
    tls: ssl.SSLContext | None = None
    server_name: str | None = None
    has_identity: bool = False
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def address(self) -> str:
        """Host and port, as people write them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def connect(self) -> http.client.HTTPConnection:
        """Return a connection, which opens with its first call."""
        if self.tls is not None:
            return _TlsConnection(self.host, self.port, self.timeout, self.tls, self.server_name or self.host)
        return http.client.HTTPConnection(self.host, self.port, timeout=self.timeout)

    def check(self) -> None:
        """List the models once.

        Raises:
            OSError: no server answers.
            NotHttpError: something else answers, such as the gRPC port.
            PermissionError: the token has no right to list models.
        """
        connection = self.connect()
        try:
            connection.request("GET", "/v1/models", headers=dict(self.headers))
            response = connection.getresponse()
            body = read_whole(response)
            if response.status in (401, 403):
                raise PermissionError(read_error(response.status, body).message)
            if response.status == 200 and not isinstance(json.loads(body), dict):
                raise NotHttpError
            if response.status == 404:
                raise NotHttpError
        except (http.client.HTTPException, ValueError, RecursionError) as error:
            raise NotHttpError from error
        finally:
            connection.close()


def read_whole(response: http.client.HTTPResponse) -> bytes:
    """Read the body of an answer. Raises ValueError for one without an end."""
    body = response.read(MOST_BYTES + 1)
    if len(body) > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES} bytes")
    return body


def read_error(status: int, body: bytes) -> Error:
    """Read the error that an answer tells; of one that is none of the protocol, its status of HTTP."""
    try:
        told = json.loads(body)["error"]
        return Error(printable(str(told["message"])), code=grpc.StatusCode[told["status"]])
    except (ValueError, LookupError, TypeError, RecursionError):
        return Error(f"the server answered with HTTP status {status}")


class _TlsConnection(http.client.HTTPConnection):
    """A connection to a server whose certificate may have another name than its host."""

    def __init__(self, host: str, port: int, timeout: float, context: ssl.SSLContext, name: str) -> None:
        super().__init__(host, port, timeout=timeout)
        self._context = context
        self._name = name

    def connect(self) -> None:
        super().connect()
        self.sock = self._context.wrap_socket(self.sock, server_hostname=self._name)


def upstream_at(address: str, security: Security, *, timeout: float) -> Upstream:
    """Read an address: `HOST:PORT`, with or without `http://` or `https://`.

    Raises:
        InputError: the address is none.
        ValueError: third parties could read the token.
        OSError: a certificate cannot be read.
    """
    scheme, mark, rest = address.rpartition("://")
    try:
        place = urlsplit(f"//{rest.removesuffix('/')}")
        host, port = place.hostname, place.port
    except ValueError:
        host = port = None
    if scheme not in ("", "http", "https") or not host or not port or place.path or place.query or place.username:
        raise InputError(f"the address of a server's HTTP port is HOST:PORT, not {address!r}")
    if mark and (scheme == "https") is not security.encrypted:
        if security.encrypted:
            raise InputError(f"{address!r} is not encrypted, and options of TLS are given")
        security = replace(security, tls=True)
    headers = dict(security.metadata(place.netloc, encrypted=security.encrypted))
    tls = None
    if security.encrypted:
        tls = ssl.create_default_context(cafile=security.ca)
        if security.cert is not None:
            tls.load_cert_chain(security.cert, security.key)
    return Upstream(
        host,
        port,
        timeout,
        tls,
        security.server_name,
        security.token is not None or security.cert is not None,
        {name.title(): value for name, value in headers.items()},
    )
