"""Which versions of models there are: the folders of a repository that have the pattern of names."""

import logging
from collections.abc import Mapping
from pathlib import Path

from limelight_bundle.errors import BundleError
from limelight_bundle.names import is_model_name, is_version

logger = logging.getLogger(__name__)

# By name and version.
Folders = Mapping[tuple[str, int], Path]


def scan(repository: Path) -> Folders:
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
