"""The files of the page: those beside this module, and the shared colours as a module of JavaScript."""

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources

from limelight import colours, scale

_MEDIA_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


@cache
def page_files() -> Mapping[str, tuple[str, bytes]]:
    """Return media type and content of each file of the page, by path."""
    contents = {each.name: each.read_bytes() for each in (resources.files("limelight.view") / "page").iterdir()}
    contents["palette.js"] = _palette().encode()
    kinds = {name: _MEDIA_TYPES.get(name.rpartition(".")[2]) for name in contents}
    found = {f"/{name}": (f"{kind}; charset=utf-8", contents[name]) for name, kind in kinds.items() if kind}
    return found | {"/": found["/index.html"]}


def _palette() -> str:
    """Return the constants of `limelight.colours` and `limelight.scale` as a module."""
    shared = {name: getattr(colours, name) for name in ("RAMPS", "OVER", "OPACITIES", "MARK")}
    shared |= {"CONTRAST": scale.CONTRAST, "FAINT": scale.FAINT}
    return "".join(f"export const {name} = {json.dumps(value)};\n" for name, value in shared.items())
