"""A request that cannot be met gets one message that names the field and what to do, and the next one is answered."""

from collections.abc import Callable
from typing import Any

import grpc
import numpy as np
import pytest

from limelight_service.open_inference import open_inference_pb2 as pb
from tests.kit.serving import Refusal, Running, refusal
from tests.service.open_inference.calls import infer, infer_request, streamed, strings, texts, unary

Change = Callable[[pb.ModelInferRequest], Any]


def tiny(*outputs: Any, **options: Any) -> pb.ModelInferRequest:
    """A good request, to be spoilt."""
    return infer_request("tiny", {"text": texts("the cat", "a dog")}, *outputs, **options)


def of_ids(shape: list[int], raw: int, datatype: str = "INT64") -> pb.ModelInferRequest:
    """A request with a tensor of some shape and so many bytes."""
    request = pb.ModelInferRequest(model_name="tiny", raw_input_contents=[b"\x04" + bytes(raw - 1) if raw else b""])
    request.inputs.add(name="ids", datatype=datatype, shape=shape)
    return request


def changed(change: Change, request: pb.ModelInferRequest | None = None) -> pb.ModelInferRequest:
    """Spoil a good request."""
    spoilt = request or tiny()
    change(spoilt)
    return spoilt


def typed_with(field: str, values: list[Any], datatype: str, shape: list[int]) -> pb.ModelInferRequest:
    request = pb.ModelInferRequest(model_name="tiny")
    tensor = request.inputs.add(name="ids", datatype=datatype, shape=shape)
    getattr(tensor.contents, field).extend(values)
    return request


