"""Answers of a server that states what is not so: an error of limelight, before anything is made of a number."""

import asyncio
import random
import resource
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from google.protobuf import any_pb2
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

import limelight
from limelight import aio, calls
from limelight.base.tensors import to_array, to_tensor
from limelight.files import file_name
from limelight.labels import read_label_sets
from limelight.maps import MOST_VALUES, read_map
from limelight.saving import SavedMap, save_maps
from limelight.streams import StreamReader, put_together
from limelight.v1 import attention_pb2, service_pb2, service_pb2_grpc, values_pb2

LARGEST = 2**31 - 1
TEXT = values_pb2.Instance(inputs={"text": values_pb2.Value(text="a b c")})
Event = service_pb2.AttendStreamResponse
Start, Chunk, End = service_pb2.AttendStreamStart, service_pb2.AttentionChunk, service_pb2.AttendStreamEnd


def labels(kind: str = "TOKENS", name: str = "t", **fields: Any) -> attention_pb2.LabelSet:
    return attention_pb2.LabelSet(name=name, kind=attention_pb2.LabelKind.Value(f"LABEL_KIND_{kind}"), **fields)


def grid(size: int, rows: int, columns: int, name: str = "g", **fields: Any) -> attention_pb2.LabelSet:
    return labels("GRID", name, size=size, grid=attention_pb2.Grid(rows=rows, columns=columns, **fields))


PART = attention_pb2.Region(left=float("nan"))
SETS = {
    "a size that no message holds": [labels(size=LARGEST)],
    "many sizes": [labels(name=str(each), size=2**18) for each in range(9)],
    "a negative size": [labels(size=-1)],
    "a grid of another size": [grid(4, LARGEST, LARGEST)],
    "a grid of negative sizes": [grid(4, -2, -2)],
    "a grid beside texts of another size": [labels(size=1, texts=["a"], grid=attention_pb2.Grid(rows=9, columns=9))],
    "a grid on no part of a picture": [grid(1, 1, 1, region=PART)],
    "many sets": [labels("SENTENCES", name=str(each)) for each in range(5000)],
    "sentences that repeat the text": [labels("SENTENCES", size=99, starts=[0] * 99, ends=[5] * 99)],
    "a sentence beyond the text": [labels("SENTENCES", size=1, starts=[0], ends=[6])],
    "ranges that repeat their set": [
        labels(size=2, texts=["a" * 99, "b"]),
        labels("RANGES", name="r", parent="t", size=99, starts=[0] * 99, ends=[2] * 99),
    ],
}


@pytest.mark.parametrize("lie", SETS)
def test_a_label_set_is_held_against_what_it_has(lie: str) -> None:
    with pytest.raises(ValueError, match=r"label set|entries|grid"):
        read_label_sets(SETS[lie], TEXT)


def test_sentences_take_their_words_in_one_pass() -> None:
    number = 50_000
    words = labels(name="w", size=number, parent="s", parents=range(number))
    found = read_label_sets([labels("SENTENCES", name="s", size=number), words])["s"]
    assert found.labels[-1] == f"token {number - 1}"


SHAPES = [[LARGEST] * 400_000, [0] * 10, [LARGEST, 0], [-1, -1], [-1], [2**62, 2**62, 0], [2**40, 2**40], [2]]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_is_bounded_before_its_product_is_taken(shape: list[int]) -> None:
    with pytest.raises(ValueError, match="a tensor of"):
        to_array(values_pb2.Tensor(data_type="DATA_TYPE_FLOAT32", shape=shape))
    with pytest.raises(ValueError, match="a tensor of"):
        to_array(values_pb2.Tensor(shape=[0]))


def ones(*shape: int) -> values_pb2.Tensor:
    return to_tensor(np.ones(shape, np.float32))


def header(name: str = "m", **fields: Any) -> attention_pb2.AttentionMap:
    return attention_pb2.AttentionMap(name=name, query_labels="t", key_labels="t", **{"heads": [0], **fields})


EDGE = to_tensor(np.zeros(1, np.int32))
MAPS = {
    "five axes": header(weights=ones(1, 2, 2, 1, 1)),
    "an index without axes": header(weights=ones(1, 1), query_index=to_tensor(np.zeros((), np.int32)), key_index=EDGE),
    "an index that is no whole number": header(weights=ones(1, 1), query_index=ones(1), key_index=EDGE),
    "a head without a label": header(weights=ones(1, 2, 2), heads=[7], head_labels="t"),
    "more features than labels": header(weights=ones(1, 2, 2, 3), feature_labels="t"),
}


@pytest.mark.parametrize("lie", MAPS)
def test_a_map_is_held_against_its_labels(lie: str) -> None:
    with pytest.raises(ValueError, match=r"map 'm'|indices"):
        read_map(MAPS[lie], read_label_sets([labels(size=2)]))


