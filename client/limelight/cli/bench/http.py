"""Calls of limelight.v1 as JSON over HTTP/1.1: predict, or attend where attention is asked for."""

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import numpy as np
from google.protobuf import json_format

from limelight import calls
from limelight.base.commands import CommandError
from limelight.base.errors import Unavailable
from limelight.base.optional import package
from limelight.base.tensors import to_tensor
from limelight.cli.bench import native
from limelight.cli.bench.load import OK, Reply, Send
from limelight.cli.bench.protocols import Calls, Question, Wires
from limelight.cli.connection import Connection
from limelight.handshakes import explained
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
    try:
        httpx = package("httpx", "--protocol http", extra="bench")
    except ModuleNotFoundError as error:
        raise CommandError(str(error)) from None
    async with Caller(httpx, connection, wires) as caller:
        path = f"/v1/models/{quote(question.model, safe='')}"
        path += f"/versions/{question.version}" if question.version else ""
        try:
            answer = await caller.answer(caller.request("GET", path))
        except (OSError, httpx.TransportError) as error:
            failed = Unavailable(str(error) or type(error).__name__)
            encrypted = Security(**connection.security).encrypted
            raise await asyncio.to_thread(explained, failed, connection.target, encrypted=encrypted) from error
        if answer.status != 200:
            reply = _reply(answer)
            raise CommandError(f"{reply.code}: {reply.message}")
        try:
            # Other clients read the same answer, so it has more fields than the message.
            described = json_format.ParseDict(
                _with_bytes(json.loads(answer.body)), service_pb2.GetModelResponse(), ignore_unknown_fields=True
            )
        except (ValueError, TypeError, RecursionError, json_format.ParseError) as error:
            raise CommandError(f"{connection.target} does not describe the model: {error}") from error
        model = calls.read(calls.model(question.model, question.version), described)
        method, messages = native.make_requests(question, native.read_instances(model, question))
        for each in messages:
            each.ClearField("model")  # the path states it
        bodies = [json_format.MessageToJson(each, indent=None).encode() for each in messages]
        requests = [caller.request("POST", f"{path}:{method.lower()}", each) for each in bodies]
        yield Calls(caller.sender(requests), method, len(requests))


class Answer(NamedTuple):
    """The end of a call. retry_after: as the server wrote it."""

    status: int
    retry_after: str
    body: bytes


class Caller:
    """HTTP connections to one server, each for one call at a time; as many as calls are under way."""

    def __init__(self, httpx: Any, connection: Connection, wires: Wires) -> None:
        place = urlsplit(f"//{connection.target}")
        if not place.hostname or not place.port or place.path:
            raise CommandError(f"--protocol http takes a --target HOST:PORT, not {connection.target!r}", status=2)
        security = Security(**connection.security)
        metadata = security.metadata(connection.target, encrypted=security.encrypted)
        self._httpx, self._wires = httpx, wires
        self._extensions = {"sni_hostname": security.server_name or place.hostname} if security.encrypted else {}
        self._client = httpx.AsyncClient(
            base_url=f"{'https' if security.encrypted else 'http'}://{place.netloc}",
            headers={"Accept-Encoding": "identity", "X-Request-Timeout": f"{wires.timeout:g}", **dict(metadata)},
            verify=_tls(security) if security.encrypted else False,
            timeout=None,  # `answer` bounds a call as a whole
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),
            trust_env=False,
        )

    async def __aenter__(self) -> "Caller":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    def request(self, verb: str, path: str, body: bytes | None = None) -> Any:
        """Return a request, which may be sent often."""
        headers = {"Content-Type": "application/json"} if body else None
        return self._client.build_request(verb, path, content=body, headers=headers, extensions=self._extensions)

    def sender(self, requests: Sequence[Any]) -> Send:
        """Return a function that sends the requests in turn."""

        async def send(number: int) -> Reply:
            reply = Reply(_UNAVAILABLE)
            for attempt in range(self._wires.attempts):
                if attempt:
                    await asyncio.sleep(_PAUSE * 2 ** (attempt - 1))
                try:
                    reply = _reply(await self.answer(requests[number % len(requests)]))
                except TimeoutError:
                    reply = Reply(_LATE, message="the deadline passed before the answer was there")
                except (OSError, self._httpx.TransportError) as error:
                    reply = Reply(_UNAVAILABLE, message=str(error) or type(error).__name__)
                if reply.code != _UNAVAILABLE:
                    break
            return reply

        return send

    async def answer(self, request: Any) -> Answer:
        """Send a request, and read its answer. Raises TimeoutError, OSError or httpx.TransportError."""
        async with asyncio.timeout(self._wires.timeout):
            response, body = await self._client.send(request, stream=True), bytearray()
            try:
                async for part in response.aiter_raw():
                    body += part
                    if len(body) > _MOST_BYTES:
                        raise self._httpx.ReadError(f"the answer has more than {_MOST_BYTES:,} bytes")
            finally:
                await response.aclose()
            return Answer(response.status_code, response.headers.get("Retry-After", ""), bytes(body))


def _reply(answer: Answer) -> Reply:
    if answer.status == 200:
        return Reply(OK, len(answer.body))
    code, message, after = _CODES.get(answer.status, f"HTTP_{answer.status}"), "", answer.retry_after
    with suppress(ValueError, TypeError, KeyError, RecursionError):
        error = json.loads(answer.body)["error"]
        code, message = str(error["status"]), str(error["message"])
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
