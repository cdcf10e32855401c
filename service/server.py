"""A running server: settings, repository, engine, metrics and health put together, and taken apart in good order."""

import asyncio
import gc
import logging
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from service.access.access import Access
from service.checking.cache import checks_for
from service.checking.checker import Checks
from service.collector import collected_between_turns
from service.engine.arena import share_arena
from service.engine.engine import Engine
from service.engine.providers import choose_provider, cuda_of, runtime
from service.listening import address_of, listen, metrics_url_of
from service.logs import count_dropped
from service.memory import give_back_when_quiet
from service.metrics import Metrics
from service.metrics_server import MetricsServer
from service.repository import Repository
from service.rpc.answering import Answering
from service.rpc.aside import HEALTH_SERVICE, MOMENT, PLACES, REFLECTION_SERVICE, health_service, reflection_service
from service.rpc.budget import Budget
from service.rpc.call import SERVICE, Calls
from service.rpc.delivery import Delivery
from service.rpc.door import Door
from service.rpc.health import Health
from service.rpc.listing import Listing
from service.rpc.reading import Reading
from service.rpc.reception import Places, Reception
from service.rpc.servicer import attention_service
from service.settings import Settings
from service.signals import leave, stop_signals
from service.unsent import all_sent

logger = logging.getLogger(__name__)

_SWITCH_SECONDS = 0.0005
_ARRIVING = 5.0  # seconds that the last answers get at most on their way to slow readers


@dataclass(frozen=True)
class Member:
    """A server that is one of several processes on one port. late: others answer already, so it listens once its models
    are loaded, and not before.
    """

    late: bool


class Server:
    """A server that accepts calls. port: the real one. metrics_port: 0 where none are served."""

    def __init__(
        self, settings: Settings, port: int, metrics_port: int, repository: Repository, health: Health, door: Door
    ) -> None:
        self.settings = settings
        self.port = port
        self.metrics_port = metrics_port
        self.repository = repository
        self._health = health
        self._door = door

    @property
    def address(self) -> str:
        """Where it listens, as clients take it."""
        return address_of(self.settings.host, self.port)

    @property
    def metrics_url(self) -> str:
        """Where metrics are; empty where none are served."""
        return metrics_url_of(self.settings.metrics_host, self.metrics_port)

    def open(self) -> None:
        """Report ready, if and as long as any model is."""
        self._heed()
        self.repository.on_change(self._heed)

    async def finish(self) -> None:
        """Stop in order, up to the point where no call is inside and none is let in.

        Report not ready, and give load balancers time to notice; calls are answered all the while. Then finish, and
        wait until answers have arrived.
        """
        self._health.stop()
        await asyncio.sleep(self.settings.drain_seconds)
        end = time.monotonic() + self.settings.grace_seconds
        await self._door.finish(self.settings.grace_seconds)
        await all_sent(min(_ARRIVING, end - time.monotonic()))

    def _heed(self) -> None:
        self._health.set(self.repository.is_ready)


