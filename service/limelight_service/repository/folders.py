"""Which versions of models there are: the folders of a repository that have the pattern of names."""

import logging
from collections.abc import Mapping
from pathlib import Path

from limelight_bundle.errors import BundleError
from limelight_bundle.names import BUNDLE_FILE, is_model_name, is_version

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


def given(name: str, folder: Path) -> Folders:
    """Find the versions in a folder that is given as one model: itself a bundle, or FOLDER/<version>/.

    Links are followed, as whoever names the folder knows them: Kubernetes mounts files as links to `..data`, and KServe
    links to what is on a volume. The folder of a bundle is the one in which its bundle.json really is. A bundle by
    itself is version 1, unless its folder is named by a number.

    Raises: BundleError where there is none, or the folder cannot be read.
    """
    try:
        found = {}
        if (folder / BUNDLE_FILE).is_file():
            found = {int(folder.name) if is_version(folder.name) else 1: folder}
        else:
            inside = [each for each in folder.iterdir() if is_version(each.name)]
            found = {int(each.name): each for each in inside if (each / BUNDLE_FILE).is_file()}
        if found:
            return {(name, version): (each / BUNDLE_FILE).resolve().parent for version, each in found.items()}
        others = scan(folder)
    except OSError as error:
        raise BundleError(f"the folder {folder} of the model {name} cannot be read: {error.strerror}") from error
    instead = f"; it has folders of models: give it as --repository {folder}" if others else ""
    raise BundleError(
        f"the folder {folder} of the model {name} has no {BUNDLE_FILE}, and no version as 1/{BUNDLE_FILE}{instead}"
    )
