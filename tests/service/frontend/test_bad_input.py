"""Every bad input gets a precise error that names the field, and the next good request is answered."""

import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import grpc
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from limelight.v1 import attention_pb2, service_pb2, values_pb2
from limelight_bundle.wire import to_tensor
from tests.kit.serving import Running, attend, generate, predict, refusal, text

Value = values_pb2.Value


def instance(**inputs: Value) -> values_pb2.Instance:
    return values_pb2.Instance(inputs=inputs)


def ids(*values: int, dtype: str = "int64") -> values_pb2.Instance:
    return instance(ids=Value(tensor=to_tensor(np.array(values, dtype=dtype))))


def raw(data_type: int, shape: list[int], size: int) -> values_pb2.Instance:
    tensor = values_pb2.Tensor(data_type=data_type, shape=shape, data=bytes(size))  # type: ignore[arg-type]
    return instance(ids=Value(tensor=tensor))


def png(rows: int, columns: int) -> bytes:
    """A PNG whose header states a size; its pixels are all zero, so the file stays small."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    pixels = zlib.compress(bytes((columns + 1) * min(rows, 8)), 9)
    header = struct.pack(">IIBBBBB", columns, rows, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def pixels(value: float) -> values_pb2.Instance:
    return instance(pixels=Value(tensor=to_tensor(np.full((1, 4, 4), value, np.float32))))


GOOD = text("the cat sat")
INT64, FLOAT32 = values_pb2.DATA_TYPE_INT64, values_pb2.DATA_TYPE_FLOAT32
LONG = " ".join(["cat"] * 33)


@dataclass(frozen=True)
class Case:
    """A bad request, and what it gets. says: what its message says beside the field."""

    name: str
    request: Any
    code: str
    field: str
    says: tuple[str, ...] = field(default=())


CASES = [
    Case(
        "unknown model",
        predict("nothing", GOOD),
        "NOT_FOUND",
        "",
        ("nothing", "echo, noisy, paper, picture, tiny, web"),
    ),
    Case("name like a path", predict("../tiny", GOOD), "NOT_FOUND", "", ("echo, noisy",)),
    Case(
        "unknown version",
        service_pb2.PredictRequest(model=values_pb2.Model(name="tiny", version=9), instances=[GOOD]),
        "NOT_FOUND",
        "",
        ("9", "1"),
    ),
    Case("no model", service_pb2.PredictRequest(instances=[GOOD]), "NOT_FOUND", "", ("tiny",)),
    Case("no instances", predict("tiny"), "INVALID_ARGUMENT", "instances", ("at least one",)),
    Case("too many instances", predict("tiny", *[GOOD] * 65), "RESOURCE_EXHAUSTED", "instances", ("65", "64")),
    Case(
        "missing input",
        predict("tiny", GOOD, instance()),
        "INVALID_ARGUMENT",
        'instances[1].inputs["text"]',
        ("'text'",),
    ),
    Case(
        "extra input",
        predict("tiny", instance(text=Value(text="cat"), other=Value(text="cat"))),
        "INVALID_ARGUMENT",
        'instances[0].inputs["other"]',
        ("'text'",),
    ),
    Case(
        "misnamed input",
        predict("tiny", instance(Text=Value(text="cat"))),
        "INVALID_ARGUMENT",
        'instances[0].inputs["Text"]',
    ),
    Case("nothing set", predict("tiny", instance(text=Value())), "INVALID_ARGUMENT", 'instances[0].inputs["text"]'),
    Case(
        "wrong kind",
        predict("tiny", instance(text=Value(image=b"x"))),
        "INVALID_ARGUMENT",
        'instances[0].inputs["text"]',
        ("text",),
    ),
    Case(
        "wrong dtype",
        predict("tiny", ids(1, 2, dtype="int32")),
        "INVALID_ARGUMENT",
        'instances[0].inputs["ids"].tensor.data_type',
        ("INT64",),
    ),
    Case(
        "unknown dtype",
        predict("tiny", raw(99, [1], 8)),
        "INVALID_ARGUMENT",
        'instances[0].inputs["ids"].tensor.data_type',
    ),
    Case(
        "wrong rank",
        predict("tiny", raw(INT64, [1, 2], 16)),
        "INVALID_ARGUMENT",
        'instances[0].inputs["ids"].tensor.shape',
    ),
    Case(
        "negative size",
        predict("tiny", raw(INT64, [-1], 8)),
        "INVALID_ARGUMENT",
        'instances[0].inputs["ids"].tensor.shape',
    ),
    Case(
        "nothing along an axis",
        predict("tiny", raw(INT64, [0], 0)),
        "INVALID_ARGUMENT",
        'instances[0].inputs["ids"].tensor.shape',
    ),
    Case(
        "too long",
        predict("tiny", raw(INT64, [33], 33 * 8)),
        "INVALID_ARGUMENT",
        'instances[0].inputs["ids"].tensor.shape',
        ("32",),
    ),
    Case(
        "byte length that does not match",
        predict("tiny", raw(INT64, [3], 23)),
        "INVALID_ARGUMENT",
        'instances[0].inputs["ids"].tensor.data',
        ("23", "24"),
    ),
    Case(
        "a shape whose product overflows to what is there",
        predict("tiny", raw(INT64, [2**62, 4], 0)),
        "INVALID_ARGUMENT",
        'instances[0].inputs["ids"].tensor.data',
    ),
    Case(
        "a thousand axes",
        predict("tiny", raw(INT64, [1] * 1000, 8)),
        "INVALID_ARGUMENT",
        'instances[0].inputs["ids"].tensor.shape',
    ),
    Case(
        "token id over the vocabulary",
        predict("tiny", ids(4, 14)),
        "OUT_OF_RANGE",
        'instances[0].inputs["ids"].tensor.data',
        ("14", "13"),
    ),
    Case(
        "negative token id",
        predict("tiny", ids(4, -1)),
        "OUT_OF_RANGE",
        'instances[0].inputs["ids"].tensor.data',
        ("-1",),
    ),
    Case(
        "NaN",
        predict("picture", pixels(float("nan"))),
        "INVALID_ARGUMENT",
        'instances[0].inputs["pixels"].tensor.data',
        ("NaN",),
    ),
    Case(
        "infinity",
        predict("picture", pixels(float("inf"))),
        "INVALID_ARGUMENT",
        'instances[0].inputs["pixels"].tensor.data',
    ),
    Case("empty text", predict("tiny", GOOD, text("")), "INVALID_ARGUMENT", 'instances[1].inputs["text"]', ("empty",)),
    Case(
        "white space alone",
        predict("tiny", text(" \n\t")),
        "INVALID_ARGUMENT",
        'instances[0].inputs["text"]',
        ("empty",),
    ),
    Case(
        "too many tokens",
        predict("tiny", text(LONG)),
        "INVALID_ARGUMENT",
        'instances[0].inputs["text"]',
        ("32", "truncate"),
    ),
    Case(
        "too many characters",
        predict("tiny", text("cat " * 126), truncate=True),
        "INVALID_ARGUMENT",
        'instances[0].inputs["text"]',
        ("500",),
    ),
    Case(
        "not an image",
        predict("picture", instance(image=Value(image=b"GIF89a, not"))),
        "INVALID_ARGUMENT",
        'instances[0].inputs["image"]',
        ("PNG",),
    ),
    Case(
        "an empty image",
        predict("picture", instance(image=Value(image=b""))),
        "INVALID_ARGUMENT",
        'instances[0].inputs["image"]',
    ),
    Case(
        "an image of 20,000 x 20,000 pixels",
        predict("picture", instance(image=Value(image=png(20_000, 20_000)))),
        "RESOURCE_EXHAUSTED",
        'instances[0].inputs["image"]',
        ("1000000",),
    ),
    Case(
        "unknown output",
        predict("tiny", GOOD, outputs=["logits", "x"]),
        "INVALID_ARGUMENT",
        "outputs[1]",
        ("logits, features, tags",),
    ),
    Case(
        "unknown map",
        attend("tiny", GOOD, selections=[{"names": ["dec*"]}]),
        "INVALID_ARGUMENT",
        "attention.selections[0].names[0]",
        ("encoder.0.self",),
    ),
    Case(
        "unknown layer",
        attend("tiny", GOOD, selections=[{"layers": [0, 2]}]),
        "INVALID_ARGUMENT",
        "attention.selections[0].layers[1]",
    ),
    Case(
        "unknown head",
        attend("tiny", GOOD, selections=[{"names": ["enc*"], "heads": [2]}]),
        "INVALID_ARGUMENT",
        "attention.selections[0].heads[0]",
        ("2 heads",),
    ),
    Case(
        "a query that one instance lacks",
        attend("tiny", text("the cat sat on"), GOOD, selections=[{"names": ["enc*"], "queries": [3]}]),
        "INVALID_ARGUMENT",
        "attention.selections[0].queries[0]",
        ("3 queries",),
    ),
    Case(
        "a key before the first",
        attend("tiny", GOOD, selections=[{"keys": [-4]}]),
        "INVALID_ARGUMENT",
        "attention.selections[0].keys[0]",
        ("3 keys",),
    ),
    Case(
        "rollout without square maps",
        attend("paper", instance(text=Value(text="the cat .")), rollout=True),
        "INVALID_ARGUMENT",
        "attention.rollout",
    ),
    Case("unknown encoding", attend("tiny", GOOD, encoding=9), "INVALID_ARGUMENT", "attention.encoding"),
    Case("negative top_k", attend("tiny", GOOD, top_k=-1), "INVALID_ARGUMENT", "attention.top_k"),
    Case(
        "an answer over the request's limit",
        attend("tiny", text(" ".join(["the cat"] * 16)), max_response_bytes=15_000, outputs=("logits",)),
        "RESOURCE_EXHAUSTED",
        "attention",
        ("15000", "would fit"),
    ),
    Case(
        "a prediction over the limit",
        attend("tiny", GOOD, max_response_bytes=10),
        "RESOURCE_EXHAUSTED",
        "instances",
        ("10",),
    ),
    Case(
        "generation options for a classifier",
        predict("tiny", GOOD, generation=service_pb2.GenerationOptions(top_k=3)),
        "FAILED_PRECONDITION",
        "",
        ("does not generate",),
    ),
    Case(
        "negative temperature",
        predict("echo", GOOD, generation=service_pb2.GenerationOptions(temperature=-1)),
        "INVALID_ARGUMENT",
        "generation.temperature",
    ),
]


def grouped(*groups: dict[str, Any], instances: tuple[values_pb2.Instance, ...] = (GOOD,), **fields: Any) -> Any:
    """Ask for sums over groups of keys."""
    return attend("tiny", *instances, key_groups=[{"groups": groups, **fields}])


def changed(**change: Any) -> Any:
    """Ask for a prediction with attention changed."""
    instance = text("the cat")
    instance.interventions.add(**change)
    return predict("tiny", instance)


GROUPS = "attention.key_groups[0].groups"
SCORES = attention_pb2.QUANTITY_SCORES
ONES = to_tensor(np.ones(2, np.float32))
BEAMS = service_pb2.GenerationOptions(strategy=service_pb2.STRATEGY_BEAM, hypotheses=2)


def beams(**options: Any) -> Any:
    request = attend("echo", GOOD, **options)
    request.generation.CopyFrom(BEAMS)
    return request


INVALID = "INVALID_ARGUMENT"
CASES += [
    Case("negative max_classes", predict("tiny", GOOD, max_classes=-1), INVALID, "max_classes", ("-1",)),
    Case("unknown quantity", attend("tiny", GOOD, quantity=9), INVALID, "attention.quantity", ("9",)),
    Case(
        "scores of a map that has none",
        attend("tiny", GOOD, quantity=SCORES, selections=[{"names": ["pool"]}]),
        INVALID,
        "attention.quantity",
        ("SCORES", "pool"),
    ),
    Case("scores of a model that has none", attend("paper", GOOD, quantity=SCORES), INVALID, "attention.quantity"),
    Case(
        "groups of scores",
        attend("tiny", GOOD, quantity=SCORES, key_groups=[{"groups": [{"indices": [0]}]}]),
        INVALID,
        "attention.quantity",
    ),
    Case(
        "a glob as long as a book",
        attend("tiny", GOOD, selections=[{"names": ["*" * 257]}]),
        INVALID,
        "attention.selections[0].names[0]",
        ("257", "256"),
    ),
    Case("no group", grouped(), INVALID, GROUPS, ("1024",)),
    Case("too many groups", grouped(*[{"indices": [0]}] * 1025), INVALID, GROUPS, ("1025", "1024")),
    Case("an empty group", grouped({"indices": [0]}, {"name": "x"}), INVALID, f"{GROUPS}[1]", ("no entry",)),
    Case("an index of a group", grouped({"indices": [1, 3]}), INVALID, f"{GROUPS}[0].indices[1]", ("3 tokens",)),
    Case(
        "an index that the second instance lacks",
        grouped({"indices": [2]}, instances=(GOOD, text("cat"))),
        INVALID,
        f"{GROUPS}[0].indices[0]",
        ("1 tokens",),
    ),
    Case("a range", grouped({"ranges": [{"start": 2, "end": 2}]}), INVALID, f"{GROUPS}[0].ranges[0]", ("3 tokens",)),
    Case(
        "a span past the text",
        grouped({"indices": [0]}, {"indices": [0]}, {"spans": [{"end": 3}, {"start": 90, "end": 91}]}),
        INVALID,
        f"{GROUPS}[2].spans[1]",
        ("90", "3 tokens"),
    ),
    Case("a part", grouped({"spans": [{"end": 3, "part": "first"}]}), INVALID, f"{GROUPS}[0].spans[0].part"),
    Case("a sentence", grouped({"spans": [{"end": 3, "sentence": 0}]}), INVALID, f"{GROUPS}[0].spans[0].sentence"),
    Case("an input of a group", grouped({"inputs": ["title"]}), INVALID, f"{GROUPS}[0].inputs[0]", ("text",)),
    Case(
        "a label set that is not there",
        grouped({"indices": [0]}, label_set="words"),
        INVALID,
        "attention.key_groups[0].label_set",
        ("tokens",),
    ),
    Case(
        "a label set that is not said",
        attend("tiny", GOOD, query_groups=[{"groups": [{"indices": [0]}]}]),
        INVALID,
        "attention.query_groups[0].label_set",
        ("tokens, one",),
    ),
    Case("a group's name too long", grouped({"name": "x" * 257, "indices": [0]}), INVALID, f"{GROUPS}[0].name"),
    Case("unknown reduction", grouped({"indices": [0]}, reduction=9), INVALID, "attention.key_groups[0].reduction"),
    Case(
        "a span of what was put out",
        beams(query_groups=[{"groups": [{"spans": [{"end": 1}]}], "label_set": "output"}]),
        INVALID,
        "attention.query_groups[0].groups[0].spans[0]",
        ("indices or ranges",),
    ),
    Case(
        "a group of steps that were never put out",
        beams(query_groups=[{"groups": [{"indices": [99]}], "label_set": "output"}]),
        INVALID,
        "attention.query_groups[0].groups[0].indices[0]",
        ("99",),
    ),
    Case("a pool of nothing", attend("tiny", GOOD, pool={"size": 0}), INVALID, "attention.pool.size", ("4096",)),
    Case("a pool too large", attend("tiny", GOOD, pool={"size": 4097}), INVALID, "attention.pool.size", ("4097",)),
    Case(
        "a pool and groups",
        attend("tiny", GOOD, pool={"size": 2}, key_groups=[{"groups": [{"indices": [0]}]}]),
        INVALID,
        "attention.pool",
    ),
    Case(
        "a pool and keys",
        attend("tiny", GOOD, pool={"size": 2}, selections=[{"keys": [0]}]),
        INVALID,
        "attention.pool",
        ("selections[0].keys",),
    ),
    Case("sequences of a classifier", attend("tiny", GOOD, sequences=2), INVALID, "attention.sequences", ("generate",)),
    Case("more sequences than hypotheses", beams(sequences=3), INVALID, "attention.sequences", ("hypotheses is 2",)),
    Case("negative sequences", attend("echo", GOOD, sequences=-1), INVALID, "attention.sequences"),
    Case(
        "a change to a map that is not there",
        changed(map="encoder.9.self", head_scales=ONES),
        INVALID,
        "instances[0].interventions[0].map",
        ("encoder.0.self",),
    ),
    Case(
        "a change to a map that takes none",
        changed(map="pool", weights=ONES),
        INVALID,
        "instances[0].interventions[0].weights",
        ("pool", "no interventions"),
    ),
    Case("a change of nothing", changed(map="pool"), INVALID, "instances[0].interventions[0]", ("head_scales",)),
    Case(
        "a temperature that is no number",
        predict("echo", GOOD, generation=service_pb2.GenerationOptions(temperature=float("nan"))),
        INVALID,
        "generation.temperature",
    ),
    Case(
        "a top_p over 1",
        predict("echo", GOOD, generation=service_pb2.GenerationOptions(top_p=1.5)),
        INVALID,
        "generation.top_p",
    ),
]


def call(running: Running, request: Any) -> Any:
    return (
        running.stub.Attend(request)
        if isinstance(request, service_pb2.AttendRequest)
        else running.stub.Predict(request)
    )


def check_still_serves(running: Running) -> None:
    """A good request is answered right."""
    (prediction,) = running.stub.Predict(predict("tiny", GOOD)).predictions
    assert sum(each.probability for each in prediction.results[0].classification.classes) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_bad_request_gets_a_precise_error_and_changes_nothing_else(running: Running, case: Case) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        call(running, case.request)
    refused = refusal(caught.value)
    assert (refused.code, refused.field) == (case.code, case.field), refused
    for words in case.says:
        assert words in refused.message
    assert running.server.settings.repository not in refused.message
    check_still_serves(running)


OF_GROWING_KEYS = attention_pb2.AttentionOptions(
    selections=[attention_pb2.MapSelection(names=["decoder.0.self"], keys=[0])]
)


@pytest.mark.parametrize(
    ("request_", "code", "field_"),
    [
        (generate("tiny", GOOD), "FAILED_PRECONDITION", ""),
        (generate("nothing", GOOD), "NOT_FOUND", ""),
        (
            generate("echo", GOOD, attention=attention_pb2.AttentionOptions(rollout=True)),
            "INVALID_ARGUMENT",
            "attention.rollout",
        ),
        (
            generate(
                "echo",
                GOOD,
                attention=attention_pb2.AttentionOptions(selections=[attention_pb2.MapSelection(queries=[0])]),
            ),
            "INVALID_ARGUMENT",
            "attention.selections[0].queries",
        ),
        (
            generate("echo", GOOD, attention=OF_GROWING_KEYS),
            "INVALID_ARGUMENT",
            "attention.selections[0].keys",
        ),
        (
            generate("echo", GOOD, generation=service_pb2.GenerationOptions(beams=17)),
            "INVALID_ARGUMENT",
            "generation.beams",
        ),
        *(
            (generate("echo", GOOD, attention=attention_pb2.AttentionOptions(**options)), "INVALID_ARGUMENT", field_)
            for options, field_ in (
                ({"pool": {"size": 2}}, "attention.pool"),
                ({"query_groups": [{"groups": [{"indices": [0]}], "label_set": "output"}]}, "attention.query_groups"),
                ({"sequences": 2}, "attention.sequences"),
                ({"key_groups": [{"groups": [{"indices": [0]}], "label_set": "input"}]}, "attention.key_groups[0]"),
            )
        ),
    ],
)
def test_a_bad_stream_gets_a_precise_error_too(running: Running, request_: Any, code: str, field_: str) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        list(running.stub.Generate(request_))
    assert (refusal(caught.value).code, refusal(caught.value).field) == (code, field_)
    check_still_serves(running)
    assert len(list(running.stub.Generate(generate("echo", GOOD)))) > 2


def test_an_output_step_that_was_never_put_out_is_named(running: Running) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        running.stub.Attend(attend("echo", GOOD, selections=[{"names": ["decoder*"], "queries": [11]}]))
    refused = refusal(caught.value)
    assert (refused.code, refused.field) == ("INVALID_ARGUMENT", "attention.selections[0].queries[0]")
    check_still_serves(running)


def test_an_image_in_one_instance_is_named_by_its_place(running: Running) -> None:
    good, bad = instance(image=Value(image=png(4, 4))), instance(image=Value(image=b"no"))
    with pytest.raises(grpc.RpcError) as caught:
        running.stub.Predict(predict("picture", good, good, bad))
    assert refusal(caught.value).field == 'instances[2].inputs["image"]'
    check_still_serves(running)


def test_what_is_said_to_fit_is_answered(running: Running) -> None:
    request = attend("tiny", text(" ".join(["the cat"] * 16)), max_response_bytes=15_000, outputs=("logits",))
    with pytest.raises(grpc.RpcError) as caught:
        running.stub.Attend(request)
    assert "encoding FLOAT16 would fit" in refusal(caught.value).message
    request.attention.encoding = attention_pb2.ENCODING_FLOAT16
    assert running.stub.Attend(request).ByteSize() <= 15_000


def test_a_name_as_long_as_a_request_gets_an_error_that_arrives(running: Running) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        running.stub.Predict(predict("tiny", instance(**{"é" * 500_000: Value(text="cat")})))
    assert refusal(caught.value).code == "INVALID_ARGUMENT"
    check_still_serves(running)


def method(running: Running, name: str) -> Callable[[bytes], bytes]:
    """A method that sends and takes bare bytes."""
    return running.channel.unary_unary(f"/limelight.v1.AttentionService/{name}")  # type: ignore[no-any-return]


@pytest.mark.parametrize("data", [b"\xff" * 9, b"\x0a\xff\xff\xff\xff\x0f", b"\x12\x02\x0a\x7f", b"garbage"])
def test_what_is_no_message_is_refused_as_such(running: Running, data: bytes) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        method(running, "Predict")(data)
    assert refusal(caught.value).code == "INVALID_ARGUMENT"
    assert "limelight.v1.PredictRequest" in refusal(caught.value).message
    check_still_serves(running)


BLAMELESS = {"INTERNAL", "UNKNOWN", "UNAVAILABLE"}


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_no_mutation_of_a_request_is_the_servers_fault(running: Running, data: st.DataObject) -> None:
    request = data.draw(
        st.sampled_from(
            [
                predict("tiny", GOOD, ids(4, 5)),
                attend("tiny", GOOD, selections=[{"heads": [1]}]),
                attend("tiny", GOOD, pool={"size": 2}, top_k=1),
                grouped({"indices": [-1], "ranges": [{"end": 2}]}, {"spans": [{"end": 5}], "inputs": ["text"]}),
            ]
        )
    )
    sent = bytearray(request.SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(sent) - 1))
        sent[place] = data.draw(st.integers(0, 255))
    name = "Predict" if isinstance(request, service_pb2.PredictRequest) else "Attend"
    try:
        method(running, name)(bytes(sent))
    except grpc.RpcError as error:
        assert error.code().name not in BLAMELESS, error  # type: ignore[attr-defined]
    check_still_serves(running)


some_values = st.one_of(
    st.builds(lambda words: Value(text=words), st.text(max_size=40)),
    st.builds(lambda data: Value(image=data), st.binary(max_size=40)),
    st.builds(
        lambda data_type, shape, data: Value(tensor=values_pb2.Tensor(data_type=data_type, shape=shape, data=data)),
        st.integers(0, 9),
        st.lists(st.integers(-2, 2**63 - 1) | st.integers(0, 4), max_size=4),
        st.binary(max_size=64),
    ),
    st.builds(lambda a, b: Value(pair=values_pb2.Pair(first=a, second=b)), st.text(max_size=5), st.text(max_size=5)),
    st.builds(
        lambda texts: Value(document=values_pb2.Document(sentences=values_pb2.Sentences(texts=texts))),
        st.lists(st.text(max_size=9), max_size=4),
    ),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(["tiny", "paper", "picture", "echo"]),
    st.dictionaries(st.sampled_from(["text", "ids", "image", "pixels", "mask"]), some_values, max_size=2),
)
def test_no_value_is_the_servers_fault(running: Running, model: str, inputs: dict[str, Value]) -> None:
    try:
        running.stub.Attend(attend(model, values_pb2.Instance(inputs=inputs)))
    except grpc.RpcError as error:
        assert error.code().name not in BLAMELESS, error  # type: ignore[attr-defined]