NAMED = "encoder.0.self"
MANY = {"limelight_heads": "0" + ",0" * 32_000, "limelight_queries": "0" + ",0" * 32_000}
CASES: dict[str, tuple[pb.ModelInferRequest, str, str, str]] = {
    "no input": (pb.ModelInferRequest(model_name="tiny"), "INVALID_ARGUMENT", "inputs", "is empty"),
    "unknown model": (
        changed(lambda each: setattr(each, "model_name", "nothing")),
        "NOT_FOUND",
        "",
        "there is no model",
    ),
    "unknown version": (tiny(model_version="9"), "NOT_FOUND", "", "has no version 9"),
    "version in words": (tiny(model_version="latest"), "INVALID_ARGUMENT", "model_version", "is 'latest'"),
    "negative version": (tiny(model_version="-1"), "INVALID_ARGUMENT", "model_version", "is '-1'"),
    "missing input": (
        infer_request("tiny", {"other": texts("a")}),
        "INVALID_ARGUMENT",
        'rows[0].inputs["other"]',
        "the model takes 'text' (text)",
    ),
    "input twice": (
        changed(
            lambda each: (
                each.inputs.append(each.inputs[0]),
                each.raw_input_contents.append(each.raw_input_contents[0]),
            )
        ),
        "INVALID_ARGUMENT",
        "inputs[1].name",
        "'text' a second time",
    ),
    "unknown type": (of_ids([1, 2], 16, "INT24"), "INVALID_ARGUMENT", "inputs[0].datatype", "'INT24'; it may be BOOL"),
    "unsupported type": (of_ids([1, 2], 4, "INT16"), "INVALID_ARGUMENT", "inputs[0].datatype", "'INT16'"),
    "other type": (of_ids([1, 2], 8, "INT32"), "INVALID_ARGUMENT", "inputs[0].datatype", "is INT32; ids takes INT64"),
    "one byte short": (
        of_ids([1, 2], 15),
        "INVALID_ARGUMENT",
        "raw_input_contents[0]",
        "has 15 bytes; INT64 of shape [1, 2] needs 16",
    ),
    "one byte long": (of_ids([1, 2], 17), "INVALID_ARGUMENT", "raw_input_contents[0]", "has 17 bytes"),
    "negative size": (of_ids([1, -2], 16), "INVALID_ARGUMENT", "inputs[0].shape", "has a negative size: [1, -2]"),
    "no rows": (of_ids([0, 2], 0), "INVALID_ARGUMENT", "inputs[0].shape", "has no rows"),
    "no shape": (of_ids([], 8), "INVALID_ARGUMENT", "inputs[0].shape", "is empty; its first axis counts the rows"),
    "many axes": (of_ids([1] * 12, 8), "INVALID_ARGUMENT", "inputs[0].shape", "has 12 axes"),
    "huge shape": (of_ids([2**62, 2**62], 16), "INVALID_ARGUMENT", "raw_input_contents[0]", "has 16 bytes"),
    "huge and empty": (of_ids([2**62, 2**62, 0], 0), "INVALID_ARGUMENT", "raw_input_contents[0]", "too large"),
    "missing axis": (of_ids([2], 16), "INVALID_ARGUMENT", "inputs[0].shape", "is [2]; ids takes [rows, token]"),
    "many rows": (of_ids([65, 1], 65 * 8), "RESOURCE_EXHAUSTED", "rows", "has 65 entries; at most 64"),
    "raw and typed": (
        changed(lambda each: each.inputs[0].contents.bytes_contents.extend([b"a", b"b"])),
        "INVALID_ARGUMENT",
        "inputs[0].contents",
        "is set beside raw_input_contents; send one of the two",
    ),
    "raw of another number": (
        changed(lambda each: each.raw_input_contents.append(b"")),
        "INVALID_ARGUMENT",
        "raw_input_contents",
        "has 2 entries; inputs has 1",
    ),
    "rows that differ": (
        infer_request("tiny", {"text": texts("a", "b"), "ids": np.zeros((3, 2), np.int64)}),
        "INVALID_ARGUMENT",
        "inputs[1].shape",
        "has 3 rows; inputs[0] has 2",
    ),
    "text and its tensor": (
        infer_request("tiny", {"text": texts("a"), "ids": np.zeros((1, 2), np.int64)}),
        "INVALID_ARGUMENT",
        'rows[0].inputs["ids"]',
        "send one of the two",
    ),
    "cut element": (
        changed(lambda each: each.raw_input_contents.__setitem__(0, each.raw_input_contents[0][:-1])),
        "INVALID_ARGUMENT",
        "raw_input_contents[0]",
        "end within element 1 of 2",
    ),
    "element too many": (
        changed(lambda each: each.raw_input_contents.__setitem__(0, each.raw_input_contents[0] + b"\0\0\0\0")),
        "INVALID_ARGUMENT",
        "raw_input_contents[0]",
        "the 2 elements of shape [2, 1] take",
    ),
    "elements by the million": (
        changed(lambda each: each.inputs[0].shape.__setitem__(1, 10**6)),
        "RESOURCE_EXHAUSTED",
        "raw_input_contents[0]",
        "at most 100000",
    ),
    "no UTF-8": (infer_request("tiny", {"text": strings([b"\xff\xfe"])}), "INVALID_ARGUMENT", "inputs[0]", "not UTF-8"),
    "empty text": (
        infer_request("tiny", {"text": texts("a", " ")}),
        "INVALID_ARGUMENT",
        'rows[1].inputs["text"]',
        "is empty",
    ),
    "two texts a row": (
        infer_request("tiny", {"text": texts("a", "b").reshape(1, 2)}),
        "INVALID_ARGUMENT",
        "inputs[0].shape",
        "text takes [rows] or [rows, 1]",
    ),
    "number out of range": (
        infer_request("tiny", {"ids": np.full((1, 2), 99)}),
        "OUT_OF_RANGE",
        'rows[0].inputs["ids"].tensor.data',
        "has 99",
    ),
    "typed count": (
        typed_with("int64_contents", [4], "INT64", [1, 2]),
        "INVALID_ARGUMENT",
        "inputs[0].contents.int64_contents",
        "has 1 elements; shape [1, 2] needs 2",
    ),
    "typed field": (
        typed_with("fp32_contents", [4.0], "INT64", [1, 1]),
        "INVALID_ARGUMENT",
        "inputs[0].contents.fp32_contents",
        "use int64_contents",
    ),
    "typed half": (
        typed_with("fp32_contents", [4.0], "FP16", [1, 1]),
        "INVALID_ARGUMENT",
        "inputs[0].contents",
        "cannot hold FP16",
    ),
    "typed byte": (
        typed_with("uint_contents", [300], "UINT8", [1, 1]),
        "INVALID_ARGUMENT",
        "inputs[0].contents.uint_contents[0]",
        "is 300; UINT8 is from 0 to 255",
    ),
    "unknown output": (
        tiny("nothing"),
        "INVALID_ARGUMENT",
        "outputs[0].name",
        "is 'nothing', which the model lacks; it has logits",
    ),
    "output twice": (tiny("logits", "logits"), "INVALID_ARGUMENT", "outputs[1].name", "a second time"),
    "head that is not there": (
        tiny("logits", (NAMED, {"limelight_heads": "0,2"})),
        "INVALID_ARGUMENT",
        'outputs[1].parameters["limelight_heads"][1]',
        "is 2; there are 2 heads",
    ),
    "query that is not there": (
        tiny((NAMED, {"limelight_queries": 7})),
        "INVALID_ARGUMENT",
        'outputs[0].parameters["limelight_queries"][0]',
        "is 7; there are 2",
    ),
    "heads in words": (
        tiny((NAMED, {"limelight_heads": "all"})),
        "INVALID_ARGUMENT",
        'outputs[0].parameters["limelight_heads"]',
        "whole numbers",
    ),
    "heads of another type": (
        tiny((NAMED, {"limelight_heads": 1.5})),
        "INVALID_ARGUMENT",
        'outputs[0].parameters["limelight_heads"]',
        "whole numbers",
    ),
    "beyond 32 bits": (
        tiny((NAMED, {"limelight_heads": 2**40})),
        "INVALID_ARGUMENT",
        'outputs[0].parameters["limelight_heads"]',
        "beyond 32 bits",
    ),
    "indices by the hundred thousand": (
        tiny((NAMED, MANY), ("encoder.1.self", MANY), ("pool", MANY)),
        "INVALID_ARGUMENT",
        'outputs[1].parameters["limelight_queries"]',
        "at most 100000",
    ),
    "negative top k": (
        tiny(NAMED, parameters={"limelight_top_k": -1}),
        "INVALID_ARGUMENT",
        'parameters["limelight_top_k"]',
        "is -1",
    ),
    "top k in words": (
        tiny(NAMED, parameters={"limelight_top_k": "2"}),
        "INVALID_ARGUMENT",
        'parameters["limelight_top_k"]',
        "a whole number",
    ),
    "unknown encoding": (
        tiny(NAMED, parameters={"limelight_encoding": "int4"}),
        "INVALID_ARGUMENT",
        'parameters["limelight_encoding"]',
        "float32, float16, uint8",
    ),
    "options that differ": (
        tiny((NAMED, {"limelight_top_k": 2}), "pool"),
        "INVALID_ARGUMENT",
        'parameters["limelight_top_k"]',
        "differs from",
    ),
    "quantity that a map lacks": (
        tiny("pool", parameters={"limelight_quantity": "scores"}),
        "INVALID_ARGUMENT",
        'parameters["limelight_quantity"]',
        "lacks",
    ),
    "unknown parameter": (
        tiny(parameters={"limelight_haeds": 1}),
        "INVALID_ARGUMENT",
        'parameters["limelight_haeds"]',
        "is no parameter here",
    ),
    "parameter without value": (
        changed(lambda each: each.parameters["limelight_seed"].SetInParent()),
        "INVALID_ARGUMENT",
        'parameters["limelight_seed"]',
        "has no value",
    ),
    "parameter of a map": (
        tiny(("logits", {"limelight_heads": 0})),
        "INVALID_ARGUMENT",
        'outputs[0].parameters["limelight_heads"]',
        "is for attention maps",
    ),
    "options without a map": (
        tiny("logits", parameters={"limelight_top_k": 1}),
        "INVALID_ARGUMENT",
        'parameters["limelight_top_k"]',
        "name one as an output",
    ),
    "no JSON": (
        tiny(NAMED, parameters={"limelight_attention": "{"}),
        "INVALID_ARGUMENT",
        'parameters["limelight_attention"]',
        "is no limelight.v1.AttentionOptions in JSON",
    ),
    "deep JSON": (
        tiny(NAMED, parameters={"limelight_attention": "[" * 60_000}),
        "INVALID_ARGUMENT",
        'parameters["limelight_attention"]',
        "JSON",
    ),
    "long JSON": (
        tiny(NAMED, parameters={"limelight_attention": " " * 70_000}),
        "INVALID_ARGUMENT",
        'parameters["limelight_attention"]',
        "has 70000 characters",
    ),
    "selections in JSON": (
        tiny(NAMED, parameters={"limelight_attention": '{"selections": [{}]}'}),
        "INVALID_ARGUMENT",
        'parameters["limelight_attention"].selections',
        "name maps as outputs",
    ),
    "group in JSON": (
        tiny(NAMED, parameters={"limelight_attention": '{"keyGroups": [{"groups": [{"indices": [50]}]}]}'}),
        "INVALID_ARGUMENT",
        'parameters["limelight_attention"].key_groups[0].groups[0].indices[0]',
        "is 50",
    ),
    "generation of a classifier": (
        tiny(parameters={"limelight_generation": "{}"}),
        "FAILED_PRECONDITION",
        "",
        "does not generate",
    ),
    "negative classes": (
        tiny(parameters={"limelight_max_classes": -1}),
        "INVALID_ARGUMENT",
        'parameters["limelight_max_classes"]',
        "is -1",
    ),
    "sequences": (
        tiny(parameters={"sequence_id": 1}),
        "INVALID_ARGUMENT",
        'parameters["sequence_id"]',
        "not supported",
    ),
    "shared memory": (
        changed(
            lambda each: (
                each.inputs[0].parameters["shared_memory_region"].MergeFrom(pb.InferParameter(string_param="a"))
            )
        ),
        "INVALID_ARGUMENT",
        'inputs[0].parameters["shared_memory_region"]',
        "is not supported",
    ),
    "classification": (
        tiny(("logits", {"classification": 3})),
        "INVALID_ARGUMENT",
        'outputs[0].parameters["classification"]',
        "name a result",
    ),
    "timeout in words": (
        tiny(parameters={"timeout": "soon"}),
        "INVALID_ARGUMENT",
        'parameters["timeout"]',
        "a whole number",
    ),
}


