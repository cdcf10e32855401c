"""One connection: how many there are at the same time, and how long one may be silent within a request's head."""

import asyncio
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

CONNECTION = "limelight.connection"  # its key in a request's scope
_HEAD_SECONDS = 10.0  # in which a request's head arrives, and the rest of a body whose answer was sent before its end


class Connection(H11Protocol):
    """uvicorn's connection, closed where it is one too many, or where a head or a refused body takes too long.

    uvicorn itself bounds neither: it closes connections only that are silent after an answer.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._answer = self.app
        self._timer: asyncio.TimerHandle | None = None
        self.app = self._with_connection

    @property
    def _is_quiet(self) -> bool:
        """True while no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, or close at once where there are too many."""
        super().connection_made(transport)
        if len(self.connections) > self.app_state["connections"]:
            transport.abort()
        else:
            self._expect()

    def data_received(self, data: bytes) -> None:
        """Take what has arrived, and wait for the rest of a head for so long."""
        super().data_received(data)
        if self._is_quiet:
            self._expect()
        else:
            self._expect_nothing()

    def on_response_complete(self) -> None:
        """Go on to the next request; what is left of the body of this one is read and thrown away for a while.

        A connection that is closed on what is still being sent is reset, and its caller may never see the answer.
        """
        super().on_response_complete()
        if self._is_quiet and self.cycle is not None and self.cycle.more_body:
            self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._expect_nothing()
        super().connection_lost(exc)

    def abort(self) -> None:
        """Close the connection at once, whatever waits to be sent."""
        self.transport.abort()

    async def _with_connection(self, scope: Any, receive: Any, send: Any) -> None:
        scope[CONNECTION] = self
        await self._answer(scope, receive, send)

    def _expect(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(_HEAD_SECONDS, self.abort)

    def _expect_nothing(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
