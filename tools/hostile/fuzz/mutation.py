"""Messages changed field by field, as their descriptors allow, and bytes changed as they do not."""

import random
from collections.abc import Callable, Sequence
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from hostile.fuzz import values

_REPEATS = (2, 3, 17, 100, 300, 1100, 3000)
_DESCENDS = 0.7
_LARGEST_ELEMENT = 4096  # bytes of one that is repeated by the thousand


class Mutator:
    """Changes messages at random. known: strings that mean something to the server. parts: messages by type, taken from
    valid requests, that may stand in for each other.
    """

    def __init__(self, chance: random.Random, known: Sequence[str], parts: dict[str, list[Message]]) -> None:
        self._chance = chance
        self._known = known
        self._parts = parts

    def message(self, valid: Message) -> Message:
        """Change a copy of a message in one to four places."""
        changed = type(valid)()
        changed.CopyFrom(valid)
        for _ in range(self._chance.choice((1, 1, 1, 2, 2, 4))):
            self._change(self._somewhere(changed))
        return changed

    def _somewhere(self, message: Message) -> Message:
        """Go down into a message as chance has it."""
        while self._chance.random() < _DESCENDS:
            below = [inner for field, value in message.ListFields() for inner in _messages(field, value)]
            if not below:
                return message
            message = self._chance.choice(below)
        return message

    def _change(self, message: Message) -> None:
        fields = message.DESCRIPTOR.fields
        if not fields:
            return
        there = [field for field, _ in message.ListFields()]
        field = self._chance.choice(there if there and self._chance.random() < 0.6 else fields)
        if _is_map(field):
            self._change_map(message, field)
        elif field.is_repeated:
            self._change_repeated(message, field)
        elif field.message_type is None:
            setattr(message, field.name, self._scalar(field, getattr(message, field.name)))
        elif self._chance.random() < 0.3:
            message.ClearField(field.name)
        else:
            inner = getattr(message, field.name)
            inner.SetInParent()
            if (stand_in := self._part(field)) is not None:
                inner.CopyFrom(stand_in)

    def _change_repeated(self, message: Message, field: FieldDescriptor) -> None:
        chance, elements = self._chance, getattr(message, field.name)
        lot = chance.random()
        if lot < 0.15 or (lot < 0.3 and not elements):
            message.ClearField(field.name)
        elif lot < 0.3:
            del elements[chance.randrange(len(elements))]
        elif lot < 0.5 and elements:
            self._repeat(elements, field)
        elif lot < 0.65 and elements and field.message_type is None:
            place = chance.randrange(len(elements))
            elements[place] = self._scalar(field, elements[place])
        else:
            self._append(elements, field)

    def _repeat(self, elements: Any, field: FieldDescriptor) -> None:
        """Have one element many times."""
        one = self._chance.choice(list(elements))
        times = self._chance.choice(_REPEATS)
        if field.message_type is not None:
            one = type(one).FromString(one.SerializeToString())
        size = one.ByteSize() if field.message_type is not None else len(one) if isinstance(one, str | bytes) else 1
        elements.extend([one] * (times if size <= _LARGEST_ELEMENT else min(times, 3)))

    def _append(self, elements: Any, field: FieldDescriptor) -> None:
        for _ in range(self._chance.choice((1, 1, 2, 5))):
            if field.message_type is None:
                elements.append(self._scalar(field, None))
            else:
                added = elements.add()
                if (stand_in := self._part(field)) is not None:
                    added.CopyFrom(stand_in)

    def _change_map(self, message: Message, field: FieldDescriptor) -> None:
        entries = getattr(message, field.name)
        key = values.text(self._chance, self._known)
        if entries and self._chance.random() < 0.5:
            gone = self._chance.choice(sorted(entries))
            if self._chance.random() < 0.6:  # the same value under another name
                entries[key].CopyFrom(entries[gone])
            if key != gone:
                del entries[gone]
            return
        stand_in = self._part(field.message_type.fields_by_name["value"])
        entries[key].SetInParent()
        if stand_in is not None:
            entries[key].CopyFrom(stand_in)

    def _part(self, field: FieldDescriptor) -> Message | None:
        there = self._parts.get(field.message_type.full_name)
        return self._chance.choice(there) if there and self._chance.random() < 0.8 else None

    def _scalar(self, field: FieldDescriptor, before: Any) -> Any:
        kind = field.cpp_type
        if values.is_integer(kind):
            return values.number(kind, self._chance)
        if kind in (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE):
            return values.real(self._chance)
        if kind == FieldDescriptor.CPPTYPE_BOOL:
            return not before
        if field.type == FieldDescriptor.TYPE_BYTES:
            return values.octets(self._chance, before or b"")
        return values.text(self._chance, self._known)


