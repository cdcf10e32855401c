"""The models that the engines of a server have, as one frontend knows them, and the engine that a call goes to."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import lru_cache, partial
from typing import Any

from limelight_bundle.errors import LimelightError
from limelight_bundle.preprocess import Bounds
from limelight_service.frontend.options import CallOptions, Wanted
from limelight_service.frontend.results import ResultBuilder, result_builders
from limelight_service.frontend.schema import ModelSchema
from limelight_service.frontend.sizes import AnswerSizes
from limelight_service.frontend.validation import check_options
from limelight_service.ipc.boundary import ServedModel
from limelight_service.ipc.client import EngineClient
from limelight_service.repository.catalogue import Catalogue, State, VersionStatus, everything
from limelight_service.repository.usage import Usage

logger = logging.getLogger(__name__)

_MOST_OPTIONS = 64  # that are kept checked, of each model
_Key = tuple[str, int]


class Model:
    """A version that can answer. Equal only to itself.

    engines: those that have it; there is always one while the catalogue has this.
    """

    def __init__(self, served: ServedModel, bounds: Bounds) -> None:
        """Read what preprocessing needs; for any thread. Raises: BundleError."""
        self.schema = ModelSchema(served, bounds)
        self.builders: dict[str, ResultBuilder] = result_builders(self.schema.description)
        self.sizes = AnswerSizes(self.schema, self.builders)
        self.engines: list[EngineClient] = []
        # Not a cache of a method, which would keep an unloaded model until the next collection of cycles.
        self._wanted = lru_cache(_MOST_OPTIONS)(partial(check_options, self.schema))

    def check(self, options: CallOptions, limit: int) -> Wanted:
        """Check a call's options, equal ones once. limit: bytes of the answer. Raises: as `check_options`."""
        attention = options.attention
        if attention is not None and (attention.query_groups or attention.key_groups):
            return check_options(self.schema, options, limit)  # such plans keep what groups found in instances
        return self._wanted(options, limit)

    def engine(self) -> EngineClient:
        """Choose the engine with the shorter wait; of equal ones that with fewer rows of this frontend."""
        if len(self.engines) == 1:
            return self.engines[0]
        key = self.schema.name, self.schema.version
        return min(self.engines, key=lambda each: (each.wait(*key).seconds, each.under_way(*key)))


