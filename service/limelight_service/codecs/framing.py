"""Messages put together around arrays: protobuf writes the small fields, and arrays are copied once, into the bytes
that are sent.

Fields of a message may come in any order, and a message inside another is its tag, its length and its bytes
(https://protobuf.dev/programming-guides/encoding).
"""

from collections.abc import Sequence
from functools import lru_cache
from io import BytesIO

import numpy as np

from limelight.v1 import values_pb2
from limelight_bundle.values import Array
from limelight_bundle.wire import data_type_of

_LENGTH_DELIMITED = 2
_LARGE = 2**18
_HEADS = 1024  # that are kept of each kind: a few hundred bytes each, and some microseconds to write anew


class Frame:
    """The fields of one message, in the order in which they were put in. size: bytes so far."""

    __slots__ = ("_parts", "_scattered", "size")

    def __init__(self, fields: bytes = b"") -> None:
        """Begin with serialised fields."""
        self._parts: list[bytes | Array] = [fields]
        self._scattered = False  # some array is a slice
        self.size = len(fields)

    def put(self, number: int, message: "Frame | bytes") -> None:
        """Put in a message (or a string), serialised or framed, as field `number`."""
        if isinstance(message, Frame):
            head = _field_head(number, message.size)
            self._parts.append(head)
            self._parts += message._parts
            self._scattered |= message._scattered
            self.size += len(head) + message.size
        else:
            head = _field_head(number, len(message))
            self._parts += (head, message)
            self.size += len(head) + len(message)

    def extend(self, other: "Frame") -> None:
        """Put in further fields of the same message."""
        self._parts += other._parts
        self._scattered |= other._scattered
        self.size += other.size

    def put_tensor(self, number: int, array: Array) -> None:
        """Put in an array as a `Tensor`. It is not copied before `joined`, so it may not change before that."""
        little = array.dtype.newbyteorder("<")
        if array.dtype != little:
            array = array.astype(little)
        head = _tensor_head(number, data_type_of(array), array.shape, array.nbytes)
        self._parts += (head, array)
        self._scattered |= not array.flags.c_contiguous
        self.size += len(head) + array.nbytes

    def put_contents(self, number: int, arrays: Sequence[Array]) -> None:
        """Put in the numbers of arrays of one type, one after the other, as the bytes of field `number`."""
        size = sum(each.nbytes for each in arrays)
        head = _field_head(number, size)
        self._parts += (head, *(each for each in arrays if each.nbytes))
        self._scattered |= not all(each.flags.c_contiguous for each in arrays)
        self.size += len(head) + size

    def joined(self) -> bytes:
        """Put the message's bytes together: the one copy.

        An array that is a slice is written into its place, and so is all that is large.
        """
        if self.size < _LARGE and not self._scattered:
            return b"".join(self._parts)  # type: ignore[arg-type]  # arrays are buffers
        whole = BytesIO(bytes(self.size))  # whose bytes are handed over as they are, once nobody writes any more
        with whole.getbuffer() as view:
            self._write(view)
        return whole.getvalue()

    def _write(self, view: memoryview) -> None:
        """Write the message's bytes; NumPy lets other threads go on meanwhile."""
        place = 0
        for each in self._parts:
            if isinstance(each, bytes):
                view[place : place + len(each)] = each
                place += len(each)
            else:
                _write(each, np.frombuffer(view, np.uint8, each.nbytes, place))
                place += each.nbytes


@lru_cache(maxsize=_HEADS)
def _field_head(number: int, size: int) -> bytes:
    """Give what stands before the `size` bytes of a message, a string or bytes."""
    return _varint(number << 3 | _LENGTH_DELIMITED) + _varint(size)


@lru_cache(maxsize=_HEADS)
def _tensor_head(number: int, data_type: values_pb2.DataType, shape: tuple[int, ...], size: int) -> bytes:
    """Give what stands before the `size` bytes of an array, in a field that is a `Tensor`."""
    fields = values_pb2.Tensor(data_type=data_type, shape=shape).SerializeToString()
    if size:
        fields += _field_head(values_pb2.Tensor.DATA_FIELD_NUMBER, size)
    return _field_head(number, len(fields) + size) + fields


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
