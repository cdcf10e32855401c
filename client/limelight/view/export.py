"""A copy of the page for any web server: its files, and the recorded answers to the examples of the models."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from limelight.base.errors import Error, Internal
from limelight.files import file_name, write_file
from limelight.view.files import page_files
from limelight.view.upstream import Upstream, read_error, read_whole


def export(upstream: Upstream, folder: Path) -> Iterator[str]:
    """Write the copy into a folder, and yield the name of each model that it has.

    An answer is the length of its JSON, a line end, the JSON, and the bytes of its arrays. The JSON also has what the
    server explains without options, as `explanation`.

    Raises:
        Error: the server refuses a call, or its answer is none.
        OSError: a file cannot be written, or the server does not answer.
    """
    try:
        yield from _export(upstream, folder)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise Internal(
            f"{upstream.address} sent an answer that cannot be read ({type(error).__name__}: {str(error)[:200]})"
        ) from error


def _export(upstream: Upstream, folder: Path) -> Iterator[str]:
    answers = folder / "answers"
    for path, (_, content) in page_files().items():
        if path != "/":
            write_file(folder / path[1:], content.replace(b'<html lang="en"', b'<html lang="en" data-recorded'))
    ready = []
    for status in _json(upstream, "/v1/models").get("models", []):
        name = str(status["model"]["name"])
        if status["state"] != "MODEL_STATE_READY" or not status.get("isDefault"):
            continue
        path = f"/v1/models/{quote(name, safe='')}"
        described = _json(upstream, path)
        file = file_name(name)
        write_file(answers / f"{file}.json", json.dumps(described))
        maps = described["description"].get("maps", [])
        encoding = "ENCODING_FLOAT32" if any(each.get("signed") for each in maps) else "ENCODING_UINT8"
        for number, example in enumerate(described["description"].get("examples", [])):
            request = {"instances": [example]} | ({"attention": {"encoding": encoding}} if maps else {})
            length, body = _call(upstream, "POST", f"{path}:{'attend' if maps else 'predict'}", request)
            answer = json.loads(body[:length]) | {"explanation": _explanation(upstream, path, example)}
            header = json.dumps(answer).encode()
            write_file(answers / f"{file}-{number}.bin", b"%d\n%b%b" % (len(header), header, body[length:]))
        ready.append(status | {"model": status["model"] | {"file": file}})
        yield name
    # Not among the answers, where a model may have this name.
    write_file(folder / "models.json", json.dumps({"models": ready}))


def _explanation(upstream: Upstream, path: str, example: Any) -> Any:
    """Explain the answer to an example; None where the server refuses that."""
    try:
        length, body = _call(upstream, "POST", f"{path}:explain", {"instances": [example]})
    except Error:
        return None
    explanations = json.loads(body[:length]).get("explanations")
    return explanations and {name: value for name, value in explanations[0].items() if name != "prediction"}


def _json(upstream: Upstream, path: str) -> Any:
    return json.loads(_call(upstream, "GET", path)[1])


def _call(upstream: Upstream, verb: str, path: str, request: Mapping[str, Any] | None = None) -> tuple[int, bytes]:
    """Call the server; arrays of what is posted come as bytes. Returns the length of the JSON, and the answer."""
    headers = dict(upstream.headers)
    if request is not None:
        headers |= {"Content-Type": "application/json", "Accept": "application/octet-stream"}
    connection = upstream.connect()
    try:
        connection.request(verb, path, None if request is None else json.dumps(request), headers)
        response = connection.getresponse()
        body = read_whole(response)
        if response.status != 200:
            raise read_error(response.status, body)
        return int(response.headers.get("Limelight-Json-Length", len(body))), body
    finally:
        connection.close()
