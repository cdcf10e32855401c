"""Messages put together around arrays: protobuf writes what is small, and arrays go from where they lie into the bytes
that are sent, in one copy.

Fields of a message may come in any order, and a message inside another is its tag, its length and its bytes
(https://protobuf.dev/programming-guides/encoding).
"""

from collections.abc import Sequence
from functools import lru_cache
from io import BytesIO

import numpy as np

from bundle.values import Array
from bundle.wire import data_type_of
from limelight.v1 import values_pb2

_LENGTH_DELIMITED = 2
_DATA = values_pb2.Tensor.DATA_FIELD_NUMBER


class Frame:
    """The fields of one message, in the order in which they were put in.

    parts: bytes, and little-endian arrays whose elements stand there row-major. size: of them all, in bytes.
    """

    __slots__ = ("parts", "size")

    def __init__(self, fields: bytes = b"") -> None:
        """Begin with serialised fields."""
        self.parts: list[bytes | Array] = [fields]
        self.size = len(fields)

    def put(self, number: int, message: "Frame | bytes") -> None:
        """Put in a message (or a string), serialised or framed, as field `number`."""
        if isinstance(message, Frame):
            size, parts = message.size, message.parts
        else:
            size, parts = len(message), [message]
        head = field_head(number, size)
        self.parts.append(head)
        self.parts += parts
        self.size += len(head) + size

    def extend(self, other: "Frame") -> None:
        """Put in further fields of the same message."""
        self.parts += other.parts
        self.size += other.size

    def put_tensor(self, number: int, array: Array) -> None:
        """Put in an array as a `Tensor`. It is not copied before `joined`, so it may not change before that."""
        little = np.asarray(array, dtype=array.dtype.newbyteorder("<"))
        self.put(number, _tensor(data_type_of(little), little))

    def joined(self) -> bytes:
        """Give the message's bytes: the one copy."""
        return joined(self.parts, self.size)


def joined(parts: Sequence[bytes | Array], size: int) -> bytes:
    """Put parts of `size` bytes one behind the other. An array that is a slice of another is written into its place."""
    if all(isinstance(each, bytes) or each.flags.c_contiguous for each in parts):
        return b"".join(parts)  # type: ignore[arg-type]  # arrays are buffers
    whole = BytesIO(bytes(size))  # whose bytes are handed over as they are, once nobody writes any more
    place = 0
    with whole.getbuffer() as view:
        for each in parts:
            if isinstance(each, bytes):
                view[place : place + len(each)] = each
                place += len(each)
            else:
                _write(each, np.frombuffer(view, np.uint8, each.nbytes, place))
                place += each.nbytes
    return whole.getvalue()


def field_head(number: int, size: int) -> bytes:
    """Give what stands before the `size` bytes of a message, a string or bytes."""
    return _varint(number << 3 | _LENGTH_DELIMITED) + _varint(size)


def _tensor(data_type: int, array: Array) -> Frame:
    frame = Frame(_tensor_fields(data_type, array.shape))
    if array.nbytes:
        head = field_head(_DATA, array.nbytes)
        frame.parts += [head, array]
        frame.size += len(head) + array.nbytes
    return frame


@lru_cache(maxsize=4096)
def _tensor_fields(data_type: int, shape: tuple[int, ...]) -> bytes:
    """Serialise all of a tensor but its data."""
    return values_pb2.Tensor(data_type=data_type, shape=shape).SerializeToString()  # type: ignore[arg-type]


def _write(array: Array, place: Array) -> None:
    """Write an array into bytes that lie anywhere, at addresses that its type may not be read from."""
    in_lines = not array.flags.c_contiguous and array.strides[-1] == array.itemsize
    source = array if in_lines else np.ascontiguousarray(array).reshape(-1)
    source = source.view(np.uint8)
    np.copyto(place.reshape(source.shape), source)


def _varint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    groups = []
    while value >= 0x80:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)
