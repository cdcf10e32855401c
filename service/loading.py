"""How a version of a model comes out of its folder: found by the pattern of names, checked, opened, warmed up."""

import logging
import time
from pathlib import Path

from bundle.errors import BundleError, LimelightError
from bundle.names import is_model_name, is_version
from service.checking.checker import Checks
from service.checking.verdict import Refused
from service.engine.model import Model, open_model
from service.engine.observer import Observer
from service.engine.providers import Provider
from service.engine.selftest import warm_up
from service.errors import ModelUnavailableError
from service.settings import Settings

logger = logging.getLogger(__name__)


class Loader:
    """Loads versions of models."""

    def __init__(self, settings: Settings, provider: Provider, checks: Checks, observer: Observer) -> None:
        self._settings = settings
        self._provider = provider
        self._checks = checks
        self._observer = observer

    def load(self, name: str, version: int, path: Path) -> Model | str:
        """Check and load one version; gives why not where it is refused. It takes its time, and is for any thread."""
        started = time.monotonic()
        try:
            verdict = self._checks.check(path, self._provider, self._settings)
            if isinstance(verdict, Refused):
                logger.error("%s version %d is refused: %s (%s)", name, version, verdict.reason, path)
                if verdict.detail:
                    logger.error("%s version %d: its check said: %s", name, version, verdict.detail)
                return verdict.reason
            folder = verdict.folder(path)
            model = open_model(folder, self._provider, self._settings, self._observer, saved=verdict.saved_weights)
            folder.check_unchanged()
            warm_up(model)
        except ModelUnavailableError as error:
            logger.info("%s version %d is not loaded: %s", name, version, error.message)
            return error.message
        except LimelightError as error:
            logger.error("%s version %d is refused: %s (%s)", name, version, error.message, path)
            return error.message
        except BaseException as error:  # a library's panic is no Exception, and ends no more than this
            logger.error("%s version %d is refused (%s)", name, version, path, exc_info=error)
            return "it could not be loaded; the server's log says why"
        logger.info("%s version %d is ready after %.2f s", name, version, time.monotonic() - started)
        return model


def scan(repository: Path) -> dict[tuple[str, int], Path]:
    """Find REPOSITORY/<model>/<version>/ by the strict pattern of names; other entries are no models.

    A model whose folder cannot be read stands there as its version 0, which is refused when it is loaded.
    Raises: BundleError where the repository itself cannot be read.
    """
    folders: dict[tuple[str, int], Path] = {}
    try:
        models = sorted(repository.iterdir())
    except OSError as error:
        raise BundleError(f"the repository cannot be read: {error.strerror}") from error
    for model in models:
        try:
            if not model.is_dir() or model.is_symlink() or not is_model_name(model.name):
                logger.debug("%s is no model", model)
                continue
            for version in model.iterdir():
                if version.is_dir() and is_version(version.name):
                    folders[model.name, int(version.name)] = version
        except OSError as error:
            logger.error("%s cannot be read: %s", model, error.strerror)
            if is_model_name(model.name):
                folders[model.name, 0] = model
    return folders
