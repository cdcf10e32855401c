"""Arrays in .npz archives, as data sets come in them."""

from collections.abc import Collection
from pathlib import Path
from zipfile import BadZipFile
from zlib import error as ZlibError

import numpy as np

from limelight_bundle.values import Array
from limelight_models.data.dataset import DataError


def arrays(path: Path, only: Collection[str] = ()) -> dict[str, Array]:
    """Read the arrays of an archive, without pickles. only: those of these names, where any are given.

    Raises: DataError naming the file.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files if not only or name in only}
    except (OSError, ValueError, TypeError, EOFError, BadZipFile, ZlibError) as error:
        raise DataError(f"{path}: cannot be read as an .npz archive ({error})") from error
