"""Requests that a server failed on: kept as files, sent again, made smaller."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
from google.protobuf.message import DecodeError, Message

_ALONE_SECONDS = 30.0


class Findings:
    """Files of one kind of finding each, in a folder; the first few of a kind are kept."""

    def __init__(self, folder: Path, most: int = 20) -> None:
        self._folder = folder
        self._most = most
        self._kept: dict[str, int] = {}

    def keep(self, kind: str, number: int, method: str, message: bytes, said: str = "") -> None:
        """Keep a request. kind: INTERNAL, slow, crash…; said: by the server."""
        self._kept[kind] = self._kept.get(kind, 0) + 1
        if self._kept[kind] <= self._most:
            self._folder.mkdir(parents=True, exist_ok=True)
            write(self._folder / f"{kind}-{number}.json", method, message, said)


def write(file: Path, method: str, message: bytes, said: str = "") -> None:
    """Write a request as a file: its method, and its message in hexadecimal."""
    content = {"method": method, "said": said, "message": message.hex()}
    file.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read(file: Path) -> tuple[str, bytes]:
    """Read a request: its method and its message."""
    content = json.loads(file.read_text(encoding="utf-8"))
    return content["method"], bytes.fromhex(content["message"])


def send(channel: grpc.Channel, method: str, message: bytes) -> grpc.StatusCode:
    """Send a request alone, unread by any library here; a stream is read to its end."""
    try:
        for _ in channel.unary_stream(method)(message, timeout=_ALONE_SECONDS):
            pass
    except grpc.RpcError as error:
        code: grpc.StatusCode = error.code()  # type: ignore[attr-defined]
        return code
    return grpc.StatusCode.OK


def shrunk(message: bytes, kind: type[Message], fails: Callable[[bytes], bool]) -> bytes:
    """Make a message as small as it can be and still fail: field by field where it parses, byte by byte where not."""
    try:
        parsed = kind.FromString(message)
    except DecodeError:
        return _shrunk_bytes(message, fails)
    if not fails(parsed.SerializeToString()):
        return _shrunk_bytes(message, fails)
    while True:
        smaller = next((each for each in _smaller(parsed) if fails(each.SerializeToString())), None)
        if smaller is None:
            return parsed.SerializeToString()
        parsed = smaller


def _smaller(message: Message) -> Iterator[Message]:
    """Every message that lacks one thing of this one, the largest things first."""
    for field, value in message.ListFields():
        without = type(message)()
        without.CopyFrom(message)
        without.ClearField(field.name)
        yield without
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            for key in value:
                if isinstance(value[key], Message):
                    for inner in _smaller(value[key]):
                        changed = _copy(message)
                        getattr(changed, field.name)[key].CopyFrom(inner)
                        yield changed
        elif field.is_repeated:
            yield from _shorter(message, field.name, len(value))
            for place in range(min(len(value), 8)) if field.message_type is not None else ():
                for inner in _smaller(value[place]):
                    changed = _copy(message)
                    getattr(changed, field.name)[place].CopyFrom(inner)
                    yield changed
        elif field.message_type is not None:
            for inner in _smaller(value):
                changed = _copy(message)
                getattr(changed, field.name).CopyFrom(inner)
                yield changed
        elif isinstance(value, str | bytes) and len(value) > 1:
            for part in (value[: len(value) // 2], value[len(value) // 2 :], value[:-1], value[1:]):
                changed = _copy(message)
                setattr(changed, field.name, part)
                yield changed


def _shorter(message: Message, name: str, count: int) -> Iterator[Message]:
    """The message with a part of a repeated field left out."""
    step = max(1, count // 2)
    while step and count > 1:
        for start in range(0, count, step):
            changed = _copy(message)
            del getattr(changed, name)[start : start + step]
            yield changed
        step //= 2


def _shrunk_bytes(data: bytes, fails: Callable[[bytes], bool]) -> bytes:
    step = len(data) // 2
    while step:
        start = 0
        while start < len(data):
            less = data[:start] + data[start + step :]
            if fails(less):
                data = less
            else:
                start += step
        step //= 2
    return data


def _copy(message: Message) -> Message:
    copied = type(message)()
    copied.CopyFrom(message)
    return copied
