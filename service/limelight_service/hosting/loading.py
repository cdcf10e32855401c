"""Loading of a model version from its folder: check, open, warm up."""

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from limelight_bundle.errors import LimelightError
from limelight_bundle.reader import BundleFolder
from limelight_service.checking.checker import Checks
from limelight_service.checking.verdict import Interrupted, Refused
from limelight_service.engine.model import Model
from limelight_service.engine.runtime.providers import Provider
from limelight_service.engine.runtime.warm_up import warm_up
from limelight_service.errors import ModelUnavailableError
from limelight_service.hosting.hosted import HostedModel, hosted
from limelight_service.hosting.store import Postponed
from limelight_service.observability.observer import Observer
from limelight_service.settings import Settings

logger = logging.getLogger(__name__)


class OpenModel(Protocol):
    """Opens the model of a checked bundle (`limelight_service.engine.opening.open_model`)."""

    def __call__(
        self, folder: BundleFolder, provider: Provider, settings: Settings, observer: Observer, *, saved: Path | None
    ) -> Model: ...


class Loader:
    """Loads versions of models. in_turn: runs a function in turns with batches of the models that answer already."""

    def __init__(
        self,
        settings: Settings,
        provider: Provider,
        checks: Checks,
        observer: Observer,
        in_turn: Callable[[Callable[[], None]], None],
        open_model: OpenModel,
    ) -> None:
        self._settings = settings
        self._provider = provider
        self._checks = checks
        self._observer = observer
        self._in_turn = in_turn
        self._open_model = open_model

    def load(self, name: str, version: int, path: Path) -> HostedModel | Postponed | str:
        """Check and load one version; gives the reason where it is refused, or is to be tried again. It takes its time,
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
            folder.bundle.description.name, folder.bundle.description.version = name, version
            model = self._open_model(
                folder, self._provider, self._settings, self._observer, saved=verdict.saved_weights
            )
            folder.check_unchanged()
            self._in_turn(lambda: warm_up(model, folder))
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
        return hosted(model, folder)
