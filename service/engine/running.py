"""A running engine: provider, scheduler and models put together, in whatever process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from service.checking.checker import Checks
from service.engine.engine import Engine
from service.engine.host import EngineHost
from service.engine.loading import Loader
from service.engine.opening import open_model
from service.engine.runtime.arena import share_arena
from service.engine.runtime.providers import choose_provider, cuda_of, runtime
from service.engine.store import ModelStore
from service.observability.metrics import Metrics
from service.platform.collector import collected_between_turns
from service.platform.memory import give_back_when_quiet
from service.settings import Settings


@asynccontextmanager
async def running_engine(settings: Settings, metrics: Metrics, checks: Checks) -> AsyncIterator[EngineHost]:
    """Run an engine for the length of a block; its models are not loaded yet.

    Raises: LimelightError where the provider cannot be had.
    """
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(collected_between_turns())
        provider = await asyncio.to_thread(
            choose_provider,
            settings.provider,
            workers=settings.lanes,
            cores=settings.core_count,
            cuda=cuda_of(settings),
        )
        share_arena(runtime(), settings.run_bytes)
        engine = Engine(settings, provider, observer=metrics)
        loader = Loader(settings, provider, checks, metrics, engine.run_task, open_model)
        store = ModelStore(settings, provider, loader.load, observer=metrics)
        stack.callback(store.close)
        await engine.start()
        stack.push_async_callback(engine.stop, 0.0)  # by then the calls are finished, or have had their grace
        giving_back = give_back_when_quiet(lambda: engine.admitted, store.shrink)
        stack.callback(asyncio.create_task(giving_back).cancel)
        store.on_free(engine.forget)
        engine.on_stuck(store.take_out)
        yield EngineHost(engine, store)
