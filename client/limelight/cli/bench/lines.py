"""Inputs from a file of JSON lines."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from limelight.base.commands import CommandError
from limelight.base.strings import decode_utf8


def read_lines(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each line's place and its inputs by name; a line that is a string has the name "".

    Raises:
        CommandError: a line is neither an object nor a string, or there are none.
        OSError: the file cannot be read.
    """
    text = decode_utf8(path.read_bytes(), str(path), str(path))
    empty = True
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        place, empty = f"{path}:{number}", False
        try:
            document = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise CommandError(f"{place} is not JSON: {error}") from error
        if isinstance(document, str):
            document = {"": document}
        if not isinstance(document, dict) or not document:
            raise CommandError(f'{place} is neither {{"NAME": VALUE, …}} nor a string')
        yield place, document
    if empty:
        raise CommandError(f"{path} has no lines")


def file_of(value: Any) -> Path | None:
    """Return the path of a value `{"file": PATH}`; None for another value."""
    if isinstance(value, dict) and set(value) == {"file"} and isinstance(value["file"], str):
        return Path(value["file"])
    return None
