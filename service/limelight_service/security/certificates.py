"""The server's certificate: tried before it is used, and exchanged while calls go on."""

import os
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import grpc

from limelight_bundle.errors import LimelightError
from limelight_service.platform.threads import background

_NO_CHECK_TIME = 0x200000  # X509_V_FLAG_NO_CHECK_TIME, which the ssl module has no name for
_BEYOND_ANY_HANDSHAKE = 10


class CertificateError(LimelightError):
    """A certificate, key or authority that cannot be used; the message says why."""


@dataclass(frozen=True, eq=False)
class Certificates:
    """Files of a TLS handshake. client_ca: None where callers show no certificate. expires: seconds since 1970."""

    chain: bytes
    key: bytes
    client_ca: bytes | None
    expires: float

    def configuration(self) -> grpc.ServerCertificateConfiguration:
        """Make what gRPC takes."""
        return grpc.ssl_server_certificate_configuration([(self.key, self.chain)], root_certificates=self.client_ca)


def read_certificates(contents: Sequence[bytes]) -> Certificates:
    """Try certificates with a handshake of their own, and take them.

    contents: of the certificate with its chain, its key, and of the authorities of callers' where there are any.
    Raises: CertificateError where they do not belong together.
    """
    chain, key, *rest = contents
    expires = _expiry(_tried(chain, key))
    if rest:
        _check_authorities(rest[0])
    return Certificates(chain, key, rest[0] if rest else None, expires)


def server_credentials(current: Callable[[], Certificates]) -> grpc.ServerCredentials:
    """Make credentials that use the certificates of the moment. gRPC asks before each handshake, on threads of its own.

    What it is given is not compared with what it has, so nothing is given where nothing has changed.
    """
    used = current()

    def changed() -> grpc.ServerCertificateConfiguration | None:
        nonlocal used
        found = current()
        if found is used:
            return None
        used = found
        return found.configuration()

    return grpc.dynamic_ssl_server_credentials(
        used.configuration(), changed, require_client_authentication=used.client_ca is not None
    )


def tls_context(current: Callable[[], Certificates]) -> ssl.SSLContext:
    """Make a server's context that uses the certificates of the moment, for TLS 1.2 and 1.3.

    OpenSSL asks for another context in each handshake, whether or not the other side names the server it wants.
    """
    used = current()
    outer = inner = _context(used)

    def choose(connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        nonlocal used, inner
        found = current()
        if found is not used:
            used, inner = found, _context(found)
        connection.context = inner

    outer.sni_callback = choose
    return outer


def _context(certificates: Certificates) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    with _readable(certificates.chain) as chain, _readable(certificates.key) as key:
        context.load_cert_chain(chain, key, password=lambda: "")
    if certificates.client_ca is not None:
        context.load_verify_locations(cadata=certificates.client_ca.decode("ascii"))
        context.verify_mode = ssl.CERT_REQUIRED
    return context


@contextmanager
def _readable(data: bytes) -> Iterator[str]:
    """Give data as a path that can be read once: `ssl` takes nothing else, and a key is written to no disk."""
    reading, writing = os.pipe()

    def write() -> None:
        with suppress(BrokenPipeError), open(writing, "wb") as pipe:  # whoever reads it may have had enough
            pipe.write(data)

    writer = background(write, "certificate")
    writer.start()
    try:
        yield f"/dev/fd/{reading}"
    finally:
        os.close(reading)
        writer.join()


def _tried(chain: bytes, key: bytes) -> dict[str, Any]:
    """Shake hands with oneself, and give what the other side learns of the certificate."""
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        with _readable(chain) as chain_path, _readable(key) as key_path:
            server.load_cert_chain(chain_path, key_path, password=lambda: "")  # else OpenSSL would ask the terminal
        client.load_verify_locations(cadata=chain.decode("ascii"))
    except (OSError, ValueError) as error:
        raise CertificateError(f"certificate and key do not belong together, or one is not PEM: {error}") from error
    client.check_hostname = False
    client.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN | _NO_CHECK_TIME
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (client.wrap_bio(back, there), server.wrap_bio(there, back, server_side=True))
    try:
        for _ in range(_BEYOND_ANY_HANDSHAKE):
            if sum(map(_goes_on, ends)) == 0:
                break
    except ssl.SSLError as error:
        raise CertificateError(f"no handshake succeeds with them: {error}") from error
    return dict(ends[0].getpeercert() or {})


def _goes_on(end: ssl.SSLObject) -> bool:
    try:
        end.do_handshake()
    except ssl.SSLWantReadError:
        return True
    return False


def _expiry(certificate: dict[str, Any]) -> float:
    try:
        return float(ssl.cert_time_to_seconds(certificate["notAfter"]))
    except (KeyError, ValueError) as error:
        raise CertificateError("the certificate does not say until when it is good") from error


def _check_authorities(data: bytes) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cadata=data.decode("ascii"))
    except (OSError, ValueError) as error:
        raise CertificateError(f"the authorities of callers' certificates are not PEM: {error}") from error
    if not context.get_ca_certs():
        raise CertificateError("among the authorities of callers' certificates is none that may sign others")
