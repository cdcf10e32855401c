"""What answers calls: models, the engine, and the methods made of them. How calls come is not its affair."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from service.access.quotas import Quotas
from service.checking.checker import Checks
from service.collector import collected_between_turns
from service.engine.arena import share_arena
from service.engine.engine import Engine
from service.engine.providers import choose_provider, cuda_of, runtime
from service.folders import Folders
from service.memory import give_back_when_quiet
from service.observability.metrics import Metrics
from service.repository import Repository
from service.rpc.answering import Answering
from service.rpc.budget import Budget
from service.rpc.call import Method
from service.rpc.listing import Listing
from service.rpc.parsing import Parsing
from service.rpc.servicer import methods_of
from service.settings import Settings


@dataclass(frozen=True)
class Backend:
    """What answers. methods: those of the service. parsing: of their requests."""

    repository: Repository
    engine: Engine
    methods: tuple[Method, ...]
    parsing: Parsing


@asynccontextmanager
async def running_backend(
    settings: Settings,
    metrics: Metrics,
    checks: Checks,
    quotas: Quotas,
    *,
    takes_calls: bool,
    folders: Folders | None = None,
) -> AsyncIterator[Backend]:
    """Have a backend for the length of a block; models are found, and not loaded (`Repository.load_until_useful`).

    checks: what checks bundles. quotas: of callers' rows. takes_calls: whether this process does as well.
    folders: as `Repository` has it.
    Raises: LimelightError where the repository cannot be read, or the provider cannot be had.
    """
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(collected_between_turns())
        provider = await asyncio.to_thread(
            choose_provider, settings.provider, lanes=settings.lanes, cores=settings.core_count, cuda=cuda_of(settings)
        )
        share_arena(runtime(), settings.run_bytes)
        engine = Engine(settings, provider, observer=metrics, takes_calls=takes_calls)
        repository = Repository(settings, provider, checks, observer=metrics, folders=folders, on_lane=engine.errand)
        await repository.find()
        await engine.start()
        stack.push_async_callback(engine.stop, 0.0)  # by then the calls are finished, or have had their grace
        parsing = Parsing(settings.max_request_fields)
        stack.callback(parsing.close)
        # What was refused counts too: it has taken memory before that was known.
        asked = give_back_when_quiet(lambda: engine.admitted + parsing.large, repository.shrink)
        stack.callback(asyncio.create_task(asked).cancel)
        answers = Budget(settings.held_bytes, "maps and answers", metrics, lanes=provider.lanes)
        answering = Answering(settings, repository, engine, metrics, answers, quotas)
        stack.callback(answering.close)
        repository.on_unload(engine.forget)
        engine.on_stuck(repository.take_out)
        repository.on_unload(answering.forget)
        yield Backend(repository, engine, methods_of(answering, Listing(settings, repository, answers)), parsing)
