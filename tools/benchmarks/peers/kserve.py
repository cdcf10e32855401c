"""Requests of the Open Inference Protocol v2, which Triton and MLServer speak, written without its generated code.

https://github.com/kserve/open-inference-protocol/blob/main/specification/protocol/inference_grpc.md
"""

from collections.abc import Mapping, Sequence

import grpc
import numpy as np

INFER = "/inference.GRPCInferenceService/ModelInfer"
_READY = "/inference.GRPCInferenceService/ModelReady"
_TYPES = {"int64": b"INT64", "bool": b"BOOL"}


def infer(model: str, tensors: Mapping[str, np.ndarray], outputs: Sequence[str]) -> bytes:
    """Serialise a ModelInferRequest: model_name = 1, inputs = 5, outputs = 6, raw_input_contents = 7."""
    parts = [_field(1, model.encode())]
    for name, tensor in tensors.items():
        shape = b"".join(map(_varint, tensor.shape))
        described = _field(1, name.encode()) + _field(2, _TYPES[tensor.dtype.name]) + _field(3, shape)
        parts.append(_field(5, described))
    parts += [_field(6, _field(1, name.encode())) for name in outputs]
    parts += [_field(7, tensor.tobytes()) for tensor in tensors.values()]
    return b"".join(parts)


def model_ready(channel: grpc.Channel, model: str) -> bool:
    """Ask whether a model answers: ModelReadyRequest{name = 1}, ModelReadyResponse{ready = 1}."""
    return bool(channel.unary_unary(_READY)(_field(1, model.encode()), timeout=1) == b"\x08\x01")


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])
