"""Requests that the page's server refuses itself."""


class RefusedError(Exception):
    """A refused request. status: of HTTP; name: of gRPC."""

    def __init__(self, status: int, name: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.name = name
