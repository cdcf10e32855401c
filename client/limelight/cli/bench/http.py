"""Calls of limelight.v1 as JSON over HTTP/1.1: predict, or attend where attention is asked for."""

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

import numpy as np
from google.protobuf import json_format

from limelight import calls
from limelight.base.commands import CommandError
from limelight.base.errors import Unavailable
from limelight.base.tensors import to_tensor
from limelight.cli.bench import native
from limelight.cli.bench.load import OK, Reply, Send
from limelight.cli.bench.protocols import Calls, Question, Wires
from limelight.cli.connection import Connection
from limelight.security import Security
from limelight.v1 import service_pb2

_UNAVAILABLE, _LATE = "UNAVAILABLE", "DEADLINE_EXCEEDED"
# Statuses of proxies, whose bodies name no code.
_CODES = {429: "RESOURCE_EXHAUSTED", 502: _UNAVAILABLE, 503: _UNAVAILABLE, 504: _LATE}
_PAUSE = 0.2  # seconds before the second attempt
_MOST_BYTES = 2**28  # of an answer


@asynccontextmanager
async def opened(connection: Connection, question: Question, wires: Wires) -> AsyncIterator[Calls]:
    """Connect, and make the calls from the model's description. As `protocols.Open`.

    HTTP/1.1 has one call at a time on a connection, so there are as many as calls under way, not `wires.connections`.
    """
    client = _HttpClient(connection, wires)
    try:
        path = f"/v1/models/{quote(question.model, safe='')}"
        path += f"/versions/{question.version}" if question.version else ""
        try:
            answer = await client.send(client.request("GET", path))
        except (OSError, EOFError) as error:
            raise Unavailable(str(error) or type(error).__name__) from error
        if answer.status != 200:
            reply = _reply(answer)
            raise CommandError(f"{reply.code}: {reply.message}")
        try:
            described = json_format.ParseDict(_with_bytes(json.loads(answer.body)), service_pb2.GetModelResponse())
        except (ValueError, TypeError, RecursionError, json_format.ParseError) as error:
            raise CommandError(f"{connection.target} does not describe the model: {error}") from error
        model = calls.read(calls.model(question.model, question.version), described)
        method, messages = native.make_requests(question, native.read_instances(model, question))
        for each in messages:
            each.ClearField("model")  # the path states it
        requests = [
            client.request("POST", f"{path}:{method.lower()}", json_format.MessageToJson(each, indent=None).encode())
            for each in messages
        ]
        yield Calls(client.sender(requests), method, len(requests))
    finally:
        client.close()


@dataclass(frozen=True)
class _Answer:
    """headers: by their names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class _HttpClient:
    """Connections to one server, each for one call at a time; as many as calls are under way."""

    def __init__(self, connection: Connection, wires: Wires) -> None:
        place = urlsplit(f"//{connection.target}")
        if not place.hostname or not place.port or place.path:
            raise CommandError(f"--protocol http takes a --target HOST:PORT, not {connection.target!r}", status=2)
        security = Security(**connection.security)
        self._host, self._port = place.hostname, place.port
        self._tls = _tls(security) if security.encrypted else None
        self._name = security.server_name or place.hostname
        self._wires = wires
        metadata = security.metadata(connection.target, encrypted=security.encrypted)
        self._headers = {"Host": place.netloc, "X-Request-Timeout": f"{wires.timeout:g}", **dict(metadata)}
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    def request(self, verb: str, path: str, body: bytes = b"") -> bytes:
        """Return the bytes of a request."""
        headers = dict(self._headers)
        if body:
            headers |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
        lines = [f"{verb} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        return "\r\n".join([*lines, "", ""]).encode() + body

    def sender(self, requests: list[bytes]) -> Send:
        """Return a function that sends the requests in turn."""

        async def send(number: int) -> Reply:
            reply = Reply(_UNAVAILABLE)
            for attempt in range(self._wires.attempts):
                if attempt:
                    await asyncio.sleep(_PAUSE * 2 ** (attempt - 1))
                try:
                    reply = _reply(await self.send(requests[number % len(requests)]))
                except TimeoutError:
                    reply = Reply(_LATE, message="the deadline passed before the answer was there")
                except (OSError, EOFError) as error:
                    reply = Reply(_UNAVAILABLE, message=str(error) or type(error).__name__)
                if reply.code != _UNAVAILABLE:
                    break
            return reply

        return send

    async def send(self, request: bytes) -> _Answer:
        """Send a request. Raises TimeoutError, or OSError or EOFError for a connection that fails."""
        async with asyncio.timeout(self._wires.timeout):
            while self._idle:
                # The server may have closed an idle connection just now.
                with suppress(ConnectionError, EOFError):
                    return await self._on(*self._idle.pop(), request)
            name = self._name if self._tls else None
            return await self._on(
                *await asyncio.open_connection(self._host, self._port, ssl=self._tls, server_hostname=name), request
            )

    async def _on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> _Answer:
        keep = False
        try:
            writer.write(request)
            await writer.drain()
            try:
                answer = await _read(reader)
            except (ValueError, IndexError, asyncio.LimitOverrunError) as error:
                raise ConnectionError(f"the server's answer cannot be read ({error})") from error
            keep = answer.headers.get("connection", "").lower() != "close"
        finally:
            if keep:
                self._idle.append((reader, writer))
            else:
                writer.close()
        return answer

    def close(self) -> None:
        """Close the idle connections."""
        for _, writer in self._idle:
            writer.close()


async def _read(reader: asyncio.StreamReader) -> _Answer:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    status = int(head[0].split(" ")[1])
    pairs = (line.partition(":") for line in head[1:] if line)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    if headers.get("transfer-encoding", "").lower() != "chunked":
        length = _checked(int(headers.get("content-length", "0")))
        return _Answer(status, headers, await reader.readexactly(length))
    parts, whole = [], 0
    while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
        whole = _checked(whole + size)
        parts.append((await reader.readexactly(size + 2))[:-2])
    await reader.readuntil(b"\r\n")
    return _Answer(status, headers, b"".join(parts))


def _checked(length: int) -> int:
    if not 0 <= length <= _MOST_BYTES:
        raise ValueError(f"it has {length} bytes")
    return length


def _reply(answer: _Answer) -> Reply:
    if answer.status == 200:
        return Reply(OK, len(answer.body))
    code, message = _CODES.get(answer.status, f"HTTP_{answer.status}"), ""
    with suppress(ValueError, TypeError, KeyError, RecursionError):
        error = json.loads(answer.body)["error"]
        code, message = str(error["status"]), str(error["message"])
    after = answer.headers.get("retry-after", "")
    return Reply(code, message=message, retry_after=float(after) if after.isdecimal() else None)


def _tls(security: Security) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=security.ca)
    if security.cert is not None:
        context.load_cert_chain(security.cert, security.key)
    return context


def _with_bytes(value: Any) -> Any:
    """Return JSON whose tensors have their bytes as base64, as proto3 JSON has them, in place of numbers."""
    if isinstance(value, list):
        return [_with_bytes(each) for each in value]
    if not isinstance(value, dict):
        return value
    if isinstance(value.get("data"), list) and "dataType" in value:
        element = str(value["dataType"]).removeprefix("DATA_TYPE_").lower()
        tensor = to_tensor(np.array(value["data"], element))
        return {**value, "data": base64.b64encode(tensor.data).decode()}
    return {name: _with_bytes(each) for name, each in value.items()}
