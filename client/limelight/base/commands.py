"""Commands of the command line: their error, and the server that they call."""


class CommandError(Exception):
    """A command failed for a reason that the user can fix: one line, and an exit status (2 for wrong usage)."""

    def __init__(self, message: str, *, status: int = 1) -> None:
        super().__init__(message)
        self.status = status
