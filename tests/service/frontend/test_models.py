"""A frontend's models, as its engines tell of them."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from limelight_bundle.preprocess import Bounds
from limelight_service.engine.opening import open_model
from limelight_service.engine.runtime.providers import choose_provider
from limelight_service.errors import ModelNotFoundError, ModelUnavailableError
from limelight_service.frontend.models import Models
from limelight_service.hosting.hosted import hosted
from limelight_service.ipc.client import EngineClient, ModelListener
from limelight_service.observability.observer import NullObserver
from limelight_service.repository.catalogue import State
from limelight_service.settings import Settings
from tests.kit import bundles


class Engine:
    """An engine that tells what a test says."""

    def __init__(self) -> None:
        self.released: list[tuple[str, int]] = []

    def listen(self, listener: ModelListener) -> None:
        self.listener = listener

    def release(self, name: str, version: int) -> None:
        self.released.append((name, version))


def test_a_model_that_no_engine_has_told_of_yet_is_unavailable_and_then_not_found(tmp_path: Path) -> None:
    folder = bundles.tiny(tmp_path)
    served = hosted(open_model(folder, choose_provider("cpu", workers=1), Settings(), NullObserver()), folder).served

    async def follow() -> None:
        engines = [Engine(), Engine()]
        models = Models([cast(EngineClient, each) for each in engines], Bounds())
        for told in ((), engines[:1]):
            for each in told:
                each.listener.model_changed("tiny", 1, State.READY, "", served)
                each.listener.loaded()
                await asyncio.sleep(0.2)
            for version in (0, 2):
                with pytest.raises(ModelUnavailableError, match="not known yet"):
                    models.catalogue.resolve("other", version)
            assert models.catalogue.why_not_ready() == ""
        with pytest.raises(ModelUnavailableError, match="not known yet"):
            models.catalogue.resolve("tiny", 2)
        engines[1].listener.loaded()
        await models.loaded()
        assert models.catalogue.resolve("tiny").version == 1
        with pytest.raises(ModelNotFoundError, match="there are: tiny"):
            models.catalogue.resolve("other")
        with pytest.raises(ModelNotFoundError, match="no version 2"):
            models.catalogue.resolve("tiny", 2)

    asyncio.run(follow())


def test_a_start_waits_for_what_is_prepared_however_soon_the_engine_has_loaded_all(tmp_path: Path) -> None:
    folder = bundles.tiny(tmp_path)
    served = hosted(open_model(folder, choose_provider("cpu", workers=1), Settings(), NullObserver()), folder).served

    async def follow() -> None:
        engine = Engine()
        models = Models([cast(EngineClient, engine)], Bounds())
        engine.listener.model_changed("tiny", 1, State.READY, "", served)
        engine.listener.loaded()
        for version in (0, 1):  # and until then it is no model that is not there
            with pytest.raises(ModelUnavailableError, match="tiny version 1 is still being loaded"):
                models.catalogue.resolve("tiny", version)
        await models.loaded()
        assert models.catalogue.resolve("tiny").version == 1
        models.close()

    asyncio.run(follow())


def test_a_version_that_goes_answers_until_the_one_that_comes_can(tmp_path: Path) -> None:
    folder = bundles.tiny(tmp_path)
    served = hosted(open_model(folder, choose_provider("cpu", workers=1), Settings(), NullObserver()), folder).served

    async def follow() -> None:
        engine = Engine()
        models = Models([cast(EngineClient, engine)], Bounds())
        engine.listener.model_changed("tiny", 1, State.READY, "", served)
        engine.listener.loaded()
        await models.loaded()
        engine.listener.model_changed("tiny", 2, State.READY, "", replace(served, version=2))
        engine.listener.model_gone("tiny", 1)
        seen = []
        while not engine.released:
            seen.append(models.catalogue.resolve("tiny").version)
            await asyncio.sleep(0)
        assert set(seen) == {1, 2} and seen == sorted(seen)
        assert engine.released == [("tiny", 1)]
        with pytest.raises(ModelNotFoundError, match="no version 1"):
            models.catalogue.resolve("tiny", 1)
        models.close()

    asyncio.run(follow())