class Models:
    """Follows the models of all engines. For one event loop.

    catalogue: each version as callers are told of it: ready where any engine has it. on_gone: called with a version
    that is gone, once no call uses it.
    """

    def __init__(self, engines: Sequence[EngineClient], bounds: Bounds) -> None:
        self.catalogue: Catalogue[Model] = Catalogue()
        self.catalogue.is_complete = False
        self._bounds = bounds
        self._found: dict[_Key, Model] = {}  # by what callers named, until something changes
        self._usage: Usage[Model] = Usage()
        self._tasks: set[asyncio.Task[None]] = set()
        self._followers = [_Follower(self, engine) for engine in engines]
        self._loaded = asyncio.Event()
        self._changed = asyncio.Event()  # another one after each change
        self.catalogue.on_change(self._note_change)
        self._listeners: list[Callable[[], None]] = []
        self.on_gone: Callable[[str, int], None] = lambda name, version: None
        for follower in self._followers:
            follower.engine.listen(follower)

    @property
    def is_ready(self) -> bool:
        """True where some model can answer and its engine responds."""
        return any(each.is_alive for each in self._followers) and self.catalogue.is_ready

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call a function after each change of `is_ready`, and at other times too."""
        self._listeners.append(listener)
        self.catalogue.on_change(listener)

    async def loaded(self) -> None:
        """Wait until every engine has what its start waits for, and this frontend knows it."""
        await self._loaded.wait()

    async def settled(self, name: str, version: int) -> None:
        """Wait until a version that engines have loaded or refused is known here as such."""
        while True:
            changed = self._changed
            status = self.catalogue.get(name, version)
            if status is not None and (status.state is not State.LOADING or status.reason):
                return
            await changed.wait()

    def take(
        self, name: str, version: int = 0, *, sees: Callable[[str], bool] = everything
    ) -> tuple[Model, Callable[[], None]]:
        """Find a version that can answer, and keep it until the returned function is called; it is not freed before.

        Raises: as `Catalogue.resolve`.
        """
        model = self._found.get((name, version)) if sees(name) else None
        if model is None:
            model = self.catalogue.resolve(name, version, sees=sees).model
            assert model is not None
            self._found[name, version] = model
        self._usage.enter(model)
        return model, partial(self._usage.leave, model)

    def _note_change(self) -> None:
        self._found.clear()
        self._changed.set()
        self._changed = asyncio.Event()

    def close(self) -> None:
        """Follow nothing any more."""
        for task in self._tasks:
            task.cancel()

    def settle(self, key: _Key) -> None:
        """Work out the status of a version from those of all engines."""
        statuses = [each.statuses[key] for each in self._followers if key in each.statuses]
        known = self.catalogue.get(*key)
        if not statuses:
            if known is not None:
                self.catalogue.drop(*key)
            return
        engines = [each.engine for each in self._followers if key in each.models]
        model = next((each.models[key] for each in self._followers if key in each.models), None)
        if model is not None:
            model.engines = engines
            status = VersionStatus(*key, State.READY, model=model)
        else:
            loading = [each for each in statuses if each.state is not State.FAILED]
            state, reason = (State.LOADING, loading[0].reason) if loading else (State.FAILED, statuses[0].reason)
            status = VersionStatus(*key, state, reason)
        if known is None or (known.state, known.reason, known.model) != (status.state, status.reason, status.model):
            self.catalogue.keep(status)

    def begin_model(self, follower: "_Follower", served: ServedModel) -> None:
        """Prepare a version that an engine has loaded."""
        key = served.name, served.version
        same = [each.models[key] for each in self._followers if key in each.models]
        if same and same[0].schema.served.digest == served.digest:
            follower.models[key] = same[0]
            self.settle(key)
        else:
            # Both at once: the engine may say in the same breath that it has loaded all.
            if self.catalogue.get(*key) is None:
                self.settle(key)  # as being loaded
            follower.preparing[key] = self._start(self._prepare(follower, follower.statuses[key], served))

    def end_model(self, follower: "_Follower", key: _Key, model: Model | None) -> None:
        """Release a version of an engine once no call uses it."""
        self._start(self._release(follower, key, model))

    def drop_model(self, follower: "_Follower", key: _Key) -> None:
        """Take a version out that an engine has unloaded.

        Where another version of the model is being prepared, this one answers until that can take its place.
        """
        status = follower.statuses.get(key)
        coming = [task for (name, _), task in follower.preparing.items() if name == key[0]]

        async def drop_later() -> None:
            await asyncio.wait(coming)
            if follower.statuses.get(key) is status:
                follower.drop(key)

        if key in follower.models and coming:
            self._start(drop_later())
        else:
            follower.drop(key)

    def notify(self) -> None:
        """Tell listeners that an engine responds, or does not."""
        for listener in self._listeners:
            listener()

    def check_loaded(self) -> None:
        """Note whether every engine has loaded what its start waits for, and so has told of every version."""
        if all(each.is_loaded for each in self._followers):
            self.catalogue.is_complete = True
        if all(each.is_loaded and not each.preparing for each in self._followers):
            self._loaded.set()

    async def _prepare(self, follower: "_Follower", status: VersionStatus[ServedModel], served: ServedModel) -> None:
        key = served.name, served.version
        try:
            model = await asyncio.to_thread(Model, served, self._bounds)
        except LimelightError as error:
            logger.error("%s version %d cannot be served: %s", *key, error.message)
            failed = VersionStatus[ServedModel](*key, State.FAILED, error.message)
            if follower.statuses.get(key) is status:
                follower.statuses[key] = failed
        else:
            if follower.statuses.get(key) is status:
                follower.models[key] = model
        finally:
            if follower.preparing.get(key) is asyncio.current_task():
                del follower.preparing[key]
        self.settle(key)
        self.check_loaded()

    async def _release(self, follower: "_Follower", key: _Key, model: Model | None) -> None:
        if model is not None:
            await self._usage.unused(model)
        follower.engine.release(*key)
        if self.catalogue.get(*key) is None:
            self.on_gone(*key)

    def _start(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


class _Follower:
    """The state of one engine. statuses: of each version. models: those that are ready here."""

    def __init__(self, models: Models, engine: EngineClient) -> None:
        self.engine = engine
        self.statuses: dict[_Key, VersionStatus[ServedModel]] = {}
        self.models: dict[_Key, Model] = {}
        self.preparing: dict[_Key, asyncio.Task[None]] = {}
        self.is_loaded = False
        self.is_alive = True
        self._all = models
        self._announced: set[_Key] = set()  # by the engine's present process

    def model_changed(self, name: str, version: int, state: State, reason: str, served: ServedModel | None) -> None:
        """As `ModelListener.model_changed`."""
        key = name, version
        self.is_alive = True
        self._announced.add(key)
        before = self.models.pop(key, None)
        if served is None:
            self.statuses[key] = VersionStatus(name, version, state, reason)
            self._all.settle(key)
            if state is State.FAILED:
                self._all.end_model(self, key, before)
        else:
            self.statuses[key] = VersionStatus(name, version, State.LOADING)  # until it is prepared here
            self._all.begin_model(self, served)

    def model_gone(self, name: str, version: int) -> None:
        """As `ModelListener.model_gone`."""
        self._all.drop_model(self, (name, version))

    def drop(self, key: _Key) -> None:
        """Take a version out."""
        self.statuses.pop(key, None)
        before = self.models.pop(key, None)
        self._all.settle(key)
        self._all.end_model(self, key, before)

    def loaded(self) -> None:
        """As `ModelListener.loaded`."""
        for key in self.statuses.keys() - self._announced:  # unloaded before this process of the engine began
            del self.statuses[key]
            self._all.settle(key)
        self.is_loaded = True
        self._all.check_loaded()

    def engine_lost(self) -> None:
        """As `ModelListener.engine_lost`: every version waits for the engine's successor."""
        self.is_alive = self.is_loaded = False
        self.models.clear()
        self._announced.clear()
        for key in list(self.statuses):
            self.statuses[key] = VersionStatus(*key, State.LOADING, "its engine is starting again")
            self._all.settle(key)
        self._all.notify()

    def engine_silent(self, silent: bool) -> None:
        """As `ModelListener.engine_silent`."""
        self.is_alive = not silent
        self._all.notify()
