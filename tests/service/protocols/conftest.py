"""The servers of this folder's tests."""

from tests.service.shared_servers import one_process, running, two_frontends

__all__ = ["one_process", "running", "two_frontends"]
