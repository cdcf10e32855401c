"""What both clients are: settings of a connection, and descriptions of models that were asked for."""

from collections.abc import Sequence
from typing import NoReturn, Unpack

import grpc

from limelight import transport
from limelight.base.addresses import DEFAULT_TARGET
from limelight.descriptions import Model
from limelight.security import SecurityOptions, security_of


class Connection:
    """The arguments, settings and known models of a client."""

    def __init__(
        self,
        target: str = DEFAULT_TARGET,
        *,
        timeout: float | None = transport.DEFAULT_TIMEOUT,
        max_response_bytes: int = transport.DEFAULT_MAX_RESPONSE_BYTES,
        attempts: int = 4,
        credentials: grpc.ChannelCredentials | None = None,
        metadata: Sequence[tuple[str, str | bytes]] = (),
        options: Sequence[tuple[str, int | str]] = (),
        **security: Unpack[SecurityOptions],
    ) -> None:
        self._settings = transport.Settings(
            target=target,
            timeout=timeout,
            max_response_bytes=max_response_bytes,
            attempts=attempts,
            credentials=credentials,
            security=security_of(**security),
            metadata=tuple(metadata),
            options=tuple(options),
        )
        # Described models, by name and requested version.
        self._models: dict[tuple[str, int], Model] = {}
        self._open()

    def __reduce__(self) -> NoReturn:
        raise TypeError(transport.NOT_COPIED)

    def _open(self) -> None:
        """Open what a connection needs from its beginning."""

    def _keep(self, described: Model, name: str, version: int) -> Model:
        """Keep a description, unless it is of a model that is loading, which tells no inputs yet."""
        if described.inputs:
            self._models[name, version] = described
        return described

    def _timeout(self, timeout: float | None) -> float | None:
        return self._settings.timeout if timeout is None else transport.check_timeout(timeout)
