"""HTTP calls as a test makes them: one connection each, and what came back."""

import http.client
import json
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.kit.serving import Running

JSON = {"content-type": "application/json"}


@dataclass(frozen=True)
class Answer:
    """A response. headers: by their names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> Any:
        """The error that limelight.v1 tells."""
        return self.json["error"]

    @property
    def field(self) -> str:
        """The field that an error names."""
        details = {each["@type"].rpartition(".")[2]: each for each in self.error["details"]}
        (violation,) = details["BadRequest"]["fieldViolations"]
        return str(violation.get("field", ""))


def place(running: Running) -> tuple[str, int]:
    """The address of a server's HTTP port."""
    return running.server.settings.host, running.server.http_port


def call(running: Running, path: str, body: Any = None, **options: Any) -> Answer:
    """Call a path: POST where there is a body, of JSON or of bytes as they are."""
    host, port = place(running)
    connection = http.client.HTTPConnection(host, port, timeout=60)
    try:
        return answered(connection, path, body, **options)
    finally:
        connection.close()


def answered(
    connection: http.client.HTTPConnection,
    path: str,
    body: Any = None,
    headers: Mapping[str, str] | None = None,
    verb: str = "",
) -> Answer:
    """Call a path on a connection."""
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    given = {**({} if data is None else JSON), **(headers or {})}
    connection.request(verb or ("GET" if data is None else "POST"), path, data, given)
    response = connection.getresponse()
    found = {name.lower(): value for name, value in response.getheaders()}
    return Answer(response.status, found, response.read())


def events(answer: Answer) -> list[tuple[str, Any]]:
    """The events of a stream: name and JSON."""
    assert answer.headers["content-type"] == "text/event-stream"
    return list(parsed_events(answer.body.decode()))


def parsed_events(text: str) -> Iterator[tuple[str, Any]]:
    *blocks, rest = text.split("\n\n")
    assert rest == ""
    for block in blocks:
        name, data = block.split("\n")
        assert name.startswith("event: ") and data.startswith("data: ")
        yield name.removeprefix("event: "), json.loads(data.removeprefix("data: "))


def connected(running: Running) -> socket.socket:
    """A plain connection, for what no client would send."""
    return socket.create_connection(place(running), timeout=60)


def told(connection: socket.socket) -> bytes:
    """Everything that comes until the server closes."""
    parts = []
    while part := connection.recv(2**16):
        parts.append(part)
    return b"".join(parts)


def texts(*words: str, **fields: Any) -> dict[str, Any]:
    """A request of one text an instance."""
    return {"instances": [{"inputs": {"text": {"text": each}}} for each in words], **fields}
