"""Several processes that answer on one port, and the one that starts them, counts for them and stops them in order.

A process of Python runs one thread of it at a time: small models are answered faster by several, each with every model
and a share of the cores. The kernel gives each connection to one of them. The first process answers nothing itself.
"""

import asyncio
import contextlib
import logging
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from bundle.errors import LimelightError
from service.apart.remote import Remote
from service.channel import Begin, Channel, Check, Checked, Count, Counted, Failed, Loaded, Open, Stop
from service.checking.cache import checks_for
from service.checking.shared import Once
from service.checking.verdict import Verdict
from service.folders import Folders, scan
from service.listening import Reachable, address_of, check_free
from service.observability.counters import Snapshot
from service.observability.exposition import joined, without_gauges
from service.observability.logs import count_dropped
from service.observability.metrics import Metrics
from service.observability.metrics_server import MetricsServer
from service.settings import Settings
from service.signals import leave, spared, stop_signals
from service.skipped import nothing_to_serve, tell_what_there_is

logger = logging.getLogger(__name__)

_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0  # seconds before a worker that keeps ending is started again
_STEADY = 60.0  # a worker that lived so long ended by accident
_CHECKS = 32  # threads that wait for checks of bundles
_MARGIN = 2.0  # what a worker gets beyond drain and grace; one that takes no calls itself gets no more than this
_COUNTING = 1.0  # what a worker gets to tell what it counted; after that, what it told last is taken


async def serve(settings: Settings, announce: Callable[[Reachable], None]) -> None:
    """Serve with several workers until a signal, then have each stop in order, and end the process with status 0.

    A second signal ends all at once, and so does one before they have their models.
    announce: called once every worker has its models and answers.
    Raises: LimelightError where a port is taken, or a worker cannot serve.
    """
    async with AsyncExitStack() as stack:
        port = stack.enter_context(_reserved(settings.host, settings.port))
        metrics = Metrics()
        count_dropped(metrics.log_line_dropped)
        workers = Workers(replace(settings, port=port), metrics)
        stop = stack.enter_context(stop_signals(at_once=workers.kill))
        metrics_port = workers.expose(stack)
        stack.push_async_callback(workers.stop)
        await workers.start()
        stop.serving()
        announce(Reachable(settings, port, metrics_port))
        await stop.signalled.wait()
        logger.info("stopping")
        await workers.stop()
        leave()


@dataclass(eq=False)
class _Worker:
    """A worker's process. snapshot: what it told last of what it counted."""

    number: int
    process: asyncio.subprocess.Process
    channel: Channel
    loaded: bool = False
    failure: str = ""
    snapshot: Snapshot | None = None
    counted: asyncio.Event = field(default_factory=asyncio.Event)


