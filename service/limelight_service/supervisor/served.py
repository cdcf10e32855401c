"""A server as its starter sees it: where it is reached and how it is stopped."""

from abc import ABC, abstractmethod

from limelight_service.platform.addresses import address_of
from limelight_service.settings import Settings


class Served(ABC):
    """A running server. port, http_port, metrics_port: the real ones; 0 for none."""

    def __init__(self, settings: Settings, port: int, http_port: int, metrics_port: int) -> None:
        self.settings = settings
        self.port = port
        self.http_port = http_port
        self.metrics_port = metrics_port

    @property
    def address(self) -> str:
        """The address that it listens on, as clients take it."""
        return address_of(self.settings.host, self.port)

    @property
    def http_url(self) -> str:
        """The address of HTTP; empty where it is not served."""
        if not self.http_port:
            return ""
        scheme = "https" if self.settings.tls_cert else "http"
        return f"{scheme}://{address_of(self.settings.host, self.http_port)}"

    @property
    def metrics_url(self) -> str:
        """The address of the metrics; empty where none are served."""
        if not self.metrics_port:
            return ""
        return f"http://{address_of(self.settings.metrics_host, self.metrics_port)}/metrics"

    @abstractmethod
    async def finish(self) -> None:
        """Finish the calls in flight, and answer no others."""

    @abstractmethod
    def reread(self) -> None:
        """Read tokens and certificates again, and look at the folder of models where it is followed."""

    @abstractmethod
    def kill(self) -> None:
        """End every process of the server but this one, at once."""
