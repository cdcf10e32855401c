"""Reads what an error carries beside code and message: `google.rpc.Status` in the metadata `grpc-status-details-bin`.

The messages of google.rpc are not a dependency, and registering their names here would break a program that has them
from elsewhere. Four fields of three messages are needed, so they are read from the wire format.
"""

from collections.abc import Iterator
from dataclasses import dataclass

METADATA_KEY = "grpc-status-details-bin"

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True)
class FieldViolation:
    """A field of the request that is wrong."""

    field: str
    """Its path: `instances[0].inputs["text"]`."""
    description: str
    """What is wrong with it."""


@dataclass(frozen=True)
class Details:
    """What an error's details say; empty where it has none."""

    violations: tuple[FieldViolation, ...] = ()
    retry_after: float | None = None
    """Seconds to wait before the same call may succeed."""


def read(status: bytes) -> Details:
    """The details in a serialised `google.rpc.Status`. Broken ones are left out: they must not hide the error."""
    violations: list[FieldViolation] = []
    retry_after: float | None = None
    try:
        for detail in _messages(status, 3):
            name, value = _text(detail, 1).rpartition("/")[2], b"".join(_messages(detail, 2))
            if name == "google.rpc.BadRequest":
                violations += [FieldViolation(_text(each, 1), _text(each, 2)) for each in _messages(value, 1)]
            elif name == "google.rpc.RetryInfo":
                for delay in _messages(value, 1):
                    retry_after = _integer(delay, 1) + _integer(delay, 2) / 1e9
    except ValueError:
        pass
    return Details(tuple(violations), retry_after)


def _messages(message: bytes, number: int) -> list[bytes]:
    return [value for field, value in _fields(message) if field == number and isinstance(value, bytes)]


def _text(message: bytes, number: int) -> str:
    return b"".join(_messages(message, number)[-1:]).decode()


def _integer(message: bytes, number: int) -> int:
    found = [value for field, value in _fields(message) if field == number and isinstance(value, int)]
    return found[-1] if found else 0


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Every field of a serialised message: its number, and an integer or bytes."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, wire_type = key >> 3, key & 7
        if wire_type == _VARINT:
            value, at = _varint(message, at)
            # Negative integers are sent as 64-bit two's complement.
            yield number, value - (1 << 64) if value >> 63 else value
            continue
        if wire_type == _BYTES:
            size, at = _varint(message, at)
        elif wire_type in (_FIXED64, _FIXED32):
            size = 8 if wire_type == _FIXED64 else 4
        else:
            raise ValueError(f"wire type {wire_type}")
        if at + size > len(message):
            raise ValueError("a field longer than its message")
        yield number, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            raise ValueError("an integer cut short")
        byte, at = message[at], at + 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("an integer too long")
