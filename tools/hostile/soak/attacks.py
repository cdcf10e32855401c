"""Attacks of hostile callers: uploads that never end, answers that are not read, half-open connections."""

import contextlib
import random
import socket
import struct
import time
from collections.abc import Iterator

import grpc

from limelight.v1 import attention_pb2, service_pb2, values_pb2
from tests.hostile.wire import DATA, HEADERS, SERVICE, SETTINGS, fields_of, frame, prefix

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def unfinished_uploads(target: str, seconds: float, chance: random.Random) -> None:
    """Promise large messages, send a part of each, and wait."""
    with contextlib.ExitStack() as stack:
        for _ in range(16):
            link = _link(stack, target)
            link.sendall(_PREFACE + frame(SETTINGS, 0, 0, b""))
            link.sendall(frame(HEADERS, 4, 1, fields_of(SERVICE + "Predict")))
            link.sendall(frame(DATA, 0, 1, prefix(8 * 2**20) + chance.randbytes(12_000)))
        time.sleep(seconds)


def unread_answers(target: str, seconds: float, chance: random.Random) -> None:
    """Ask for answers with a window of nothing, so that the server has to keep them."""
    request = service_pb2.AttendRequest(
        model=values_pb2.Model(name="tiny"),
        instances=[values_pb2.Instance(inputs={"text": values_pb2.Value(text="the cat sat on a mat " * 5)})] * 20,
        attention=attention_pb2.AttentionOptions(),
    )
    serialised = request.SerializeToString()
    body = prefix(len(serialised)) + serialised
    with contextlib.ExitStack() as stack:
        for _ in range(4):
            link = _link(stack, target)
            link.sendall(_PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 0)))
            for stream in range(1, 41, 2):
                link.sendall(frame(HEADERS, 4, stream, fields_of(SERVICE + "Attend")))
                link.sendall(frame(DATA, 1, stream, body))
        time.sleep(seconds)


def half_open(target: str, seconds: float, chance: random.Random) -> None:
    """Open connections and say nothing, or half of something."""
    with contextlib.ExitStack() as stack:
        for _ in range(50):
            _link(stack, target).sendall(chance.choice((b"", _PREFACE[:10], _PREFACE, b"GET /metrics HT")))
        time.sleep(seconds)


def broken_off(target: str, seconds: float, chance: random.Random) -> None:
    """Connect, send something, and reset, again and again."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            link = _link(stack, target)
            link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            link.sendall(chance.choice((_PREFACE, _PREFACE + chance.randbytes(500), chance.randbytes(2000))))
        time.sleep(0.02)


def large_requests(target: str, seconds: float, chance: random.Random) -> None:
    """Send what is large and wrong, one after another."""
    end = time.monotonic() + seconds
    empty = values_pb2.Document(sentences=values_pb2.Sentences(texts=[""] * 50_000))
    long = values_pb2.Value(text="a " * 500_000)
    instances = [
        values_pb2.Instance(inputs={"text": values_pb2.Value(document=empty)}),
        values_pb2.Instance(inputs={"text": long}),
        values_pb2.Instance(inputs={"image": values_pb2.Value(image=chance.randbytes(2**20))}),
    ]
    with grpc.insecure_channel(target) as channel:
        predict = channel.unary_unary(SERVICE + "Predict")
        while time.monotonic() < end:
            name = chance.choice(("tiny", "paper", "picture", "slips"))
            request = service_pb2.PredictRequest(
                model=values_pb2.Model(name=name), instances=[chance.choice(instances)], truncate=chance.random() < 0.5
            )
            with contextlib.suppress(grpc.RpcError):
                predict(request.SerializeToString(), timeout=30)
            time.sleep(0.1)


ATTACKS = (unfinished_uploads, unread_answers, half_open, broken_off, large_requests)


def one_after_another(target: str, until: float, chance: random.Random) -> Iterator[str]:
    """Attack until then, each time otherwise; yields what was done."""
    while (left := until - time.monotonic()) > 0:
        attack = chance.choice(ATTACKS)
        with contextlib.suppress(OSError):
            attack(target, min(left, 5.0), chance)
        yield attack.__name__


def _link(stack: contextlib.ExitStack, target: str) -> socket.socket:
    host, port = target.rsplit(":", 1)
    return stack.enter_context(socket.create_connection((host, int(port)), timeout=10))
