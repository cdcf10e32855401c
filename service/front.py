"""What takes calls: the port, who is let in, how requests arrive and answers leave, and health."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any

from google.protobuf.message import Message

from service.access.access import Access
from service.admission.connections import ConnectionQueues
from service.listening import listen
from service.observability.metrics import Metrics
from service.rpc.aside import HEALTH_SERVICE, MOMENT, PLACES, REFLECTION_SERVICE, health_service, reflection_service
from service.rpc.budget import Budget
from service.rpc.call import SERVICE, Calls, Method
from service.rpc.delivery import Delivery
from service.rpc.door import Door
from service.rpc.health import Health
from service.rpc.reading import Reading
from service.rpc.reception import Places, Reception
from service.rpc.servicer import attention_service
from service.settings import Settings
from service.unsent import all_sent

_ARRIVING = 5.0  # seconds that the last answers get at most on their way to slow readers


class Front:
    """Takes calls of a service's methods. For one event loop.

    methods: what answers. parse: as `Reading` has it. health: says whether they are answered.
    """

    def __init__(
        self,
        settings: Settings,
        metrics: Metrics,
        access: Access,
        methods: Sequence[Method],
        parse: Callable[[type[Message], bytes], Awaitable[Any]],
    ) -> None:
        self.health = Health((SERVICE,))
        self._settings = settings
        self._access = access
        self._door = Door()
        places = Places.within(settings.arriving_bytes, settings.max_request_bytes)
        reception = Reception(places, settings.arrival_seconds, metrics)
        reading = Reading(reception, Budget(settings.arriving_bytes, "requests", metrics), parse)
        delivery = Delivery(settings.answer_seconds)
        connections = ConnectionQueues(settings.max_calls_per_connection, settings.pending_calls, metrics)
        self._calls = Calls(metrics, connections, reading, delivery, self._door)
        aside = Reception(PLACES, settings.arrival_seconds, metrics, MOMENT)
        self._services = {
            SERVICE: attention_service(methods, self._calls),
            HEALTH_SERVICE: health_service(self.health, aside, delivery),
        }
        if settings.reflection:
            self._services[REFLECTION_SERVICE] = reflection_service((SERVICE, HEALTH_SERVICE), aside, delivery)

    async def listen(self, stack: AsyncExitStack, *, shared: bool) -> int:
        """Answer calls until the stack is left, which finishes what is in flight; gives the port.

        shared: as `service.listening.listen` has it. Raises: LimelightError where the port is taken.
        """
        port = await listen(
            self._settings,
            self._services,
            self._access,
            self._access.interceptors(SERVICE, self._calls.refusal),
            stack,
            shared=shared,
            refused=self._calls.turned_away,
        )
        stack.push_async_callback(self._door.finish, self._settings.grace_seconds)
        stack.callback(self.health.stop)
        return port

    async def finish(self) -> None:
        """Stop in order, up to the point where no call is inside and none is let in.

        Report not ready, and give load balancers time to notice; calls are answered all the while. Then finish, and
        wait until answers have arrived.
        """
        self.health.stop()
        await asyncio.sleep(self._settings.drain_seconds)
        end = time.monotonic() + self._settings.grace_seconds
        await self._door.finish(self._settings.grace_seconds)
        await all_sent(min(_ARRIVING, end - time.monotonic()))