def told(running: Running, request: pb.ModelInferRequest) -> Refusal:
    """Make a call that is refused."""
    with pytest.raises(grpc.RpcError) as caught:
        unary(running.channel, "ModelInfer", request, pb.ModelInferResponse)
    return refusal(caught.value)


@pytest.mark.parametrize("case", CASES)
def test_what_is_wrong_is_named_and_the_next_request_is_answered(running: Running, case: str) -> None:
    request, code, field, message = CASES[case]
    found = told(running, request)
    assert (found.code, found.field) == (code, field), found.message
    assert message in found.message
    assert infer(running.channel, "tiny", {"text": texts("the cat")}, "logits")["logits"].shape == (1, 3)


def test_an_answer_that_is_too_large_is_refused_before_anything_runs(running: Running) -> None:
    options = {"limelight_attention": '{"maxResponseBytes": 2000}'}
    found = told(running, tiny("encoder.0.self", parameters=options))
    assert (found.code, found.reason, found.field) == ("RESOURCE_EXHAUSTED", "TOO_LARGE", "outputs")


def test_the_size_of_an_answer_is_that_of_its_rows_filled_up(running: Running) -> None:
    long, short = " ".join(["cat"] * 20), "cat"
    options = {"limelight_attention": '{"maxResponseBytes": 3000}'}

    def needed(*sentences: str) -> str:
        request = infer_request("tiny", {"text": texts(*sentences)}, "encoder.0.self", parameters=options)
        return told(running, request).message.partition(":")[0]

    assert needed(long, short) == needed(long, long) == needed(short, long)


def test_a_short_timeout_is_a_deadline(running: Running) -> None:
    found = told(running, infer_request("tiny", {"text": texts("the cat " * 9)}, parameters={"timeout": 1}))
    assert found.code in ("DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED")


def test_a_stream_tells_of_a_bad_request_and_answers_the_next(running: Running) -> None:
    bad, good = tiny("nothing", id="bad"), tiny("logits", id="good")
    first, second = streamed(running.channel, bad, good)
    assert first.error_message.startswith("[INVALID_ARGUMENT] outputs[0].name is 'nothing'")
    assert first.infer_response.id == "bad"
    assert not second.error_message and second.infer_response.id == "good"
