"""The methods of a service whose calls another process answers: each call is handed on, and its answer handed back.

What would be late is refused here, before it costs the other process anything: by what that has said with its last
answer of what a call of the kind would find (`Outlook`).
"""

import asyncio
import logging
import pickle
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterator
from contextlib import asynccontextmanager
from functools import lru_cache, partial
from typing import Any

from google.protobuf.message import Message

from limelight.v1 import service_pb2
from service.access.caller import ANYBODY, Caller
from service.admission.window import Window
from service.apart.link import End, Kind, Link
from service.apart.outlooks import Outlooks
from service.engine.observer import Rejection
from service.errors import ModelUnavailableError, QueueFullError
from service.observability.metrics import Metrics
from service.rpc.call import Call, Method, StreamHandler, StreamMethod, UnaryHandler, UnaryMethod
from service.rpc.status import StatusError

logger = logging.getLogger(__name__)

_MOST_KINDS = 1024
_TAKEN, _TAKEN_BYTES = 8, 512 * 1024  # of a stream, after which the other process is told
_ASKED_AGAIN, _MOST_UNANSWERED = 1.0, 5  # seconds, and how often: then a process that is there answers no calls either
_FEW_UNANSWERED = 2  # and how often until no more calls are handed on meanwhile
# Calls that it is handed at most before it has answered: more than its queues hold.
_MOST_HANDED_ON = 4096
_STARTS = 2.0  # seconds in which a process that ended has a successor, about


class _HandedOn:
    """A call that is handed on, until the other process has done with it.

    link: by which, for a process that takes another's place knows nothing of it. size: bytes of its request. came:
    what has come back of it, as the link gives it. is_over: its last message has been taken.
    """

    def __init__(self, number: int, link: Link, outlooks: Outlooks, size: int) -> None:
        self.number = number
        self.link = link
        self.outlooks = outlooks
        self.size = size
        self.came: asyncio.Queue[tuple[Kind, Any, bytes]] = asyncio.Queue()
        self.is_over = False

    async def next(self, call: Call) -> tuple[bytes, bool]:
        """Wait for the next message, and whether it is the last: an answer, or the empty end of a stream.

        Raises: StatusError where the call is to end with a status; ModelUnavailableError where the other process ended.
        """
        kind, said, body = await self.came.get()
        if kind is Kind.MESSAGE:
            return body, False
        self.is_over = True
        if said is None:
            raise _unavailable()
        call.model, call.version, call.rows, call.durations, _, status = said
        if status is not None:
            raise StatusError(status)
        return body, True


