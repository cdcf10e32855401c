"""Folders of a repository that are none of a model, each with the reason and what to do, so that none is left out in
silence.
"""

import logging
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from limelight_bundle.names import BUNDLE_FILE, is_model_name, is_version
from limelight_service.repository.folders import Folders

logger = logging.getLogger(__name__)

_MOST_SAID = 20
_LONGEST_NAME = 80
# What systems put into folders by themselves.
_OTHERS = ("lost+found", "__pycache__")
_LAYOUT = "a model is REPOSITORY/<model>/<version>/bundle.json"


def log_skipped(repository: Path, folders: Folders) -> None:
    """Log what of a repository is left out, and that there is nothing to serve where that is so.

    folders: those that were found.
    """
    left_out = list(_left_out(repository))
    for each in left_out[:_MOST_SAID]:
        logger.warning("%s", each)
    if len(left_out) > _MOST_SAID:
        logger.warning("%d more folders of the repository are no models", len(left_out) - _MOST_SAID)
    if said := nothing_to_serve(folders):
        logger.warning("%s", said)


def nothing_to_serve(folders: Folders) -> str:
    """Say that a repository has no model; empty where it has one."""
    return "" if folders else f"there is nothing to serve: the repository has no model, and {_LAYOUT}"


def _left_out(repository: Path) -> Iterator[str]:
    """Say of each folder that is no model, or no version of one, why, and what to do."""
    if (repository / BUNDLE_FILE).is_file():
        yield f"the repository {_named(repository)} is itself a version of a model: give the folder two above it"
        return
    entries = _entries(repository)
    for entry in entries:
        if is_version(entry.name) and (entry / BUNDLE_FILE).is_file():
            yield f"the repository {_named(repository)} is a model's own folder: give the parent folder"
            return
    for entry in entries:
        what = f"{_named(entry)} is left out: "
        if entry.is_symlink():
            yield f"{what}it is a link, which is not followed; move or copy the folder itself here"
        elif not is_model_name(entry.name):
            better = _model_name(entry.name)
            remedy = f"rename it, as to {better!r}" if better else "give it another name"
            yield f"{what}a model's name is of lower-case letters, digits, _ and -, at most 64; {remedy}"
        else:
            yield from _versions_left_out(entry)


def _versions_left_out(model: Path) -> Iterator[str]:
    entries = _entries(model)
    if (model / BUNDLE_FILE).is_file():
        yield (f"{_named(model)} has a bundle and no folder of its version: move what is in it to {_named(model)}/1/")
        return
    if not entries:
        yield f"{_named(model)} is left out: it has no version; {_LAYOUT}"
    for entry in entries:
        if not is_version(entry.name):
            better = _version(entry.name)
            remedy = f"rename it, as to {better!r}" if better else "rename it to its number"
            yield f"{_named(model)}/{_named(entry)} is left out: a version is a number from 1, without zeros; {remedy}"


def _entries(folder: Path) -> list[Path]:
    """List the folders in a folder, links to folders among them, but for hidden ones."""
    found = []
    with suppress(OSError):  # which is told of where it is scanned
        for entry in sorted(folder.iterdir()):
            with suppress(OSError):
                if not entry.name.startswith(".") and entry.name not in _OTHERS and entry.is_dir():
                    found.append(entry)
    return found


def _named(path: Path) -> str:
    return path.name[:_LONGEST_NAME] or str(path)[:_LONGEST_NAME]


def _model_name(name: str) -> str:
    """Give the nearest name that a model may have; empty where there is none."""
    better = re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-_")[:64]
    return better if is_model_name(better) else ""


def _version(name: str) -> str:
    digits = re.sub(r"\D+", "", name).lstrip("0")
    return digits if is_version(digits) else ""
