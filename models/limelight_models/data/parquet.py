"""The rows of a Parquet file."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from limelight.base import installing
from limelight_models.data.dataset import DataError, shown

SUFFIX = ".parquet"


def records(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each row by the names of its columns, numbered from 1.

    Raises: DataError where pyarrow is not installed, or the file cannot be read.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        how = installing.extra("data")
        raise DataError(f"{path}: Parquet needs {error.name}, which is not installed: {how}") from error
    number = 0
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches():
                for row in batch.to_pylist():
                    number += 1
                    yield number, row
    except (pyarrow.ArrowException, OSError) as error:
        behind = f" behind row {number}" if number else ""
        raise DataError(f"{path}: cannot be read as Parquet{behind} ({shown(error)})") from error
