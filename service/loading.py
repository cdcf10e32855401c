"""How a version of a model comes out of its folder: checked, opened, warmed up."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bundle.errors import LimelightError
from service.checking.checker import Checks
from service.checking.verdict import Interrupted, Refused
from service.engine.model import Model, open_model
from service.engine.observer import Observer
from service.engine.providers import Provider
from service.engine.selftest import warm_up
from service.errors import ModelUnavailableError
from service.settings import Settings

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Postponed:
    """A version that could not be loaded for a reason that may pass. why: fit for callers."""

    why: str


class Loader:
    """Loads versions of models. on_lane: runs something in turns with the rows of the models that answer already."""

    def __init__(
        self,
        settings: Settings,
        provider: Provider,
        checks: Checks,
        observer: Observer,
        on_lane: Callable[[Callable[[], None]], None],
    ) -> None:
        self._settings = settings
        self._provider = provider
        self._checks = checks
        self._observer = observer
        self._on_lane = on_lane

    def load(self, name: str, version: int, path: Path) -> Model | Postponed | str:
        """Check and load one version; gives why not where it is refused, or is to be tried again. It takes its time,
        and is for any thread.
        """
        started = time.monotonic()
        try:
            verdict = self._checks.check(path, self._provider, self._settings)
            if isinstance(verdict, Interrupted):
                return Postponed(verdict.why)
            if isinstance(verdict, Refused):
                logger.error("%s version %d is refused: %s (%s)", name, version, verdict.reason, path)
                if verdict.detail:
                    logger.error("%s version %d: its check said: %s", name, version, verdict.detail)
                return verdict.reason
            folder = verdict.folder(path)
            model = open_model(folder, self._provider, self._settings, self._observer, saved=verdict.saved_weights)
            folder.check_unchanged()
            self._on_lane(lambda: warm_up(model))
        except ModelUnavailableError as error:
            return Postponed(error.message)
        except LimelightError as error:
            logger.error("%s version %d is refused: %s (%s)", name, version, error.message, path)
            return error.message
        except BaseException as error:  # a library's panic is no Exception, and ends no more than this
            logger.error("%s version %d is refused (%s)", name, version, path, exc_info=error)
            return "it could not be loaded; the server's log says why"
        moved = f", exported as {folder.origin}" if folder.origin not in ("", f"{name}/{version}") else ""
        logger.info("%s version %d is ready after %.2f s%s", name, version, time.monotonic() - started, moved)
        return model
