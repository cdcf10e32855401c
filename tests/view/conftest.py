"""A server of small models of every kind, the page beside it, and a browser."""

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from limelight.security import Security
from limelight.view.server import PageServer
from limelight.view.upstream import upstream_at
from limelight_export.pipeline import export_model
from limelight_service.demo import DEMO
from limelight_service.supervisor.in_process import InProcessServer
from tests.kit import bundles, small
from tests.kit.serving import free_port, serving

LONG = 4096


@contextmanager
def page_of(address: str, security: Security | None = None, **options: Any) -> Iterator[PageServer]:
    """Serve the page for the HTTP port at an address."""
    page = PageServer(upstream_at(address, security or Security(), timeout=60), **options)
    thread = threading.Thread(target=page.serve_forever)
    thread.start()
    try:
        yield page
    finally:
        page.shutdown()
        thread.join()
        page.server_close()


@pytest.fixture(scope="package")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The HTTP port of a server of one model of each kind, and of one that reads long texts."""
    folder = tmp_path_factory.mktemp("repository")
    for make in bundles.ALL:
        make(folder)
    bundles.tiny(folder, "long", max_tokens=LONG, max_characters=50_000)
    with serving(folder, http_port=free_port()) as running:
        yield running.server.http_url.removeprefix("http://")


@pytest.fixture(scope="package")
def demo() -> Iterator[tuple[PageServer, InProcessServer]]:
    """The page of the five demo models, and their server."""
    with serving(DEMO, http_port=free_port()) as running, page_of(running.server.http_url[7:]) as page:
        yield page, running.server


@pytest.fixture(scope="package")
def changeable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[PageServer, InProcessServer]]:
    """The page of models that take interventions, and their server."""
    folder = tmp_path_factory.mktemp("changeable")
    torch.manual_seed(0)
    for name in ("vit", "structured"):
        export_model(small.trained(name), folder)
    with serving(folder, http_port=free_port()) as running, page_of(running.server.http_url[7:]) as page:
        yield page, running.server


@pytest.fixture(scope="package")
def page(http: str) -> Iterator[PageServer]:
    with page_of(http) as page:
        yield page


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    """Debian's Chromium."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("Chromium is not installed")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as running:
        microphone = ("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream")  # which beeps
        browser = running.chromium.launch(executable_path=program, args=["--no-sandbox", *microphone])
        yield browser
        browser.close()


Opened = Callable[..., Any]


@pytest.fixture
def opened(browser: Any, page: PageServer, tmp_path: Path) -> Iterator[Opened]:
    """Opens the page with a selection, and waits for its answer. Errors that the browser reports fail the test."""
    contexts, errors = [], []

    def open_tab(selection: str = "", *, server: PageServer = page, address: str = "", **options: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        tab = context.new_page()
        tab.on("pageerror", lambda error: errors.append(str(error)))
        tab.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        tab.goto((address or server.address) + (f"#{selection}" if selection else ""))
        tab.wait_for_selector("body[data-ready]", timeout=20_000)
        tab.errors = errors
        return tab

    yield open_tab
    for each in contexts:
        each.close()
    assert not errors
