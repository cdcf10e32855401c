"""Requests that ask for much more work than they are long: refused before the work, or answered with no more of it than
the answer needs, while health and the next good call are answered.
"""

import io
import shutil
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import numpy as np
import pytest
from PIL import Image

from limelight.v1 import attention_pb2, service_pb2, values_pb2
from limelight_bundle.wire import to_tensor
from tests.hostile.capped import Capped, capped, good, health_of
from tests.kit import bundles
from tests.kit.processes import ROOT
from tests.kit.serving import attend, predict, refusal, text

Group, Grouping, Selection = values_pb2.Group, attention_pb2.Grouping, attention_pb2.MapSelection
MEBIBYTE = 2**20
# Generous: other programs share the machine. What these requests took before was ten times as much, or had no end.
MOST_CPU_SECONDS = 8.0
MOST_GROWTH = 512 * MEBIBYTE
MOST_LATE = 10.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, frontends: int) -> Iterator[Capped]:
    folder = tmp_path_factory.mktemp("repository")
    for make in (bundles.tiny, bundles.paper, bundles.echo, bundles.web):
        make(folder)
    shutil.copytree(ROOT / "deploy/demo/digits", folder / "digits")
    with capped(folder, frontends=frontends, limits={"preprocess_threads": 1}) as running:
        yield running


def of(name: str, **value: Any) -> values_pb2.Instance:
    """An instance of one value."""
    return values_pb2.Instance(inputs={name: values_pb2.Value(**value)})


def document(*sentences: str) -> values_pb2.Instance:
    return of("text", document=values_pb2.Document(sentences=values_pb2.Sentences(texts=sentences)))


def raw(words: str) -> values_pb2.Instance:
    return of("text", document=values_pb2.Document(text=words))


def image(data: bytes) -> values_pb2.Instance:
    return of("image", image=data)


def named(*names: str) -> attention_pb2.MapSelection:
    return Selection(names=names)


def png(pixels: int) -> bytes:
    """A black square: a few kilobytes, whatever its size."""
    file = io.BytesIO()
    Image.new("L", (pixels, pixels)).save(file, "PNG")
    return file.getvalue()


def png_of(columns: int, rows: int) -> bytes:
    """A file whose header promises so many pixels, and that holds none."""
    header = b"IHDR" + struct.pack(">IIBBBBB", columns, rows, 8, 0, 0, 0, 0)
    begin = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + header
    return begin + struct.pack(">I", zlib.crc32(header)) + bytes(4) + b"IDAT"


def looking(words: str, instances: int = 1, **options: Any) -> service_pb2.AttendRequest:
    return attend("tiny", *[text(words)] * instances, **options)


def generating(**options: Any) -> service_pb2.GenerateRequest:
    return service_pb2.GenerateRequest(
        model=values_pb2.Model(name="echo"),
        instance=text("the cat sat on the mat"),
        attention=attention_pb2.AttentionOptions(**options),
    )


