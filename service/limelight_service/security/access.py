"""All that a server asks of those who call it, by its settings."""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc

from limelight_bundle.errors import LimelightError
from limelight_service.observability.metrics import Metrics
from limelight_service.security.caller import ANYBODY, Caller
from limelight_service.security.certificates import Certificates, read_certificates, server_credentials, tls_context
from limelight_service.security.exposure import open_to_all
from limelight_service.security.gate import Gate, caller_of
from limelight_service.security.tokens import Tokens, read_tokens
from limelight_service.security.watching import Watched, keep_fresh
from limelight_service.settings import Settings

logger = logging.getLogger(__name__)


class Access:
    """Reads the files of tokens and certificates, and again when they change. For one event loop.

    keep: told the names of all tokens, now and when they change.
    Raises: LimelightError where one cannot be used at first; files are read, so it is made in a thread.
    """

    def __init__(self, settings: Settings, metrics: Metrics, keep: Callable[[Collection[str]], None]) -> None:
        warning = open_to_all(settings)
        if warning is not None:
            logger.warning(warning)
        self._keep = keep
        self._metrics = metrics
        self._tokens: Watched[Tokens] | None = None
        self._certificates: Watched[Certificates] | None = None
        self._hurries: list[asyncio.Event] = []
        if settings.tokens:
            file = Path(settings.tokens)
            self._tokens = Watched("tokens", [file], lambda contents: read_tokens(contents[0]), metrics)
            self._use_tokens(self._tokens.value)
        if settings.tls_cert:
            paths = [Path(each) for each in (settings.tls_cert, settings.tls_key, settings.tls_client_ca) if each]
            self._certificates = Watched("certificate", paths, read_certificates, metrics)
            self._use_certificates(self._certificates.value)

    @asynccontextmanager
    async def kept_fresh(self) -> AsyncIterator[None]:
        """Read what changes again, for the length of a block."""
        keeping: list[Coroutine[Any, Any, None]] = []
        if self._tokens is not None:
            keeping.append(keep_fresh(self._tokens, self._use_tokens, self._hurry()))
        if self._certificates is not None:
            keeping.append(keep_fresh(self._certificates, self._use_certificates, self._hurry()))
        tasks = [asyncio.create_task(each) for each in keeping]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()

    def reread(self) -> None:
        """Read all files at once: they are complete, as whoever asks for it says."""
        for each in self._hurries:
            each.set()

    def _hurry(self) -> asyncio.Event:
        self._hurries.append(asyncio.Event())
        return self._hurries[-1]

    def interceptors(
        self, services: Collection[str], refuse: Callable[[str, LimelightError], Any]
    ) -> tuple[grpc.aio.ServerInterceptor, ...]:
        """Give what stands before every handler: nothing where no tokens are asked for. Arguments: those of `Gate`."""
        tokens = self._tokens
        if tokens is None:
            return ()
        return (Gate(lambda: tokens.value, services, refuse, self._metrics),)

    def caller(self, presented: Sequence[str]) -> Caller:
        """Find who calls over HTTP by its `authorization`; anybody where no tokens are asked for.

        Raises: UnauthenticatedError.
        """
        tokens = self._tokens
        return ANYBODY if tokens is None else caller_of(tokens.value, presented, self._metrics)

    def tls_context(self) -> ssl.SSLContext | None:
        """Make what encrypts HTTP, by the certificates of the moment; None where there is no certificate."""
        certificates = self._certificates
        return None if certificates is None else tls_context(lambda: certificates.value)

    def add_port(self, server: grpc.aio.Server, address: str) -> int:
        """Have a server listen, encrypted where there is a certificate; gives the port.

        Raises: RuntimeError where it cannot.
        """
        certificates = self._certificates
        if certificates is None:
            return int(server.add_insecure_port(address))
        return int(server.add_secure_port(address, server_credentials(lambda: certificates.value)))

    def _use_tokens(self, tokens: Tokens) -> None:
        self._keep(tokens.names)

    def _use_certificates(self, certificates: Certificates) -> None:
        self._metrics.certificate(certificates.expires)
