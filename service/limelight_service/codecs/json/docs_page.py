"""The OpenAPI document drawn: one page of HTML without scripts, and without anything of another host."""

import base64
import hashlib
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from limelight_service.frontend.http.methods import HttpResponse

_STYLE = """
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem}
code,pre{font:13px/1.45 ui-monospace,monospace}
pre{overflow-x:auto;padding:.6rem;border:1px solid #8886}
section{border-top:1px solid #8886;margin-top:1.2rem}
h3{margin:.8rem 0 0;overflow-wrap:anywhere}
h3 b{display:inline-block;min-width:3.6rem}
p{margin:.3rem 0}
td{padding:.1rem 1rem .1rem 0;vertical-align:top}
td+td{overflow-wrap:anywhere}
"""
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_HEADERS = {
    "content-security-policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}
_CALL = """curl HOST/v1/models/NAME:predict --json '{"instances": ["7 March 2021"]}'"""


def docs_page(document: Mapping[str, Any]) -> HttpResponse:
    """Draw an OpenAPI document."""
    info = document["info"]
    parts = [
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape(info['title'])}: HTTP</title>",
        "<meta name=viewport content='width=device-width'>",
        f"<style>{_STYLE}</style><h1>{escape(info['title'])} {escape(info['version'])}</h1>",
        f"<p>{escape(info['description'])} <a href=openapi.json>The OpenAPI document</a>",
        f"<pre>{escape(_CALL)}</pre><h2>Paths</h2>",
        *(
            _operation(verb, path, each)
            for path, verbs in sorted(document["paths"].items(), key=lambda each: not each[0].startswith("/v1"))
            for verb, each in sorted(verbs.items())
        ),
        "<h2>Schemas</h2>",
        *(_schema(name, each) for name, each in document["components"]["schemas"].items()),
    ]
    return HttpResponse(["\n".join(parts).encode()], "text/html; charset=utf-8", headers=_HEADERS)


def docs_link() -> HttpResponse:
    """Lead from the root to the page, also below the path of a proxy."""
    return HttpResponse([b""], "text/html", 307, {"location": "docs"})


def _operation(verb: str, path: str, operation: Mapping[str, Any]) -> str:
    rows = [
        (each["name"], _type(each["schema"]), escape(each["description"])) for each in operation.get("parameters", ())
    ]
    for what, holder in (("request", operation.get("requestBody")), *operation["responses"].items()):
        for kind, content in (holder or {}).get("content", {}).items():
            rows.append((what, _type(content["schema"]), escape(kind)))
    about = f"<section><h3><b>{verb.upper()}</b> <code>{escape(path)}</code></h3><p>{escape(operation['summary'])}"
    return f"{about}{_table(rows)}</section>"


def _schema(name: str, schema: Mapping[str, Any]) -> str:
    properties = [(each, _type(of), escape(of.get("description", ""))) for each, of in _properties(schema)]
    about = f"<p>{escape(schema['description'])}" if "description" in schema else ""
    kind = "" if properties else f"<p>{_type(schema)}"
    return f"<section id={escape(name)}><h3>{escape(name)}</h3>{about}{kind}{_table(properties)}</section>"


def _properties(schema: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Give the properties of an object, or of the first of several forms."""
    first: Mapping[str, Any] = next(iter(schema.get("anyOf", ())), {})
    yield from schema.get("properties", first.get("properties", {})).items()


def _table(rows: list[tuple[str, str, str]]) -> str:
    lines = [f"<tr><td><code>{escape(name)}</code><td>{kind}<td>{about}" for name, kind, about in rows]
    return f"<table>{''.join(lines)}</table>" if lines else ""


def _type(schema: Any) -> str:
    """Write what a value is, as HTML."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f"<a href=#{name}>{name}</a>"
    if "anyOf" in schema:
        return " or ".join(map(_type, schema["anyOf"]))
    if "enum" in schema:
        return " | ".join(escape(str(each)) for each in schema["enum"])
    kinds = schema.get("type", "any")
    text = escape(kinds if isinstance(kinds, str) else " or ".join(kinds))
    of = schema.get("items") or schema.get("additionalProperties")
    return f"{text} of {_type(of)}" if of else text
