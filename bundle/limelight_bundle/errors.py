"""Root of the error hierarchy, and errors of bundles and inputs.

A message states what is wrong, where, and what to do. Messages reach callers: they contain no paths and no internal
names.
"""

Path = tuple[str | int, ...]
"""Where something is in a request, part by part: names of fields, indices of lists, keys of maps."""

_MAPS = frozenset({"inputs", "parameters"})  # fields whose keys are written in brackets


def path_text(path: Path) -> str:
    """Write a path as limelight.v1 does: `instances[3].inputs["text"]`."""
    text, before = "", None
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif before in _MAPS:
            text += f'["{part}"]'
        else:
            text += f".{part}" if text else part
        before = part
    return text


class LimelightError(Exception):
    """An error that somebody can act on."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class InputError(LimelightError):
    """An invalid input. path: of what is wrong in the request; empty for the request itself."""

    def __init__(self, path: Path | str, message: str) -> None:
        """Make the error. path: or a name alone."""
        super().__init__(message)
        self.path: Path = path if isinstance(path, tuple) else (path,) if path else ()

    @property
    def field(self) -> str:
        """The path as limelight.v1 writes it."""
        return path_text(self.path)


class OutOfRangeError(InputError):
    """A value outside its range, such as a token id or an index."""


class TooLargeError(InputError):
    """A limit is exceeded, such as an image's pixels or an answer's bytes."""


class BundleError(LimelightError):
    """A bundle that must not be loaded. Messages name files by their names in the bundle."""
