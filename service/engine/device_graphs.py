"""Graphs of a node or a few that a device needs beside those of models: nothing here can make ONNX but byte by byte."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from bundle.values import Array
from service.engine.providers import Provider, runtime

FLOAT, INT64 = 1, 7  # onnx.TensorProto.DataType

# An ONNX model of IR version 8 and operator set 20, a Gather along each axis:
# take(float[a,b,c,d] x, int64[p] i, int64[q] j, int64[r] m, int64[s] k) => (float[p,q,r,s] y)
_INPUTS = (
    b"Z\x1f\n\x01x\x12\x1a\n\x18\x08\x01\x12\x14\n\x03\x12\x01a\n\x03\x12\x01b\n\x03\x12\x01c\n\x03\x12\x01d"
    b"Z\x10\n\x01i\x12\x0b\n\t\x08\x07\x12\x05\n\x03\x12\x01pZ\x10\n\x01j\x12\x0b\n\t\x08\x07\x12\x05\n\x03\x12\x01q"
    b"Z\x10\n\x01m\x12\x0b\n\t\x08\x07\x12\x05\n\x03\x12\x01rZ\x10\n\x01k\x12\x0b\n\t\x08\x07\x12\x05\n\x03\x12\x01s"
)
_GATHERS = (
    b'\n \n\x01x\n\x01i\x12\x01f"\x06Gather*\x0b\n\x04axis\x18\x00\xa0\x01\x02:\x00'
    b'\n \n\x01f\n\x01j\x12\x01g"\x06Gather*\x0b\n\x04axis\x18\x01\xa0\x01\x02:\x00'
    b'\n \n\x01g\n\x01m\x12\x01h"\x06Gather*\x0b\n\x04axis\x18\x02\xa0\x01\x02:\x00'
)
_SHAPE = b"\x12\x14\n\x03\x12\x01p\n\x03\x12\x01q\n\x03\x12\x01r\n\x03\x12\x01sB\x04\n\x00\x10\x14"
TAKE = (
    b"\x08\x08:\x98\x02" + _GATHERS + b'\n \n\x01h\n\x01k\x12\x01y"\x06Gather*\x0b\n\x04axis\x18\x03\xa0\x01\x02:\x00'
    b"\x12\x04take" + _INPUTS + b"b\x1f\n\x01y\x12\x1a\n\x18\x08\x01" + _SHAPE
)
# The same, and y in halves.
TAKE_HALF = (
    b"\x08\x08:\xb3\x02" + _GATHERS + b'\n \n\x01h\n\x01k\x12\x01w"\x06Gather*\x0b\n\x04axis\x18\x03\xa0\x01\x02:\x00'
    b'\n\x19\n\x01w\x12\x01y"\x04Cast*\t\n\x02to\x18\n\xa0\x01\x02:\x00\x12\x04take'
    + _INPUTS
    + b"b\x1f\n\x01y\x12\x1a\n\x18\x08\n"
    + _SHAPE
)


def gather(kind: int) -> bytes:
    """Make y = Gather(x, i) along the first axis. kind: the data type of x and y."""
    return _one_node("Gather", {"x": kind, "i": INT64}, kind)


def scatter(kind: int) -> bytes:
    """Make y = ScatterND(x, i, u): x with u at i. kind: the data type of x, u and y."""
    return _one_node("ScatterND", {"x": kind, "i": INT64, "u": kind}, kind)


def put(array: Array, provider: Provider) -> Any:
    """Put an array on a provider's device."""
    assert provider.device is not None
    return runtime().OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array), *provider.device)


def run_graph(graph: bytes, values: Mapping[str, Any], provider: Provider) -> Any:
    """Run one of these there, on values that are there; gives its output, which stays."""
    assert provider.device is not None
    session = _open(graph, provider.name, tuple(provider.options.items()))
    binding = session.io_binding()
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    binding.bind_output("y", *provider.device)
    session.run_with_iobinding(binding)
    (found,) = binding.get_outputs()
    return found


@cache
def _open(graph: bytes, provider: str, provider_options: tuple[tuple[str, str], ...]) -> Any:
    """Open one of these on a device, once for all models."""
    ort = runtime()
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_mem_pattern = False
    return ort.InferenceSession(graph, options, providers=[(provider, dict(provider_options))])


def _one_node(operator: str, inputs: Mapping[str, int], kind: int) -> bytes:
    """Make a model of one node, whose names have one letter, with tensors of any shape."""
    node = b"".join(b"\n\x01" + name.encode() for name in inputs) + b"\x12\x01y" + _field(0x22, operator.encode())
    values = b"".join(_field(0x5A, _value(name, each)) for name, each in inputs.items())
    graph = _field(0x0A, node) + _field(0x12, operator.encode()) + values + _field(0x62, _value("y", kind))
    return b"\x08\x08" + _field(0x3A, graph) + b"B\x04\n\x00\x10\x14"


def _value(name: str, kind: int) -> bytes:
    return b"\n\x01" + name.encode() + b"\x12\x04\n\x02\x08" + bytes([kind])


def _field(tag: int, data: bytes) -> bytes:
    assert len(data) < 128
    return bytes([tag, len(data)]) + data
