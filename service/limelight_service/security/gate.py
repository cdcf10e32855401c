"""The gate: whoever calls says who they are before a byte of what they send is taken."""

import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Any

import grpc
from grpc_health.v1 import health_pb2

from limelight_bundle.errors import LimelightError
from limelight_service.errors import UnauthenticatedError
from limelight_service.observability.metrics import Metrics
from limelight_service.security.caller import Caller, calling
from limelight_service.security.tokens import Tokens

_OPEN = f"/{health_pb2.DESCRIPTOR.services_by_name['Health'].full_name}/"
_SCHEME = "bearer"


class Gate(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Lets calls in by their token. Health is open to everybody: those who ask it, load balancers, have none.

    tokens: those that count now. services: whose methods tokens name. refuse: makes the handler of a call that is not
    let in, by `service/method`.
    """

    def __init__(
        self,
        tokens: Callable[[], Tokens],
        services: Collection[str],
        refuse: Callable[[str, LimelightError], Any],
        metrics: Metrics,
    ) -> None:
        self._tokens = tokens
        self._services = frozenset(services)
        self._refuse = refuse
        self._metrics = metrics
        metrics.tokens_needed()

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], details: Any) -> Any:
        """Choose the handler of a call that begins."""
        path: str = details.method
        if path.startswith(_OPEN):
            return await continuation(details)
        service, _, method = path.removeprefix("/").partition("/")
        try:
            caller = self._caller(details.invocation_metadata or ())
            calling.set(caller)  # from here on, what is counted and logged of the call has its name
            if service in self._services:
                caller.check_method(method)
        except LimelightError as error:
            return self._refuse(path.removeprefix("/"), error)
        return await continuation(details)

    def _caller(self, metadata: Iterable[tuple[str, str | bytes]]) -> Caller:
        """Find the caller. Raises: UnauthenticatedError."""
        presented = [value for key, value in metadata if key == "authorization"]
        return caller_of(self._tokens(), presented, self._metrics)


def caller_of(tokens: Tokens, presented: Sequence[str | bytes], metrics: Metrics) -> Caller:
    """Find the caller by what it has in `authorization`, and count one that cannot be found.

    Raises: UnauthenticatedError.
    """
    try:
        return tokens.caller(_token(presented), time.time())
    except UnauthenticatedError as error:
        metrics.unauthenticated(error.reason)
        raise


def _token(presented: Sequence[str | bytes]) -> str:
    if not presented:
        raise UnauthenticatedError(
            "this server wants a token, in the metadata or header: authorization: Bearer TOKEN", reason="missing"
        )
    scheme, _, token = presented[0].partition(" ") if isinstance(presented[0], str) else ("", "", "")
    if len(presented) > 1 or scheme.lower() != _SCHEME or not token:
        raise UnauthenticatedError("a call is to have one authorization: Bearer TOKEN", reason="malformed")
    return token
