"""Answers the calls that another process takes and hands on."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, aclosing, asynccontextmanager
from typing import Any

from service.access.quotas import Quotas
from service.apart.link import End, Kind, Link
from service.apart.remote import caller_of
from service.backend import Backend, running_backend
from service.checking.checker import Checks
from service.errors import StoppingError
from service.folders import Folders
from service.observability.logs import count_dropped
from service.observability.metrics import Metrics
from service.rpc.call import Call, StreamMethod, serialised, told_of
from service.rpc.room import Written
from service.rpc.status import Status, status_of
from service.settings import Settings
from service.signals import INTERRUPTED, leave

_RETRY_AFTER = 1.0
_AHEAD, _AHEAD_BYTES = 16, 2**20  # of a stream, before its reader has taken any


class _Answering:
    """A call that is being answered. kind: of calls that would find the same. ahead: messages of its stream that are
    not taken yet, and their bytes.
    """

    def __init__(self, call: Call, kind: int) -> None:
        self.call = call
        self.kind = kind
        self.ahead = self.ahead_bytes = 0
        self.taken = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    async def room(self) -> None:
        """Wait until another message may be sent."""
        while self.ahead and (self.ahead >= _AHEAD or self.ahead_bytes >= _AHEAD_BYTES):
            self.taken.clear()
            await self.taken.wait()


class Back:
    """Answers what comes on a link, with a backend. For one event loop."""

    def __init__(self, backend: Backend, quotas: Quotas) -> None:
        self._backend = backend
        self._quotas = quotas
        self._methods = {each.name: each for each in backend.methods}
        self._calls: dict[int, _Answering] = {}
        self._is_ready = False  # as it was told

    async def attach(self, end: End) -> None:
        """Begin to answer."""
        self._link = await Link.over(end, self._receive, lambda: leave(INTERRUPTED))  # then nobody hands anything on

    def open(self) -> None:
        """Report ready, if and as long as any model is."""
        self._heed()
        self._backend.repository.on_change(self._heed)

    async def finish(self) -> None:
        """Stop: whoever takes calls has finished them by then."""

    def _heed(self) -> None:
        self._is_ready = self._backend.repository.is_ready
        self._tell_ready()

    def _tell_ready(self) -> None:
        """Tell it, and with it what calls would find: where none ends for a while, nothing else does."""
        kinds = {one.kind: (number, one.call.outlook) for number, one in self._calls.items()}
        outlooks = [(number, outlook()) for number, outlook in kinds.values() if outlook is not None]
        self._link.send(Kind.READY, said=(self._is_ready, outlooks))

    def _receive(self, kind: Kind, number: int, said: Any, body: bytes) -> None:
        if kind is Kind.TOKENS:
            self._quotas.keep(said)
        elif kind is Kind.ASKED:
            self._tell_ready()
        elif kind is Kind.CALL:
            method, identity, deadline, caller, alike = said
            call = Call(identity, deadline, ExitStack(), caller_of(caller), room=self._link.room)
            one = self._calls[number] = _Answering(call, alike)
            one.task = asyncio.create_task(self._answer(number, one, method, body))
        elif kind is Kind.ENDED:
            self._end(number, self._calls.pop(number))
        elif (one_taken := self._calls.get(number)) is not None:
            messages, size = said
            one_taken.ahead -= messages
            one_taken.ahead_bytes -= size
            one_taken.taken.set()

    def _end(self, number: int, one: _Answering) -> None:
        """A call has ended: stop answering it, and then let go of what it holds."""
        assert one.task is not None
        if one.task.done():
            one.call.at_end.close()
        else:
            one.task.add_done_callback(lambda _: self._drop(number, one.call))
            one.task.cancel()

    def _drop(self, number: int, call: Call) -> None:
        outlook = None if call.outlook is None else call.outlook()
        call.at_end.close()
        self._link.send(Kind.DROPPED, number, outlook, patient=True)

    async def _answer(self, number: int, one: _Answering, name: str, request: bytes) -> None:
        method, call, link = self._methods[name], one.call, self._link
        status: Status | None = None
        answer: Written = b""
        try:
            message = await self._backend.parsing.message(method.request, request)
            del request
            if isinstance(method, StreamMethod):
                async with aclosing(method.handle(message, call)) as messages:
                    async for each in messages:
                        await one.room()
                        data = serialised(each)
                        one.ahead, one.ahead_bytes = one.ahead + 1, one.ahead_bytes + len(data)
                        link.send(Kind.MESSAGE, number, None, data)
            else:
                answer = serialised(await method.handle(message, call))
        except asyncio.CancelledError:
            if number not in self._calls:
                raise  # it has ended
            status = status_of(StoppingError("the answer was given up", retry_after=_RETRY_AFTER), call.identity)
        except Exception as error:
            status = told_of(error, call.identity, name)
        outlook = None if call.outlook is None else call.outlook()
        said = call.model, call.version, call.rows, call.durations, outlook, status
        link.send(Kind.ANSWER if status is None else Kind.FAILED, number, said, answer)


@asynccontextmanager
async def running_back(
    settings: Settings, end: End, metrics: Metrics, checks: Checks, folders: Folders
) -> AsyncIterator[Back]:
    """Answer what is handed on for the length of a block. Inside, models are loaded.

    end: of the link, which `Remote.begin` has made. folders: of the versions there are.
    Raises: LimelightError as `running_backend`.
    """
    async with AsyncExitStack() as stack:
        count_dropped(metrics.log_line_dropped)
        quotas = Quotas(metrics)
        backend = await stack.enter_async_context(
            running_backend(settings, metrics, checks, quotas, takes_calls=False, folders=folders)
        )
        back = Back(backend, quotas)
        await back.attach(end)
        loading = await backend.repository.load_until_useful()
        stack.callback(loading.cancel)
        yield back