def test_a_matrix_is_not_made_of_a_few_edges_between_many_entries() -> None:
    sets = read_label_sets([labels(size=2**20)])
    found = read_map(header(weights=ones(1, 1), query_index=EDGE, key_index=EDGE), sets)
    for make in (found.dense, found.present, found.mean_over_heads):
        with pytest.raises(ValueError, match=f"more than {MOST_VALUES}"):
            make()


def start(*shape: int, names: Iterable[str] = ("m",), number: int = 0) -> Event:
    maps = [service_pb2.StreamedMap(map=header(each), shape=shape or [1, 2, 2]) for each in names]
    prediction = service_pb2.Prediction(label_sets=[labels(size=2)])
    return Event(instance=number, start=Start(prediction=prediction, maps=maps))


def chunk(query: int, *shape: int, index: int = 0, number: int = 0, **fields: Any) -> Event:
    weights = fields.pop("weights", ones(*shape or (1, 1, 2)))
    where = {"map": index, "heads": 1, "queries": 1, "first_query": query, "weights": weights, **fields}
    return Event(instance=number, chunk=Chunk(**where))


END = Event(end=End())
WHOLE = [start(), chunk(0), chunk(1), END]
STREAMS = {
    "a chunk twice": [start(), chunk(0), chunk(0), END],
    "chunks that overlap": [start(), chunk(0), chunk(0, 1, 2, 2, queries=2), END],
    "a chunk is missing": [start(), chunk(0), END],
    "the first chunk is missing": [start(), chunk(1), END],
    "a map is missing": [start(names="mn"), chunk(0, index=1), chunk(1, index=1), END],
    "chunks in another order": [start(names="mn"), *(chunk(each % 2, index=1 - each // 2) for each in range(4)), END],
    "an empty chunk": [start(), chunk(0, 1, 0, 2, queries=0), *WHOLE[1:]],
    "a part of a row": [start(1, 2, 2, 2**27), chunk(0, 1, 1, 2, 1), chunk(1, 1, 1, 2, 1), END],
    "no start": [END],
    "two starts": [start(), *WHOLE],
    "no end": WHOLE[:-1],
    "nothing": [],
    "one instance too many": [*WHOLE, start(number=1), END],
    "another instance": [start(number=1)],
    "a shape of other labels": [start(1, 2, LARGEST), END],
    "a shape of many axes": [start(1, 2, 2, *[LARGEST] * 1000), END],
    "one name for two maps": [start(names="mm"), END],
}


def read(messages: Iterable[Event]) -> Iterator[Any]:
    call = calls.attend_stream("m", [TEXT])
    yield from (calls.read(call, each) for each in messages)
    calls.check_end(call)


@pytest.mark.parametrize("lie", STREAMS)
def test_a_stream_is_whole_or_an_error(lie: str, tmp_path: Path) -> None:
    with pytest.raises(limelight.Internal, match="inconsistent"):
        put_together(read(STREAMS[lie]))
    with pytest.raises((limelight.Internal, ValueError)):
        list(save_maps(map(StreamReader([TEXT]).read, STREAMS[lie]), tmp_path))
    assert not list(tmp_path.iterdir()) or lie == "one instance too many"


def test_a_whole_stream_is_put_together_and_saved(tmp_path: Path) -> None:
    (answer,) = put_together(read(WHOLE))
    (saved,) = (each for each in save_maps(read(WHOLE), tmp_path) if isinstance(each, SavedMap))
    assert (np.load(saved.file) == answer["m"].weights).all() and answer["m"].weights.sum() == 4
    with pytest.raises(ValueError, match="instance 1"):
        put_together(map(StreamReader([TEXT, TEXT]).read, WHOLE))


def test_a_generation_is_whole_or_an_error() -> None:
    call = calls.generate("m", TEXT)
    calls.read(call, service_pb2.GenerateResponse(start=service_pb2.GenerationStart()))
    with pytest.raises(limelight.Internal, match="before the sequence was complete"):
        calls.check_end(call)


def test_names_of_maps_are_no_paths_and_share_no_file(tmp_path: Path) -> None:
    names = ["a/b", "a:b", "../up", "/tmp/absolute", "A", "a", ".", "..", "", "nul"]
    names += ["n" * 300, "n" * 301, "e\u0301", "é"]
    chunks = [chunk(query, index=each) for each in range(len(names)) for query in (0, 1)]
    told = list(save_maps(read([start(names=names), *chunks, END]), tmp_path / "maps"))
    files = {each.file.name.lower() for each in told if isinstance(each, SavedMap)}
    assert len(files) == len(names) == len(list((tmp_path / "maps").iterdir()))
    assert [each.name for each in tmp_path.iterdir()] == ["maps"] and file_name("encoder.0.self") == "encoder.0.self"


def test_a_disk_without_room_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (130, limits[1]))  # the header of the file has 128 bytes
    try:
        with pytest.raises(OSError, match=r"too large.*m\.npy"):
            list(save_maps(read(WHOLE), tmp_path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list(tmp_path.iterdir())


def test_an_answer_with_other_bytes_gives_an_answer_or_an_error() -> None:
    chance = random.Random(0)
    tagging = service_pb2.Tagging(label_set="t", classes_per_entry=1, labels="ab", indices=[0, 1], probabilities=[1, 1])
    sequences = service_pb2.Sequences(sequences=[service_pb2.Sequence(text="a", log_probabilities=[-1])] * 2)
    results = [service_pb2.Result(name="a", tagging=tagging), service_pb2.Result(name="b", sequences=sequences)]
    sets = [*SETS["ranges that repeat their set"][:1], labels("SENTENCES", name="s", size=1, starts=[0], ends=[5])]
    edges = header("e", weights=ones(1, 1), query_index=EDGE, key_index=EDGE)
    answer = service_pb2.Attended(
        prediction=service_pb2.Prediction(label_sets=[*sets, grid(5, 2, 2, leading=["x"])], results=results),
        maps=[header(weights=ones(1, 2, 2)), edges],
        other_sequences=[service_pb2.SequenceAttention(sequence=1, maps=[edges])],
    )
    whole = service_pb2.AttendResponse(results=[answer]).SerializeToString()
    call = calls.attend("m", [TEXT], sequences=2)
    assert calls.read(call, service_pb2.AttendResponse.FromString(whole))[0].maps
    read_ones = 0
    for _ in range(1000):
        data = bytearray(whole)
        for _ in range(chance.choice([1, 2, 8])):
            data[chance.randrange(len(data))] = chance.choice([0, 1, 2, 127, 128, 255, chance.randrange(256)])
        try:
            repr(calls.read(call, service_pb2.AttendResponse.FromString(bytes(data))))
            read_ones += 1
        except (DecodeError, limelight.Internal):
            pass
    assert read_ones > 10


MANY = {
    "maps": service_pb2.Attended(maps=[header()] * 20_000),
    "results": service_pb2.Attended(prediction=service_pb2.Prediction(results=[service_pb2.Result()] * 20_000)),
    "entries": service_pb2.Attended(
        prediction=service_pb2.Prediction(
            results=[service_pb2.Result(spans=service_pb2.Spans(spans=[service_pb2.Span()] * 2**17))] * 9
        )
    ),
}


@pytest.mark.parametrize("lie", MANY)
def test_an_answer_of_too_many_parts_is_not_read(lie: str) -> None:
    with pytest.raises(limelight.Internal, match=f"{lie}.*at most"):
        calls.read(calls.attend("m", [TEXT]), service_pb2.AttendResponse(results=[MANY[lie]]))


class _Liar(service_pb2_grpc.AttentionServiceServicer):
    """Answers with a lie, and refuses the instance `refuse`, to come again after some seconds."""

    def __init__(self, seconds: int, lie: service_pb2.Prediction) -> None:
        self._seconds, self._lie = seconds, lie

    def Predict(self, request: Any, context: Any) -> service_pb2.PredictResponse:
        if any(each.inputs["text"].text == "refuse" for each in request.instances):
            retry, detail = error_details_pb2.RetryInfo(), any_pb2.Any()
            retry.retry_delay.seconds = self._seconds
            detail.Pack(retry)
            status = status_pb2.Status(code=8, message="busy", details=[detail])
            context.set_trailing_metadata([("grpc-status-details-bin", status.SerializeToString())])
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "busy")
        return service_pb2.PredictResponse(predictions=[self._lie] * len(request.instances))


@contextmanager
def lying(seconds: int = 0, lie: service_pb2.Prediction | None = None) -> Iterator[str]:
    server = grpc.server(futures.ThreadPoolExecutor(2))
    liar = _Liar(seconds, lie or service_pb2.Prediction())
    service_pb2_grpc.add_AttentionServiceServicer_to_server(liar, server)  # type: ignore[no-untyped-call]
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None)


def sync_many(target: str, rows: list[dict[str, str]]) -> list[Any]:
    with limelight.Client(target, timeout=3) as client:
        return list(client.predict_many("m", rows, batch_size=1))


def async_many(target: str, rows: list[dict[str, str]]) -> list[Any]:
    async def ask() -> list[Any]:
        async with aio.AsyncClient(target, timeout=3) as client:
            return [each async for each in client.predict_many("m", rows, batch_size=1)]

    return asyncio.run(ask())


@pytest.mark.parametrize("ask", [sync_many, async_many])
@pytest.mark.parametrize("seconds", [2**62, 3600, -5])
def test_nobody_waits_longer_than_the_timeout(ask: Callable[..., list[Any]], seconds: int) -> None:
    with lying(seconds) as target:
        found = ask(target, [{"text": each} for each in ("a", "refuse", "b")])
    assert [type(each).__name__ for each in found] == ["Prediction", "ResourceExhausted", "Prediction"]


@pytest.mark.parametrize("ask", [sync_many, async_many])
def test_a_lie_is_an_internal_error_of_its_instance(ask: Callable[..., list[Any]]) -> None:
    with lying(lie=service_pb2.Prediction(label_sets=[labels(size=LARGEST)])) as target:
        assert [type(each) for each in ask(target, [{"text": "a"}] * 2)] == [limelight.Internal] * 2
