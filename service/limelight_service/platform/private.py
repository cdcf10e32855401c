"""Folders of one user."""

import os
import stat
from contextlib import suppress
from pathlib import Path


def private_folder(folder: Path) -> Path:
    """Make a folder that this user alone may read and write. Raises: OSError where it is, or becomes, another's."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise OSError(0, "it is not a folder of this user alone")
    return folder
