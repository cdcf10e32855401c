"""Values of every type of field that code is most likely to be wrong about."""

import random
from collections.abc import Sequence

from google.protobuf.descriptor import FieldDescriptor

# `field.cpp_type`: what a field holds, whatever the wire calls it.
_INTEGERS = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
    FieldDescriptor.CPPTYPE_ENUM: (-(2**31), 2**31 - 1),
}
_EDGES = (-(2**63), -(2**31), -32769, -129, -2, -1, 0, 1, 2, 3, 7, 16, 17, 127, 128, 255, 256, 257, 1000, 1024, 1025)
_FAR_EDGES = (4096, 4097, 65535, 65536, 2**24 + 1, 2**31 - 1, 2**31, 2**32 - 1, 2**53 + 1, 2**63 - 1, 2**64 - 1)
_FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, 1e-30, 1e30, 3.4e38, float("nan"), float("inf"), float("-inf"))
_STRINGS = (
    "",
    " ",
    "\x00",
    "a\x00b",
    "\t\r\n\v\f\x85\u2028\u2029",
    "\ufeffbegin",
    "\ufffe\uffff\U0010ffff",
    "مرحبا \u202eabc\u202c بالعالم",
    "e\u0301" * 40,
    "Z" + "\u0335\u0489" * 200,
    "👩‍👩‍👧‍👦🏳️‍🌈",
    "ﬃ ½ ﷺ İ ß ǰ",
    "한글 日本語 ไทย",
    "[PAD][UNK][CLS][SEP]<s></s><unk>▁",
    "../../etc/passwd",
    "%s%n{0}${x}`id`",
    "*" * 255,
    "*a" * 100 + "b",
    "encoder.*",
    ".",
    "a.b.c.d.e.f",
    "-1",
    "1e999",
    "\u200b\u200d\u2060" * 30,
    "a " * 900,
    "." * 700,
    "\n" * 500,
    "x" * 20_000,
    "字" * 3_000,
)


def number(kind: int, chance: random.Random) -> int:
    """An integer of a field of this `cpp_type`, mostly at an edge."""
    low, high = _INTEGERS[kind]
    if kind == FieldDescriptor.CPPTYPE_ENUM and chance.random() < 0.8:
        return chance.randint(0, 20)
    value = chance.choice(_EDGES if chance.random() < 0.7 else _FAR_EDGES)
    return min(max(value, low), high) if chance.random() < 0.9 else chance.randint(low, high)


def is_integer(kind: int) -> bool:
    """Whether fields of this `cpp_type` hold integers."""
    return kind in _INTEGERS


def real(chance: random.Random) -> float:
    """A number with a fraction."""
    return chance.choice(_FLOATS) if chance.random() < 0.8 else chance.uniform(-1e4, 1e4)


def text(chance: random.Random, known: Sequence[str]) -> str:
    """A string: one that the protocol's other messages hold, or one that is hard on whoever reads it."""
    lot = chance.random()
    if lot < 0.45 and known:
        return chance.choice(known)
    if lot < 0.85:
        return chance.choice(_STRINGS)
    return "".join(chr(_scalar(chance)) for _ in range(chance.randint(1, 40)))


def octets(chance: random.Random, before: bytes) -> bytes:
    """Bytes: those that were there cut, changed or repeated, or others."""
    lot = chance.random()
    if before and lot < 0.25:
        return before[: chance.randrange(len(before))]
    if before and lot < 0.6:
        changed = bytearray(before)
        for _ in range(chance.randint(1, 8)):
            changed[chance.randrange(len(changed))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        return bytes(changed)
    if before and lot < 0.7:
        return before * chance.randint(2, 5)
    return chance.choice(
        (b"", b"\x00", b"\xff" * 8, b"\x89PNG\r\n\x1a\n", b"RIFF\xff\xff\xff\xffWAVEfmt ", b"GIF89a")
    ) + (chance.randbytes(chance.choice((0, 1, 3, 4, 7, 8, 64, 1000))))


def _scalar(chance: random.Random) -> int:
    """A code point that is no surrogate."""
    return chance.choice((chance.randint(0, 0x7F), chance.randint(0x80, 0xD7FF), chance.randint(0xE000, 0x10FFFF)))