def parts_of(messages: Sequence[Message]) -> dict[str, list[Message]]:
    """Collect every message inside some messages, by type."""
    found: dict[str, list[Message]] = {}
    todo = list(messages)
    while todo:
        message = todo.pop()
        found.setdefault(message.DESCRIPTOR.full_name, []).append(message)
        todo += [inner for field, value in message.ListFields() for inner in _messages(field, value)]
    return found


def _messages(field: FieldDescriptor, value: Any) -> list[Message]:
    """The messages that a field holds."""
    if field.message_type is None:
        return []
    if _is_map(field):
        held = list(value.values())
        return held if held and isinstance(held[0], Message) else []
    return list(value)[:64] if field.is_repeated else [value]


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _varint(value: int, *, padding: int = 0) -> bytes:
    """Write a variable-length integer, longer than it needs to be by so many bytes."""
    groups = bytearray()
    while value >= 0x80:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    for _ in range(padding):
        groups[-1] |= 0x80
        groups.append(0)
    return bytes(groups)


def _cut(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data) + 1)]


def _flip(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data or b"\x00")
    for _ in range(chance.randint(1, 6)):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _unknown(data: bytes, chance: random.Random) -> bytes:
    """Fields that no message has, of every wire type."""
    number, kind = chance.choice((15, 99, 19_000, 2**29 - 1)), chance.randrange(8)
    body = {0: _varint(chance.getrandbits(64)), 1: b"\0" * 8, 2: _varint(5) + b"hello", 5: b"\0" * 4}.get(kind, b"")
    return data + (_varint(number << 3 | kind) + body) * chance.choice((1, 2, 500))


def _overlong(data: bytes, chance: random.Random) -> bytes:
    """A field whose length promises more than there is, or is written in too many bytes."""
    length = chance.choice((2**31 - 1, 2**32, 2**63, 2**64 - 1, 10))
    return data + _varint(chance.randint(1, 8) << 3 | 2, padding=chance.randrange(3)) + _varint(length, padding=2)


def _not_utf8(data: bytes, chance: random.Random) -> bytes:
    """A string field that holds no text: a lone surrogate, a cut sequence, an overlong slash."""
    bad = chance.choice((b"\xed\xa0\x80", b"\xf0\x9f\x92", b"\xc0\xaf", b"\xff\xfe", b"\xf4\x90\x80\x80"))
    inner = _varint(1 << 3 | 2) + _varint(len(bad)) + bad
    outer = _varint(chance.randint(1, 4) << 3 | 2) + _varint(len(inner)) + inner
    return data + (inner if chance.random() < 0.5 else outer)


def _nested(data: bytes, chance: random.Random) -> bytes:
    """Messages in messages, deeper than a parser goes."""
    body = b""
    for _ in range(chance.choice((10, 99, 101, 500))):
        body = _varint(chance.randint(1, 3) << 3 | 2) + _varint(len(body)) + body
    return data + body


def _groups(data: bytes, chance: random.Random) -> bytes:
    """Groups, which proto3 has no more, open or closed by another."""
    return data + bytes([chance.randint(1, 15) << 3 | 3]) * chance.choice((1, 100, 5000)) + bytes([1 << 3 | 4])


def _spliced(data: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(data) + 1)
    return data + data[start : start + chance.randrange(200)] * chance.choice((1, 2, 20))


_ON_THE_WIRE: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _cut,
    _flip,
    _unknown,
    _overlong,
    _not_utf8,
    _nested,
    _groups,
    _spliced,
)


def on_the_wire(data: bytes, chance: random.Random) -> bytes:
    """Change the bytes of a message as no library would write them."""
    return chance.choice(_ON_THE_WIRE)(data, chance)