@asynccontextmanager
async def running_server(
    settings: Settings,
    *,
    metrics: Metrics | None = None,
    member: Member | None = None,
    checks: Checks | None = None,
) -> AsyncIterator[Server]:
    """Run a server for the length of a block. Inside, its models are loaded; leaving finishes what is in flight.

    A process that serves nothing else ends inside the block, after `finish`: that tells clients to try elsewhere, where
    gRPC's own stop, which leaving comes to, would tell some that they gave up.
    Alone, it is then ready if any model is; a member of several says so once it is told to (`open`).
    checks: what checks bundles; None for processes of its own.
    Raises: LimelightError where a port is taken, the repository cannot be read, or the provider cannot be had.
    """
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(collected_between_turns())
        cores = settings.core_count
        provider = await asyncio.to_thread(
            choose_provider, settings.provider, lanes=settings.lanes, cores=cores, cuda=cuda_of(settings)
        )
        share_arena(runtime(), settings.run_bytes)
        metrics, health = metrics or Metrics(), Health((SERVICE,))
        access = await asyncio.to_thread(Access, settings, metrics)
        await stack.enter_async_context(access.kept_fresh())
        count_dropped(metrics.log_line_dropped)
        metrics_port = 0
        if settings.metrics_port:
            exposed = MetricsServer(metrics.page, settings.metrics_host, settings.metrics_port)
            stack.callback(exposed.stop)
            metrics_port = exposed.port
        if checks is None:
            checks = checks_for(settings)
            stack.callback(checks.close)
        repository = Repository(settings, provider, checks, observer=metrics)
        engine = Engine(settings, provider, observer=metrics)
        await engine.start()
        stack.push_async_callback(engine.stop, 0.0)  # by then the calls are finished, or have had their grace
        arriving = settings.arriving_bytes
        places = Places.within(arriving, settings.max_request_bytes)
        reception = Reception(places, settings.arrival_seconds, metrics)
        reading = Reading(reception, Budget(arriving, "requests", metrics), settings.max_request_fields)
        stack.callback(reading.close)
        # What was refused counts too: it has taken memory before that was known.
        asked = give_back_when_quiet(lambda: engine.admitted + reading.large, repository.shrink)
        stack.callback(asyncio.create_task(asked).cancel)
        delivery = Delivery(settings.answer_seconds)
        held = settings.held_bytes
        answers = Budget(held, "maps and answers", metrics, lanes=provider.lanes)
        answering = Answering(settings, repository, engine, metrics, answers, access.quotas)
        stack.callback(answering.close)
        repository.on_unload(engine.forget)
        engine.on_stuck(repository.take_out)
        repository.on_unload(answering.forget)
        door = Door()
        calls = Calls(metrics, reading, delivery, door)
        service = attention_service(answering, Listing(settings, repository, answers), calls)
        aside = Reception(PLACES, settings.arrival_seconds, metrics, MOMENT)
        services = {SERVICE: service, HEALTH_SERVICE: health_service(health, aside, delivery)}
        if settings.reflection:
            services[REFLECTION_SERVICE] = reflection_service((SERVICE, HEALTH_SERVICE), aside, delivery)
        interceptors = access.interceptors(SERVICE, calls.refusal)
        late = member is not None and member.late
        if late:
            loading = await repository.load_until_useful()
        port = await listen(
            settings,
            services,
            access,
            interceptors,
            stack,
            shared=member is not None,
            is_pressed=engine.is_pressed,
            refused=calls.turned_away,
        )
        stack.push_async_callback(door.finish, settings.grace_seconds)
        stack.callback(health.stop)
        if not late:
            loading = await repository.load_until_useful()
        stack.callback(loading.cancel)
        server = Server(settings, port, metrics_port, repository, health, door)
        if member is None:
            server.open()
        yield server


async def serve(settings: Settings, announce: Callable[[Server], None]) -> None:
    """Serve until a signal, then stop in order (`Server.finish`) and end the process with status 0.

    A second signal ends it at once, and so does one before the models are loaded.
    announce: called once the models are loaded and calls are answered.
    """
    checks = checks_for(settings)
    with stop_signals(at_once=checks.close) as stop:
        async with running_server(settings, checks=checks) as server:
            settle_interpreter()
            stop.serving()
            announce(server)
            await stop.signalled.wait()
            logger.info("stopping")
            await server.finish()
            checks.close()
            leave()


def settle_interpreter() -> None:
    """Set the interpreter up for a process that only serves, once its models are loaded.

    Its collector looks no more at what was loaded: with 500 models, each of its full rounds stopped every thread for 70
    ms on a busy machine, 10 with one model. What is unloaded goes without them: by its last reference.
    Threads take turns ten times as often: the event loop has a short turn to take for every call that arrives, and
    waited up to 5 ms for each of them beside lanes that build answers.
    """
    gc.collect()
    gc.freeze()
    sys.setswitchinterval(_SWITCH_SECONDS)
