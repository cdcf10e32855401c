"""The root of the one error hierarchy, and the errors that a bundle or an input can cause.

Messages say what was wrong, where, and what to do. They reach clients: never a path or an internal name in them.
"""


class LimelightError(Exception):
    """Anything that goes wrong for a reason that somebody can act on."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class InputError(LimelightError):
    """An input that cannot be answered; `field` is its path in the request, such as `instances[3].inputs["text"]`."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class OutOfRangeError(InputError):
    """A value outside the range it is limited to: a token id, an index."""


class TooLargeError(InputError):
    """More than a limit allows: an image's pixels, an answer's bytes."""


class BundleError(LimelightError):
    """A bundle that must not be loaded. The message names the file by its name inside the bundle."""
