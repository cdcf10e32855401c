"""The lines of a text file, gzipped or not, with their numbers; every complaint names file and line.

Files are UTF-8, or UTF-16 that begins with its mark, as spreadsheets write it. A line ends with \\n, \\r\\n or \\r.
"""

import codecs
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from limelight_models.data.dataset import DataError

_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_ENDS = re.compile(rb"\r\n|\r|\n")


def lines(path: Path, blank: list[int] | None = None) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, without their ends, numbered from 1; blank: gets the numbers of the others."""
    for number, line in whole_lines(path):
        text = line.rstrip("\r\n")
        if text.strip():
            yield number, text
        elif blank is not None:
            blank.append(number)


def whole_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Every line with its end, numbered from 1. Raises: DataError naming the line that is no text."""
    number = 0
    try:
        with gzip.open(path, "rb") if path.name.endswith(".gz") else path.open("rb") as file:
            for text in _texts(file, path):
                for line in io.StringIO(text, newline=""):
                    number += 1
                    if "\0" in line:
                        raise DataError(f"{path}, line {number}: holds a NUL byte; save the file as UTF-8 text")
                    yield number, line
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read ({error})") from error


def _texts(file: BinaryIO | gzip.GzipFile, path: Path) -> Iterator[str]:
    """Some lines at a time."""
    ended = 0  # lines so far
    for chunk in file:
        encoding = "utf-8-sig" if ended == 0 else "utf-8"
        if ended == 0 and chunk.startswith(_UTF_16):
            chunk, encoding = chunk + file.read(), "utf-16"
        try:
            yield chunk.decode(encoding)
        except UnicodeDecodeError as error:
            read = error.object[: error.start].decode(encoding, errors="ignore")
            place = ended + 1 + len(_ENDS.findall(read.encode()))
            wanted = "UTF-16" if encoding == "utf-16" else "UTF-8"
            wrong = f"byte 0x{error.object[error.start]:02x}: {error.reason}"
            raise DataError(f"{path}, line {place}: is not {wanted} ({wrong}); save the file as UTF-8") from error
        ended += len(_ENDS.findall(chunk))