class Workers:
    """The workers of one server. All methods but `snapshots` are for the event loop of whoever made it.

    settings: those of the whole server; each worker gets its share of cores and memory. remote: hands calls on to the
    only worker, where workers take none themselves.
    """

    def __init__(self, settings: Settings, metrics: Metrics, remote: Remote | None = None) -> None:
        self._settings = replace(
            settings,
            cores=max(1, settings.core_count // settings.workers),
            max_held_bytes=settings.held_bytes // settings.workers,
            max_arriving_bytes=settings.arriving_bytes // settings.workers,
            max_run_bytes=settings.run_bytes // settings.workers,
            metrics_port=0,
            workers=1,
        )
        self._count_of_workers = settings.workers
        self._metrics_port = settings.metrics_port
        self._metrics = metrics
        self._remote = remote
        self._folders: Folders | None = None
        self._loop = asyncio.get_running_loop()
        self._running: dict[int, _Worker] = {}
        self._ended: Snapshot = {}
        self._opened = False
        self._stopping = asyncio.Event()
        self._started: asyncio.Future[None] = self._loop.create_future()
        self._keeping: list[asyncio.Task[None]] = []
        self._checks = Once(checks_for(settings))
        self._checking = ThreadPoolExecutor(_CHECKS, "check")

    def expose(self, stack: AsyncExitStack) -> int:
        """Serve the metrics of all together until the stack is left, where the settings ask for it; gives the port, 0
        for none.
        """
        if not self._metrics_port:
            return 0
        exposed = MetricsServer(self._settings.metrics_host, self._metrics_port, self.snapshots)
        stack.push_async_callback(asyncio.to_thread, exposed.stop)  # a page that is being written needs this loop
        return exposed.port

    async def start(self) -> None:
        """Start all workers and wait until all have loaded their models, then open them.

        Raises: LimelightError where the repository cannot be read, or one of them cannot serve.
        """
        repository = Path(self._settings.repository)
        self._folders = found = await asyncio.to_thread(scan, repository)
        await asyncio.to_thread(tell_what_there_is, repository, found)
        self._keeping = [asyncio.create_task(self._keep(number)) for number in range(self._count_of_workers)]
        await self._started

    def nothing_to_serve(self) -> str:
        """Say that there is no model; empty where there is one, or nobody has looked yet."""
        return "" if self._folders is None else nothing_to_serve(self._folders)

    async def stop(self) -> None:
        """Have every worker stop in order, at the same time, and wait until they have; kill what does not."""
        self._stopping.set()
        self._checking.shutdown(wait=False, cancel_futures=True)
        self._checks.close()
        for worker in self._running.values():
            worker.channel.send(Stop())
        patience = _MARGIN
        if self._remote is None:
            patience += self._settings.drain_seconds + self._settings.grace_seconds
        if self._keeping:
            _, late = await asyncio.wait(self._keeping, timeout=patience)
            if late:
                logger.error("%d workers did not stop in time and are killed", len(late))
                self.kill()
                await asyncio.wait(late)
        if not self._started.done():
            self._started.cancel()

    def kill(self) -> None:
        """End every worker at once, and what checks bundles."""
        self._checks.close()
        for worker in self._running.values():
            with contextlib.suppress(ProcessLookupError):
                worker.process.kill()

    def snapshots(self) -> list[Snapshot]:
        """Ask every worker for its metrics; for a thread of its own."""
        running = asyncio.run_coroutine_threadsafe(self._counted(), self._loop).result()
        return [self._metrics.snapshot(), *running, self._ended]

    async def _counted(self) -> list[Snapshot]:
        workers = list(self._running.values())
        for worker in workers:
            worker.counted.clear()
            worker.channel.send(Count())
        if workers:
            await asyncio.wait([asyncio.ensure_future(each.counted.wait()) for each in workers], timeout=_COUNTING)
        return [each.snapshot for each in workers if each.snapshot is not None]

    async def _keep(self, number: int) -> None:
        """Keep one worker running until all are to stop."""
        pause = _SHORTEST_PAUSE
        while not self._stopping.is_set():
            began = time.monotonic()
            ended = await self._run(number)
            if self._stopping.is_set():
                return
            self._metrics.worker_ended()
            if not self._opened:
                if not self._started.done():
                    self._started.set_exception(LimelightError(ended))
                return
            logger.error("%s; another takes its place", ended)
            pause = _SHORTEST_PAUSE if time.monotonic() - began > _STEADY else min(2 * pause, _LONGEST_PAUSE)
            if self._remote is not None:
                self._remote.starts_in(pause)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause)

    async def _run(self, number: int) -> str:
        """Run one worker to its end; gives how it ended."""
        try:
            worker = await self._spawn(number)
        except OSError as error:
            return f"worker {number} cannot be started: {error.strerror}"
        self._running[number] = worker
        worker.channel.send(Begin(number, self._settings, late=self._opened, folders=self._folders or {}))
        if self._stopping.is_set():
            worker.channel.send(Stop())
        while (message := await worker.channel.receive()) is not None:
            if isinstance(message, Loaded):
                worker.loaded = True
                self._open()
            elif isinstance(message, Counted):
                worker.snapshot = message.snapshot
                worker.counted.set()
            elif isinstance(message, Failed):
                worker.failure = message.message
            elif isinstance(message, Check) and not self._stopping.is_set():
                self._checking.submit(self._check, worker, message)
        worker.channel.close()
        if self._remote is not None:
            self._remote.end()
        status = await worker.process.wait()
        del self._running[number]
        worker.counted.set()
        self._metrics.workers(sum(each.loaded for each in self._running.values()))
        if worker.snapshot is not None:
            self._ended = joined([self._ended, without_gauges(worker.snapshot)])
        return worker.failure or f"worker {number} (process {worker.process.pid}) {_ended(status)}"

    async def _spawn(self, number: int) -> _Worker:
        """Start a worker's process: a new interpreter, since nothing of gRPC or a runtime survives a fork.

        Signals that stop a server are the affair of this process alone, which stops all in order: whoever sends them,
        a terminal or a service manager, may send them to all.
        """
        with ExitStack() as stack:
            ours, theirs = socket.socketpair()
            descriptors = [stack.enter_context(theirs).fileno()]
            if self._remote is not None:
                end = stack.enter_context(closing(await self._remote.begin()))
                descriptors += end.descriptors
            program = f"import sys; sys.path[:] = {sys.path!r}; from service.worker import main; main(*{descriptors})"
            try:
                with spared():
                    process = await asyncio.create_subprocess_exec(
                        *(sys.executable, "-c", program),
                        stdin=subprocess.DEVNULL,
                        pass_fds=descriptors,
                        process_group=0,
                    )
            except OSError:
                ours.close()
                raise
        return _Worker(number, process, await Channel.over(ours))

    def _check(self, worker: _Worker, message: Check) -> None:
        """In a thread: check a bundle for a worker."""
        request = message.request
        try:
            found: Verdict | None = self._checks.check(request.folder, request.provider, request.settings)
        except LimelightError:
            found = None
        self._loop.call_soon_threadsafe(worker.channel.send, Checked(message.number, found))

    def _open(self) -> None:
        """Once every worker has its models: let them all say that they are ready; later, whoever has them."""
        loaded = [each for each in self._running.values() if each.loaded]
        self._metrics.workers(len(loaded))
        if self._opened or len(loaded) == self._count_of_workers:
            self._opened = True
            self._checks.forget()
            for worker in loaded:
                worker.channel.send(Open())
            if not self._started.done():
                self._started.set_result(None)


def _ended(status: int) -> str:
    return f"ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"


@contextmanager
def _reserved(host: str, port: int) -> Iterator[int]:
    """Hold an address for workers that share it, against every other server; gives the port.

    Raises: LimelightError where it cannot be listened on.
    """
    check_free(host, port)
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        held = socket.socket(family, kind, protocol)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            held.bind(place)
        except OSError:  # connections of an earlier server linger there
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.bind(place)
    except OSError as error:
        raise LimelightError(f"cannot listen on {address_of(host, port)}: {error.strerror}") from error
    with held:
        yield held.getsockname()[1]