def graph(nodes: int, edges: int) -> values_pb2.Instance:
    """A graph in which each edge stands twice."""
    ends = np.random.default_rng(0).integers(0, nodes, (2, edges // 2))
    sent = values_pb2.Graph(
        nodes=to_tensor(np.zeros((nodes, bundles.WIDTH), np.float32)),
        edges=to_tensor(np.concatenate([ends, ends], axis=1)),
    )
    return of("graph", graph=sent)


TEXT, IDS, IMAGE = (f'instances[0].inputs["{name}"]' for name in ("text", "ids", "image"))
SELECTIONS = "attention.selections"
TOO_MUCH, NOT_FOUND = "RESOURCE_EXHAUSTED", "NOT_FOUND"
# Requests that are answered, with no more work than the answer needs.
ANSWERED: dict[str, Callable[[], Any]] = {
    "tokens that are cut": lambda: predict("echo", *[text("a " * 400_000)] * 16, truncate=True),
    "sentences that are cut": lambda: predict("paper", *[document(*["a"] * 5_000)] * 19, truncate=True),
    "sentences of texts that are cut": lambda: predict("paper", *[raw("a. " * 300_000)] * 16, truncate=True),
    "long sentences that are cut": lambda: predict("paper", *[raw("a " * 400_000)] * 16, truncate=True),
    "patterns": lambda: looking("a", selections=[Selection(names=["*" * 255 + "f"] * 15)] * 64),
    "indices of many": lambda: looking("a", 256, selections=[Selection(names=["e*"], queries=[0, -1] * 700)] * 64),
    "layers": lambda: looking("a", selections=[Selection(layers=[0] * 100_000)]),
    "heads": lambda: looking("a", selections=[Selection(heads=[0, -1] * 50_000)]),
}
# Requests that are refused before the work: the field, what is said, and the code where it is not INVALID_ARGUMENT.
REFUSED: dict[str, tuple[Callable[[], Any], str, str, str] | tuple[Callable[[], Any], str, str]] = {
    "no sentence": (lambda: predict("paper", document(*[""] * 99_000)), f"{TEXT}.sentences.texts[0]", ""),
    "sentences": (lambda: predict("paper", document(*["a"] * 99_000)), TEXT, "has 99000 sentences; at most 16 are"),
    "sentences of a text": (lambda: predict("paper", raw("a. " * 300_000)), TEXT, "more than 16 sentences"),
    "characters": (lambda: predict("echo", text("a" * 15_000_000), truncate=True), TEXT, "at most 1000000 are allowed"),
    "a name": (lambda: looking("a", selections=[named("*" * 15_000_000)]), f"{SELECTIONS}[0].names[0]", "at most 256"),
    "names": (lambda: looking("a", selections=[named(*["*"] * 95_000)]), SELECTIONS, "at most 1000"),
    "indices": (lambda: looking("a", selections=[Selection(queries=[0] * 10**6)]), SELECTIONS, "at most 100000"),
    "groups": (
        lambda: looking("a", key_groups=[Grouping(groups=[Group()] * 90_000)]),
        "attention.key_groups[0].groups",
        "1 to 1024",
    ),
    "keys of a stream": (
        lambda: generating(selections=[Selection(names=["*"], keys=[0] * 100_000)]),
        f"{SELECTIONS}[0].keys",
        "use Attend",
    ),
    "outputs": (lambda: predict("tiny", text("a"), outputs=["logits"] * 90_000), "outputs", "at most 1000"),
    "stops": (
        lambda: predict("echo", text("a"), generation=service_pb2.GenerationOptions(stop=["a"] * 90_000)),
        "generation.stop",
        "at most 16",
    ),
    "no room": (lambda: looking("a", 256, max_response_bytes=1), "instances", "at most 1 are", TOO_MUCH),
    "a name of a model": (lambda: predict("é" * 7_000_000, text("a")), "", "", NOT_FOUND),
    "a name of an input": (lambda: predict("tiny", of("é" * 7_000_000, text="a")), "", "is not an input of the model"),
    "axes": (
        lambda: predict("tiny", of("ids", tensor=values_pb2.Tensor(data_type=5, shape=[1] * 10**6))),
        f"{IDS}.tensor.shape",
        "at most 8",
    ),
    "edges": (lambda: predict("web", graph(100, 900_000)), "graph.edges.data", ""),
    "pixels": (lambda: predict("digits", image(png_of(60_000, 60_000))), IMAGE, "at most 16777216 in all", TOO_MUCH),
}


@pytest.mark.parametrize("name", [*ANSWERED, *REFUSED])
def test_a_request_costs_no_more_than_it_is_worth(server: Capped, name: str) -> None:
    make, *expected = REFUSED.get(name) or (ANSWERED[name],)
    request = make()
    assert good(server.stub)
    before, resident = server.cpu_seconds(), server.resident()
    server.forget_peak()
    with health_of(server.address) as health:
        method = type(request).__name__.removesuffix("Request")
        try:
            answer = getattr(server.stub, method)(request, timeout=120)
            assert list(answer) if method == "Generate" else answer
            assert not expected
        except grpc.RpcError as error:
            refused = refusal(error)
            field, says, code = (*expected, "INVALID_ARGUMENT")[:3]
            assert refused.code == code and field in refused.field and says in refused.message, refused
        assert good(server.stub)
    assert not health.failures
    assert max(health.seconds, default=0.0) < MOST_LATE
    assert server.cpu_seconds() - before < MOST_CPU_SECONDS
    assert server.peak() - resident < MOST_GROWTH


def test_what_is_cut_is_answered_as_what_is_kept(server: Capped) -> None:
    kept = server.stub.Predict(predict("paper", document(*["the cat"] * 16)), timeout=60).predictions[0]
    cut = server.stub.Predict(predict("paper", document(*["the cat"] * 9_000), truncate=True), timeout=60).predictions[
        0
    ]
    assert (cut.results, cut.truncated, kept.truncated) == (kept.results, True, False)


def test_an_honest_image_does_not_wait_for_calls_of_many(server: Capped) -> None:
    large = predict("digits", *[image(png(4096))] * 256)
    resident = server.resident()
    server.forget_peak()
    others = [server.stub.Predict.future(large, timeout=300) for _ in range(2)]
    try:
        for _ in range(3):
            answer = server.stub.Predict(predict("digits", image(png(8))), timeout=60)
            assert answer.predictions and not any(each.done() for each in others), [
                each.done() and each.exception() for each in others
            ]
    finally:
        for each in others:
            each.cancel()
    assert server.peak() - resident < MOST_GROWTH


def test_images_whose_caller_has_gone_are_not_decoded(server: Capped) -> None:
    abandoned = [server.stub.Predict.future(predict("digits", *[image(png(4096))] * 256)) for _ in range(2)]
    assert server.stub.Predict(predict("digits", image(png(8))), timeout=60).predictions
    for each in abandoned:
        each.cancel()
    assert server.stub.Predict(predict("digits", image(png(8))), timeout=60).predictions
    before = server.cpu_seconds()
    time.sleep(2.0)
    assert server.cpu_seconds() - before < 1.0  # decoding takes all of a core
