"""A frontend that loses the connection to an engine which goes on asks its supervisor for another."""

import asyncio
import socket
from contextlib import suppress

from limelight_service.ipc import control
from limelight_service.ipc.control import ControlLink
from limelight_service.ipc.remote import RemoteEngine
from limelight_service.supervisor.frontend_process import FrontendServing


class Nobody:
    """Listens to an engine, and does nothing."""

    def __getattr__(self, name: str) -> object:
        return lambda *_: None


def test_a_lost_connection_is_asked_for_again() -> None:
    async def test() -> None:
        ours, supervisors = socket.socketpair()
        told: asyncio.Queue[object] = asyncio.Queue()
        supervisor = ControlLink(supervisors, lambda message, _: told.put_nowait(message), lambda: None)
        engine = RemoteEngine(2**20)
        engine.listen(Nobody())  # type: ignore[arg-type]
        link = ControlLink(ours, lambda message, attached: serving.receive(message, attached), lambda: None)
        serving = FrontendServing([engine], link, succeeds=False)
        near, far = socket.socketpair()
        supervisor.send(control.Attach(0), near)
        while not engine.is_attached:
            await asyncio.sleep(0.01)
        with suppress(TimeoutError):
            assert await asyncio.wait_for(told.get(), 1.0) is None  # nothing is asked while it is there
        far.close()
        assert await asyncio.wait_for(told.get(), 30.0) == control.Disconnected(0)
        near, far = socket.socketpair()
        supervisor.send(control.Attach(0), near)
        while not engine.is_attached:
            await asyncio.sleep(0.01)
        engine.close()
        far.close()
        link.close()
        supervisor.close()

    asyncio.run(test())
