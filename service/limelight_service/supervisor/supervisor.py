"""Starts frontends and engines, connects each to each, restarts those that end, counts for them and stops them."""

import asyncio
import contextlib
import itertools
import logging
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from limelight_bundle.errors import LimelightError
from limelight_service.checking.cache import checks_for
from limelight_service.checking.shared import Once
from limelight_service.checking.verdict import Request, to_json
from limelight_service.errors import ErrorRecord, ModelUnavailableError, error_of, record_of
from limelight_service.ipc import control
from limelight_service.ipc.control import ControlLink
from limelight_service.observability.build import tell_build
from limelight_service.observability.counters import Snapshot
from limelight_service.observability.exposition import joined, without_gauges
from limelight_service.observability.logs import count_dropped
from limelight_service.observability.metrics import MODEL_READY, Metrics
from limelight_service.observability.metrics_server import MetricsServer
from limelight_service.platform.addresses import reserved
from limelight_service.process_signals import spared
from limelight_service.settings import Settings
from limelight_service.supervisor.desired import DesiredState
from limelight_service.supervisor.model_control import ModelControl
from limelight_service.supervisor.restarts import Restarts
from limelight_service.supervisor.served import Served

logger = logging.getLogger(__name__)

ENGINE, FRONTEND = "engine", "frontend"
_CHECKS = 32  # threads that wait for checks of bundles
_MARGIN = 2.0  # seconds that a process gets beyond drain and grace
_COUNTING = 1.0  # seconds that a process gets to send its metrics; after that, those that it sent last are taken


@dataclass(eq=False)
class _Child:
    """A process.

    ready: when it became so. snapshot, statistics: its metrics and its statistics, as it sent them last.
    """

    role: str
    number: int
    process: asyncio.subprocess.Process
    link: ControlLink
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    counted: asyncio.Event = field(default_factory=asyncio.Event)
    ready: float | None = None
    failure: str = ""
    snapshot: Snapshot | None = None
    statistics: Snapshot | None = None


