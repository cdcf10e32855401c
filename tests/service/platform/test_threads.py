"""Threads of the service have the names outside that they have inside."""

import threading
from pathlib import Path

import pytest

from limelight_service.platform.threads import background


@pytest.mark.skipif(not Path("/proc/thread-self").exists(), reason="this system does not say what threads are called")
def test_the_kernel_knows_a_thread_by_its_name() -> None:
    seen: list[str] = []

    def look() -> None:
        seen.append(Path(f"/proc/self/task/{threading.get_native_id()}/comm").read_text().strip())

    thread = background(look, "a-name-longer-than-it-keeps")
    thread.start()
    thread.join()

    assert seen == ["a-name-longer-t"]
    assert thread.daemon
