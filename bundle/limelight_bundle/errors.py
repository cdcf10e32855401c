"""Root of the error hierarchy, and errors of bundles and inputs.

A message states what is wrong, where, and what to do. Messages reach callers: they contain no paths and no internal
names.
"""


class LimelightError(Exception):
    """An error that somebody can act on."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class InputError(LimelightError):
    """An invalid input; `field` is its path in the request, such as `instances[3].inputs["text"]`."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class OutOfRangeError(InputError):
    """A value outside its range, such as a token id or an index."""


class TooLargeError(InputError):
    """A limit is exceeded, such as an image's pixels or an answer's bytes."""


class BundleError(LimelightError):
    """A bundle that must not be loaded. Messages name files by their names in the bundle."""
