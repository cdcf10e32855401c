"""Takes the pictures of the page in docs/pictures: `python -m view_pictures`, at the root of a checkout.

Serves the demo models, opens the page in Chromium, and keeps what it shows in few colours.
"""

import io
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image

from tests.kit.serving import free_port, serving
from tests.view.conftest import page_of

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"
COLOURS, MARGIN = 128, 12
# Each file: the theme, the width and height of the window in pixels, what is selected, and the part that is kept.
TAKEN = {
    "view-light.png": ("light", (1100, 830), "model=dates&map=decoder.cross&q=6", "body"),
    "view-dark.png": ("dark", (1000, 900), "model=slips", ".shown"),
    "view-compare.png": (
        "light",
        (1000, 900),
        "model=numbers&map=decoder.1.cross&in.text=siebenundvierzig"
        "&b.model=numbers&b.map=decoder.1.cross&b.in.text=vierzig",
        "#difference",
    ),
    "view-why.png": ("light", (1000, 900), "model=slips&why=usual", ".why"),
}


def main(names: Sequence[str] = tuple(TAKEN)) -> None:
    """Take the pictures."""
    with page() as (browser, address):
        for name in names:
            theme, (width, height), selection, part = TAKEN[name]
            tab = browser.new_page(viewport={"width": width, "height": height}, color_scheme=theme)
            tab.goto(f"{address}#{selection}")
            tab.wait_for_selector("body[data-ready]")
            tab.wait_for_selector(".why[aria-busy=false]", state="attached")
            tab.mouse.move(width - 1, height - 1)
            # Of the whole page what a window shows; of a part, all of it.
            box = tab.locator(part).bounding_box()
            edges = {"x": box["x"] - MARGIN, "y": box["y"] - MARGIN}
            edges |= {side: box[side] + 2 * MARGIN for side in ("width", "height")}
            taken = tab.screenshot() if part == "body" else tab.screenshot(clip=edges, full_page=True)
            few = Image.open(io.BytesIO(taken)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
            few.save(PICTURES / name, optimize=True)
            tab.close()


@contextmanager
def page() -> Iterator[tuple[Any, str]]:
    """A browser, and the address of the page of the demo models."""
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or shutil.which("google-chrome")
    with (
        serving(ROOT / "deploy" / "demo", http_port=free_port()) as running,
        page_of(running.server.http_url.removeprefix("http://")) as server,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser, server.address
        browser.close()


if __name__ == "__main__":
    main()
