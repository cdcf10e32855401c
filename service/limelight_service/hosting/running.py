"""A running engine: provider, scheduler and models put together, in whatever process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from limelight_service.checking.checker import Checks
from limelight_service.engine.engine import Engine
from limelight_service.engine.opening import open_model
from limelight_service.engine.runtime.arena import share_arena
from limelight_service.engine.runtime.providers import choose_provider, cuda_of, runtime
from limelight_service.hosting.host import EngineHost
from limelight_service.hosting.loading import Loader
from limelight_service.hosting.store import ModelStore
from limelight_service.observability.metrics import Metrics
from limelight_service.observability.saturation import Part
from limelight_service.platform.collector import collected_between_turns
from limelight_service.platform.memory import give_back_when_quiet
from limelight_service.settings import Settings


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
        metrics.loop(Part.ENGINES)
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