class Remote:
    """The process that answers, for the one that takes calls. For one event loop.

    methods: of the service. heed: told whether any model answers, whenever that changes. asked: so many calls so far,
    those that were refused among them. arriving_bytes: of requests that it is handed at most before it has answered.
    """

    def __init__(self, metrics: Metrics, heed: Callable[[bool], None], arriving_bytes: int) -> None:
        self.methods = tuple(self._methods())
        self.asked = 0
        self._metrics = metrics
        self._heed = heed
        self._link: Link | None = None
        self._tokens: frozenset[str] = frozenset()
        self._calls: dict[int, _HandedOn] = {}
        self._window = Window(_MOST_HANDED_ON, arriving_bytes)
        self._number = 0
        self._is_ready = False
        self._unanswered = 0
        self._starts = 0.0  # when a process is started in the place of one that has ended, on `time.monotonic`'s clock
        # Of each kind of calls: a method, a model as requests write it, and how large they are about; its model's name.
        self._kinds: OrderedDict[tuple[str, bytes, int], tuple[str, Outlooks]] = OrderedDict()

    def keep(self, tokens: Collection[str]) -> None:
        """Say which tokens there are, by their names."""
        self._tokens = frozenset(tokens)
        if self._link is not None:
            self._link.send(Kind.TOKENS, said=self._tokens)

    async def begin(self) -> End:
        """Begin with a process that is about to start; gives its end of the link, where calls wait until it reads."""
        ours, theirs = End.pair()
        self._link = await Link.over(ours, self._receive)
        self._link.send(Kind.TOKENS, said=self._tokens)
        self._heard()
        self._ask(self._link)
        return theirs

    def end(self) -> None:
        """The process has ended: its calls are told so, and so are new ones until another starts."""
        if self._link is not None:
            self._link.close()
            self._link = None
        self._tell(False)
        for each in list(self._calls.values()):
            self._done(each)
            each.came.put_nowait((Kind.FAILED, None, b""))
        self._window.set_open(True)  # those that wait are told as well

    def starts_in(self, seconds: float) -> None:
        """Have calls come back so much later, where there is no process until then."""
        self._starts = time.monotonic() + seconds

    def _tell(self, ready: bool) -> None:
        self._is_ready = ready
        self._heed(ready)

    def _ask(self, link: Link) -> None:
        """Ask again and again whether the process is there: where its event loop does not go on, nothing else tells."""
        if link is not self._link:
            return
        if self._is_ready and self._unanswered >= _MOST_UNANSWERED:
            logger.error("what answers calls has not said for %g s that it is there", _MOST_UNANSWERED * _ASKED_AGAIN)
            self._tell(False)
        self._unanswered += 1
        if self._unanswered > _FEW_UNANSWERED:
            self._window.set_open(False)
        link.send(Kind.ASKED)
        asyncio.get_running_loop().call_later(_ASKED_AGAIN, self._ask, link)

    def _methods(self) -> Iterator[Method]:
        for each in service_pb2.DESCRIPTOR.services_by_name["AttentionService"].methods:
            request: type[Message] = getattr(service_pb2, each.input_type.name)
            if each.server_streaming:
                yield StreamMethod(each.name, request, self._stream(each.name))
            else:
                yield UnaryMethod(each.name, request, self._unary(each.name))

    def _unary(self, method: str) -> UnaryHandler:
        async def handle(request: bytes, call: Call) -> bytes:
            async with self._handed_on(method, request, call) as one:
                answer, _ = await one.next(call)
                return answer

        return handle

    def _stream(self, method: str) -> StreamHandler:
        async def handle(request: bytes, call: Call) -> AsyncGenerator[bytes, None]:
            taken = size = 0
            async with self._handed_on(method, request, call) as one:
                while True:
                    message, last = await one.next(call)
                    if last:
                        return
                    yield message
                    taken, size = taken + 1, size + len(message)
                    if taken >= _TAKEN or size >= _TAKEN_BYTES:
                        one.link.send(Kind.TAKEN, one.number, (taken, size))
                        taken = size = 0

        return handle

    @asynccontextmanager
    async def _handed_on(self, method: str, request: bytes, call: Call) -> AsyncIterator[_HandedOn]:
        """Hand a call on, once there is room, until it is answered. Raises: QueueFullError where it would be late."""
        self.asked += 1
        kind = method, _model_of(request), len(request).bit_length() // 2
        call.model, outlooks = self._kinds.get(kind) or ("", Outlooks())
        self._check(outlooks, call)
        with outlooks.under_way():
            await self._window.enter(len(request))
            if self._link is None:
                self._window.leave(len(request))
            link = self._linked()
            self._number += 1
            one = self._calls[self._number] = _HandedOn(self._number, link, outlooks, len(request))
            call.when_sent(partial(self._ended, one))
            caller = None if call.caller is ANYBODY else _written(call.caller)
            said = method, call.identity, call.deadline, caller, hash(kind)
            one.link.send(Kind.CALL, one.number, said, request)
            yield one
        self._kinds[kind] = call.model, outlooks  # only of what was answered: names that callers invent are not kept
        self._kinds.move_to_end(kind)
        if len(self._kinds) > _MOST_KINDS:
            self._kinds.popitem(last=False)

    def _check(self, outlooks: Outlooks, call: Call) -> None:
        """Raise QueueFullError where a call would be late, ModelUnavailableError where nothing answers."""
        late = outlooks.late(call.deadline)
        if late > 0:
            self._metrics.rejected(Rejection.OVERLOAD, 1)
            raise QueueFullError("so much is waiting that the answer would be late; try again later", retry_after=late)
        self._linked()

    def _linked(self) -> Link:
        """Give the link. Raises: ModelUnavailableError where nothing answers."""
        if self._link is None:
            raise _unavailable(max(0.0, self._starts - time.monotonic()))
        return self._link

    def _ended(self, one: _HandedOn) -> None:
        one.link.send(Kind.ENDED, one.number, patient=one.is_over)

    def _done(self, one: _HandedOn) -> None:
        """The other process has done with a call."""
        if self._calls.pop(one.number, None) is not None:
            self._window.leave(one.size)

    def _heard(self) -> None:
        self._unanswered = 0
        self._window.set_open(True)

    def _receive(self, kind: Kind, number: int, said: Any, body: bytes) -> None:
        if kind is Kind.READY:
            ready, outlooks = said
            self._heard()
            self._tell(ready)
            for other, outlook in outlooks:
                if (one := self._calls.get(other)) is not None:
                    one.outlooks.learn(outlook)
        elif (one := self._calls.get(number)) is not None:
            if kind is not Kind.MESSAGE:
                outlook = said if kind is Kind.DROPPED else said[4]
                if outlook is not None:
                    one.outlooks.learn(outlook)
                self._done(one)
            one.came.put_nowait((kind, said, body))


def _unavailable(starts_in: float = 0.0) -> ModelUnavailableError:
    return ModelUnavailableError("what answers calls is starting; try again soon", retry_after=starts_in + _STARTS)


def _model_of(request: bytes) -> bytes:
    """Find what a request says of its model: its first field, where it is there and short."""
    size = request[1] if len(request) > 1 and request[0] == 0x0A else 0
    return request[2 : 2 + size] if size < 128 else b""


_written = lru_cache(256)(pickle.dumps)


def caller_of(written: bytes | None) -> Caller:
    """Read who calls, as it is handed on."""
    return ANYBODY if written is None else _read(written)


@lru_cache(256)
def _read(written: bytes) -> Caller:
    caller: Caller = pickle.loads(written)
    return caller