class Supervisor(Served):
    """The processes of one server. For one event loop.

    settings: of the whole server; each process gets its share of cores and memory.
    """

    def __init__(self, settings: Settings, port: int, http_port: int = 0) -> None:
        super().__init__(settings, port, http_port, 0)
        self._frontends, self._engines = settings.frontends, len(settings.devices)
        self._metrics = Metrics(settings.core_count)
        self._desired = DesiredState(settings)
        self._loop = asyncio.get_running_loop()
        self._children: dict[tuple[str, int], _Child] = {}
        self._past: list[Snapshot] = []  # of processes that ended
        self._past_statistics: list[Snapshot] = []
        self._control = ModelControl(self._desired, self)
        self._is_open = False
        self._stopping = asyncio.Event()
        self._started: asyncio.Future[None] = self._loop.create_future()
        self._keeping: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._checks = Once(checks_for(settings))
        self._checking = ThreadPoolExecutor(_CHECKS, "check")
        self._numbers = itertools.count()
        self._changing: dict[int, asyncio.Future[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._following: asyncio.Task[None] | None = None

    def expose(self, stack: AsyncExitStack) -> None:
        """Serve the metrics of all processes until the stack is left, where the settings ask for it."""
        if self.settings.metrics_port:
            exposed = MetricsServer(self.settings.metrics_host, self.settings.metrics_port, self._snapshots)
            stack.push_async_callback(asyncio.to_thread, exposed.stop)  # a page that is being written needs this loop
            self.metrics_port = exposed.port

    async def start(self) -> None:
        """Start all processes, and wait until every one is ready.

        Raises: LimelightError where the repository cannot be read, or a process cannot serve.
        """
        count_dropped(self._metrics.log_line_dropped)
        tell_build(self._metrics, self.settings)
        await self._desired.find()
        for role, count in ((ENGINE, self._engines), (FRONTEND, self._frontends)):
            for number in range(count):
                self._keeping[role, number] = asyncio.create_task(self._keep(role, number))
        await self._started
        if self.settings.model_control == "poll":
            self._following = asyncio.create_task(self._control.follow(self.settings.poll_seconds))

    async def finish(self) -> None:
        """Have every process stop in order, frontends first, and wait until they have; kill those that do not."""
        self._stopping.set()
        if self._following is not None:
            self._following.cancel()
        self._checking.shutdown(wait=False, cancel_futures=True)
        self._checks.close()
        if not self._is_open:  # nobody was told that it serves: there is nothing to finish
            self.kill()
        await self._stop(FRONTEND, _MARGIN + self.settings.drain_seconds + self.settings.grace_seconds)
        await self._stop(ENGINE, _MARGIN)
        if not self._started.done():
            self._started.cancel()

    def kill(self) -> None:
        """End every process at once, and those that check bundles."""
        self._checks.close()
        for child in self._children.values():
            with contextlib.suppress(ProcessLookupError):
                child.process.kill()

    async def _stop(self, role: str, patience: float) -> None:
        for child in self._children.values():
            if child.role == role:
                child.link.send(control.Stop())
        keeping = [task for (each, _), task in self._keeping.items() if each == role]
        if keeping:
            _, late = await asyncio.wait(keeping, timeout=patience)
            if late:
                logger.error("%d processes (%s) did not stop in time and are killed", len(late), role)
                for child in self._children.values():
                    if child.role == role:
                        child.process.kill()
                await asyncio.wait(late)

    async def _keep(self, role: str, number: int) -> None:
        """Keep one process running until all are to stop."""
        restarts = Restarts()
        while not self._stopping.is_set():
            ended, served = await self._run(role, number)
            if self._stopping.is_set():
                return
            self._metrics.process_ended(role)
            if not self._is_open:
                if not self._started.done():
                    self._started.set_exception(LimelightError(ended))
                return
            is_last = role == FRONTEND and not any(each.role == FRONTEND for each in self._children.values())
            pause = restarts.pause(served, is_last=is_last)
            logger.error("%s; another takes its place %s", ended, f"in {pause:g} s" if pause else "at once")
            if role == ENGINE:
                self._send(FRONTEND, control.Starts(number, pause))
            if pause:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), pause)

    async def _run(self, role: str, number: int) -> tuple[str, float]:
        """Run one process to its end; gives how it ended, and the seconds that it was ready."""
        try:
            child = await self._spawn(role, number)
        except OSError as error:
            return f"{role} {number} cannot be started: {error.strerror}", 0.0
        self._children[role, number] = child
        child.link.send(self._begin(role, number))
        for other in list(self._children.values()):
            if other.role != role:
                _connect(child, other)
        if self._stopping.is_set():
            child.link.send(control.Stop())
        await child.ended.wait()
        child.link.close()
        status = await child.process.wait()
        del self._children[role, number]
        child.counted.set()
        self._count_processes()
        for future in self._changing.values():
            if role == ENGINE and not future.done():
                future.set_exception(ModelUnavailableError("an engine ended meanwhile; try again later"))
        if child.snapshot is not None:
            self._past = [joined([*self._past, without_gauges(child.snapshot)])]
        if child.statistics is not None:
            self._past_statistics = [joined([*self._past_statistics, child.statistics])]
        served = 0.0 if child.ready is None else time.monotonic() - child.ready
        return child.failure or f"{role} {number} (process {child.process.pid}) {_ended(status)}", served

    async def _spawn(self, role: str, number: int) -> _Child:
        """Start a process: a new interpreter, since nothing of gRPC or a runtime survives a fork.

        It ignores the signals that stop a server: this process alone stops all in order, whoever else gets the signal.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            descriptor = theirs.fileno()
            program = (
                f"import sys; sys.path[:] = {sys.path!r}; "
                f"from limelight_service.supervisor.processes import main; main({role!r}, {descriptor})"
            )
            try:
                with spared():
                    process = await asyncio.create_subprocess_exec(
                        *(sys.executable, "-c", program),
                        stdin=subprocess.DEVNULL,
                        pass_fds=(descriptor,),
                        process_group=0,
                    )
            except OSError:
                ours.close()
                raise
        ended = asyncio.Event()
        child: _Child
        link = ControlLink(ours, lambda message, _: self._receive(child, message), ended.set)
        child = _Child(role, number, process, link, ended)
        return child

    def _begin(self, role: str, number: int) -> control.Begin:
        settings = self.settings
        if role == ENGINE:
            share = replace(
                settings,
                cores=max(1, settings.core_count // self._engines),
                gpu_devices=str(settings.devices[number]),
                max_run_bytes=settings.run_bytes // self._engines,
                metrics_port=0,
            )
            folders = [(*key, str(path)) for key, path in self._desired.folders.items()]
            return control.Begin(number, asdict(share), folders, self._frontends, self._is_open)
        share = replace(
            settings,
            port=self.port,
            http_port=self.http_port,
            max_held_bytes=settings.held_bytes // self._frontends,
            max_arriving_bytes=settings.arriving_bytes // self._frontends,
            response_cache_bytes=settings.response_cache_bytes // self._frontends,
            preprocess_threads=max(1, settings.preprocess_count // self._frontends),
            metrics_port=0,
        )
        return control.Begin(number, asdict(share), [], self._engines, self._is_open)

    def _receive(self, child: _Child, message: Any) -> None:
        match message:
            case control.Ready():
                child.ready = time.monotonic()
                self._open()
            case control.Failed():
                child.failure = message.message
            case control.Counted():
                child.snapshot, child.statistics = message.snapshot, message.statistics
                child.counted.set()
            case control.Statistics():
                self._remember(asyncio.create_task(self._tell_statistics(child, message.number)))
            case control.Check() if not self._stopping.is_set():
                self._checking.submit(self._check, child, message)
            case control.Change():
                self._remember(asyncio.create_task(self._change(child, message)))
            case control.Disconnected():
                engine = self._children.get((ENGINE, message.number))
                if engine is not None and not engine.ended.is_set():
                    _connect(child, engine)
            case control.Changed():
                future = self._changing.get(message.number)
                if future is not None and not future.done():
                    if message.error is None:
                        future.set_result(None)
                    else:
                        future.set_exception(error_of(message.error))

    def _check(self, child: _Child, message: control.Check) -> None:
        """In a thread: check a bundle for an engine."""
        request = Request.from_json(message.request)
        try:
            verdict: bytes | None = to_json(self._checks.check(request.folder, request.provider, request.settings))
        except LimelightError:
            verdict = None
        self._loop.call_soon_threadsafe(child.link.send, control.Checked(message.number, verdict))

    async def _change(self, asking: _Child, message: control.Change) -> None:
        """Load or unload a version in every engine, for a frontend."""
        error: ErrorRecord | None = None
        version = message.version
        try:
            version = await self._control.change(message.action, message.name, message.version)
        except LimelightError as failure:
            error = record_of(failure)
        asking.link.send(control.Changed(message.number, error, version))

    async def load(self, name: str, version: int, folder: Path) -> None:
        """As `Engines.load`."""
        await self._change_engines("load", name, version, str(folder))

    async def unload(self, name: str, version: int) -> None:
        """As `Engines.unload`."""
        await self._change_engines("unload", name, version)

    async def ready(self) -> Mapping[tuple[str, int], bool]:
        """As `Engines.ready`."""
        families = joined(await self._counted())
        if MODEL_READY not in families:
            return {}
        return {(name, int(version)): value > 0 for (name, version), (value,) in families[MODEL_READY]["series"]}

    async def _tell_statistics(self, asking: _Child, number: int) -> None:
        await self._counted()
        found = [each.statistics for each in self._children.values() if each.statistics is not None]
        asking.link.send(control.Statistics(number, dict(joined([*self._past_statistics, *found]))))

    def reread(self) -> None:
        """As `Served.reread`."""
        self._send(FRONTEND, control.Reread())
        self._control.look_now()

    def _remember(self, task: "asyncio.Task[None]") -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _change_engines(self, action: str, name: str, version: int, path: str = "") -> None:
        waiting = []
        for child in self._children.values():
            if child.role == ENGINE:
                number = next(self._numbers)
                self._changing[number] = self._loop.create_future()
                waiting.append(number)
                child.link.send(control.Change(number, action, name, version, path))
        try:
            results = await asyncio.gather(*(self._changing[each] for each in waiting), return_exceptions=True)
        finally:
            for each in waiting:
                del self._changing[each]
        for result in results:
            if isinstance(result, BaseException):
                raise result

    def _send(self, role: str, message: control.Starts | control.Reread) -> None:
        for child in self._children.values():
            if child.role == role:
                child.link.send(message)

    def _open(self) -> None:
        self._count_processes()
        if self._is_open or len(self._ready()) < self._frontends + self._engines:
            return
        self._is_open = True
        self._checks.forget()
        if not self._started.done():
            self._started.set_result(None)

    def _ready(self) -> list[_Child]:
        return [each for each in self._children.values() if each.ready is not None]

    def _count_processes(self) -> None:
        for role in (ENGINE, FRONTEND):
            self._metrics.processes(role, sum(each.role == role for each in self._ready()))

    def _snapshots(self) -> Sequence[Snapshot]:
        """Ask every process for its metrics; for a thread of its own."""
        running = asyncio.run_coroutine_threadsafe(self._counted(), self._loop).result()
        return [self._metrics.snapshot(), *running, *self._past]

    async def _counted(self) -> list[Snapshot]:
        children = list(self._children.values())
        for child in children:
            child.counted.clear()
            child.link.send(control.Count())
        if children:
            waiting = [asyncio.ensure_future(each.counted.wait()) for each in children]
            _, late = await asyncio.wait(waiting, timeout=_COUNTING)
            for each in late:
                each.cancel()
        return [each.snapshot for each in children if each.snapshot is not None]


@asynccontextmanager
async def supervised(settings: Settings, made: "list[Supervisor] | None" = None) -> AsyncIterator[Supervisor]:
    """Run a server of several processes for the length of a block. Inside, its models are loaded.

    Args:
        made: gets the supervisor as soon as there is one, before it has started anything.

    Raises:
        LimelightError: a port is taken, the repository cannot be read, or a process cannot serve.
    """
    async with AsyncExitStack() as stack:
        port = stack.enter_context(reserved(settings.host, settings.port))
        http_port = stack.enter_context(reserved(settings.host, settings.http_port)) if settings.http_port else 0
        supervisor = Supervisor(settings, port, http_port)
        if made is not None:
            made.append(supervisor)
        supervisor.expose(stack)
        stack.push_async_callback(supervisor.finish)
        await supervisor.start()
        yield supervisor


def _connect(one: _Child, other: _Child) -> None:
    """Connect a frontend and an engine."""
    ends = socket.socketpair()
    one.link.send(control.Attach(other.number), ends[0])
    other.link.send(control.Attach(one.number), ends[1])


def _ended(status: int) -> str:
    return f"ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
