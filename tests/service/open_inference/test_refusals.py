"""A request that cannot be met gets one message that names the field and what to do, over gRPC and REST alike."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from limelight_service.open_inference import open_inference_pb2 as pb
from tests.kit.serving import Refusal, Running
from tests.service.every_door import DOORS, infer_by
from tests.service.open_inference.calls import infer, infer_request, streamed, strings, texts

NAMED = "encoder.0.self"
INVALID = "INVALID_ARGUMENT"
MANY = {"limelight_heads": "0" + ",0" * 32_000, "limelight_queries": "0" + ",0" * 32_000}


def tiny(*outputs: Any, **options: Any) -> pb.ModelInferRequest:
    """A good request, to be spoilt."""
    return infer_request("tiny", {"text": texts("the cat", "a dog")}, *outputs, **options)


def of_ids(shape: list[int], raw: int, datatype: str = "INT64") -> pb.ModelInferRequest:
    """A request with a tensor of some shape and so many bytes."""
    request = pb.ModelInferRequest(model_name="tiny", raw_input_contents=[b"\x04" + bytes(raw - 1) if raw else b""])
    request.inputs.add(name="ids", datatype=datatype, shape=shape)
    return request


def changed(change: Callable[[pb.ModelInferRequest], Any]) -> pb.ModelInferRequest:
    """Spoil a good request."""
    spoilt = tiny()
    change(spoilt)
    return spoilt


def with_raw(data: Callable[[bytes], bytes]) -> pb.ModelInferRequest:
    return changed(lambda each: each.raw_input_contents.__setitem__(0, data(each.raw_input_contents[0])))


def typed_with(field: str, values: list[Any], datatype: str, shape: list[int]) -> pb.ModelInferRequest:
    request = pb.ModelInferRequest(model_name="tiny")
    tensor = request.inputs.add(name="ids", datatype=datatype, shape=shape)
    getattr(tensor.contents, field).extend(values)
    return request


def option(name: str, value: Any, *outputs: Any) -> pb.ModelInferRequest:
    """A request with a parameter of all of it."""
    return tiny(*(outputs or (NAMED,)), parameters={f"limelight_{name}": value})


def of_output(name: str, value: Any, output: str = NAMED) -> pb.ModelInferRequest:
    """A request with a parameter of one of its outputs."""
    return tiny((output, {f"limelight_{name}": value}))


def parameter(name: str, prefix: str = "") -> str:
    return f'{prefix}parameters["limelight_{name}"]'


SECOND = 'outputs[1].parameters["limelight_heads"][1]'
HEADS, QUERIES = (parameter(name, "outputs[0].") for name in ("heads", "queries"))
RAW = "raw_input_contents[0]"
# A request, its code, the field and some words of what is said; both doors say them.
BOTH: list[tuple[pb.ModelInferRequest, str, str, str]] = [
    (infer_request("nothing", {"text": texts("a")}), "NOT_FOUND", "", "there is no model"),
    (tiny(model_version="9"), "NOT_FOUND", "", "has no version 9"),
    (infer_request("tiny", {"other": texts("a")}), INVALID, 'rows[0].inputs["other"]', "the model takes 'text' (text)"),
    (of_ids([1, 2], 8, "INT32"), INVALID, "inputs[0].datatype", "is INT32; ids takes INT64"),
    (of_ids([1, 2], 2, "INT24"), INVALID, "inputs[0].datatype", "'INT24'; it may be BOOL"),
    (of_ids([1, 2], 2, "INT16"), INVALID, "inputs[0].datatype", "'INT16'"),
    (of_ids([1, -2], 16), INVALID, "inputs[0].shape", "has a negative size: [1, -2]"),
    (of_ids([0, 2], 0), INVALID, "inputs[0].shape", "has no rows"),
    (of_ids([], 8), INVALID, "inputs[0].shape", "is empty; its first axis counts the rows"),
    (of_ids([2], 16), INVALID, "inputs[0].shape", "is [2]; ids takes [rows, token]"),
    (of_ids([65, 1], 65 * 8), "RESOURCE_EXHAUSTED", "rows", "has 65 entries; at most 64"),
    (
        infer_request("tiny", {"text": texts("a", "b"), "ids": np.zeros((3, 2), np.int64)}),
        *(INVALID, "inputs[1].shape", "has 3 rows; inputs[0] has 2"),
    ),
    (
        infer_request("tiny", {"text": texts("a"), "ids": np.zeros((1, 2), np.int64)}),
        *(INVALID, 'rows[0].inputs["ids"]', "send one of the two"),
    ),
    (infer_request("tiny", {"text": texts("a", " ")}), INVALID, 'rows[1].inputs["text"]', "is empty"),
    (
        infer_request("tiny", {"text": texts("a", "b").reshape(1, 2)}),
        *(INVALID, "inputs[0].shape", "text takes [rows] or [rows, 1]"),
    ),
    (
        infer_request("tiny", {"ids": np.full((1, 2), 99)}),
        *("OUT_OF_RANGE", 'rows[0].inputs["ids"].tensor.data', "has 99"),
    ),
    (tiny("nothing"), INVALID, "outputs[0].name", "is 'nothing', which the model lacks; it has logits"),
    (tiny("logits", "logits"), INVALID, "outputs[1].name", "a second time"),
    (
        tiny("logits", (NAMED, {"limelight_heads": "0,2"})),
        INVALID,
        HEADS.replace("0", "1") + "[1]",
        "is 2; there are 2",
    ),
    (of_output("queries", 7), INVALID, f"{QUERIES}[0]", "is 7; there are 2"),
    (of_output("heads", "all"), INVALID, HEADS, "whole numbers"),
    (of_output("heads", 1.5), INVALID, HEADS, "whole numbers"),
    (of_output("heads", 2**40), INVALID, HEADS, "beyond 32 bits"),
    (of_output("heads", 0, "logits"), INVALID, HEADS, "is for attention maps"),
    (
        tiny((NAMED, MANY), ("encoder.1.self", MANY), ("pool", MANY)),
        *(INVALID, parameter("queries", "outputs[1]."), "at most 100000"),
    ),
    (option("top_k", -1), INVALID, parameter("top_k"), "is -1"),
    (option("top_k", "2"), INVALID, parameter("top_k"), "a whole number"),
    (option("top_k", 1, "logits"), INVALID, parameter("top_k"), "name one as an output"),
    (option("encoding", "int4"), INVALID, parameter("encoding"), "float32, float16, uint8"),
    (tiny((NAMED, {"limelight_top_k": 2}), "pool"), INVALID, parameter("top_k"), "differs from"),
    (option("quantity", "scores", "pool"), INVALID, parameter("quantity"), "lacks"),
    (option("haeds", 1), INVALID, parameter("haeds"), "is no parameter here"),
    (option("attention", "{"), INVALID, parameter("attention"), "is no limelight.v1.AttentionOptions in JSON"),
    (option("attention", "[" * 60_000), INVALID, parameter("attention"), "JSON"),
    (option("attention", " " * 70_000), INVALID, parameter("attention"), "has 70000 characters"),
    (
        option("attention", '{"selections": [{}]}'),
        *(INVALID, f"{parameter('attention')}.selections", "name maps as outputs"),
    ),
    (
        option("attention", '{"keyGroups": [{"groups": [{"indices": [50]}]}]}'),
        *(INVALID, f"{parameter('attention')}.key_groups[0].groups[0].indices[0]", "is 50"),
    ),
    (option("attention", '{"maxResponseBytes": 2000}'), "RESOURCE_EXHAUSTED", "outputs", "2000"),
    (option("generation", "{}", "logits"), "FAILED_PRECONDITION", "", "does not generate"),
    (option("max_classes", -1), INVALID, parameter("max_classes"), "is -1"),
    (tiny(parameters={"sequence_id": 1}), INVALID, 'parameters["sequence_id"]', "not supported"),
    (tiny(parameters={"timeout": "soon"}), INVALID, 'parameters["timeout"]', "a whole number"),
    (
        changed(lambda each: setattr(each.inputs[0].parameters["shared_memory_region"], "string_param", "a")),
        *(INVALID, 'inputs[0].parameters["shared_memory_region"]', "is not supported"),
    ),
    (tiny(("logits", {"classification": 3})), INVALID, 'outputs[0].parameters["classification"]', "name a result"),
]
# What REST says in another way, or cannot say.
GRPC: list[tuple[pb.ModelInferRequest, str, str, str]] = [
    (pb.ModelInferRequest(model_name="tiny"), INVALID, "inputs", "is empty"),
    (tiny(model_version="latest"), INVALID, "model_version", "is 'latest'"),
    (tiny(model_version="-1"), INVALID, "model_version", "is '-1'"),
    (
        changed(lambda each: (each.inputs.append(each.inputs[0]), each.raw_input_contents.append(b""))),
        *(INVALID, "inputs[1].name", "'text' a second time"),
    ),
    (of_ids([1, 2], 15), INVALID, RAW, "has 15 bytes; INT64 of shape [1, 2] needs 16"),
    (of_ids([1, 2], 17), INVALID, RAW, "has 17 bytes"),
    (of_ids([1] * 12, 8), INVALID, "inputs[0].shape", "has 12 axes"),
    (of_ids([2**62, 2**62], 16), INVALID, RAW, "has 16 bytes"),
    (of_ids([2**62, 2**62, 0], 0), INVALID, RAW, "too large"),
    (
        changed(lambda each: each.inputs[0].contents.bytes_contents.extend([b"a", b"b"])),
        *(INVALID, "inputs[0].contents", "is set beside raw_input_contents; send one of the two"),
    ),
    (
        changed(lambda each: each.raw_input_contents.append(b"")),
        *(INVALID, "raw_input_contents", "has 2 entries; inputs has 1"),
    ),
    (with_raw(lambda data: data[:-1]), INVALID, RAW, "end within element 1 of 2"),
    (with_raw(lambda data: data + bytes(4)), INVALID, RAW, "the 2 elements of shape [2, 1] take"),
    (changed(lambda each: each.inputs[0].shape.__setitem__(1, 10**6)), "RESOURCE_EXHAUSTED", RAW, "at most 100000"),
    (infer_request("tiny", {"text": strings([b"\xff\xfe"])}), INVALID, "inputs[0]", "not UTF-8"),
    *(
        (typed_with(field, values, datatype, shape), INVALID, f"inputs[0].contents{told}", says)
        for field, values, datatype, shape, told, says in (
            ("int64_contents", [4], "INT64", [1, 2], ".int64_contents", "has 1 element; shape [1, 2] needs 2"),
            ("fp32_contents", [4.0], "INT64", [1, 1], ".fp32_contents", "use int64_contents"),
            ("fp32_contents", [4.0], "FP16", [1, 1], "", "cannot hold FP16"),
            ("uint_contents", [300], "UINT8", [1, 1], ".uint_contents[0]", "is 300; UINT8 is from 0 to 255"),
        )
    ),
    (changed(lambda each: each.parameters["limelight_seed"].SetInParent()), INVALID, parameter("seed"), "has no value"),
]
CASES = [(each, DOORS) for each in BOTH] + [(each, DOORS[:1]) for each in GRPC]


@pytest.mark.parametrize(("case", "doors"), CASES, ids=lambda each: f"{each[1]}-{each[2]}" if len(each) > 2 else "")
def test_what_is_wrong_is_named_and_the_next_request_is_answered(
    running: Running, case: tuple[pb.ModelInferRequest, str, str, str], doors: tuple[str, ...]
) -> None:
    request, code, field, message = case
    for door in doors:
        told = infer_by(running, door, request)
        assert isinstance(told, Refusal) and (told.code, told.field) == (code, field), told
        assert message in told.message
    assert infer(running.channel, "tiny", {"text": texts("the cat")}, "logits")["logits"].shape == (1, 3)


def test_the_size_of_an_answer_is_that_of_its_rows_filled_up(running: Running) -> None:
    long, short = " ".join(["cat"] * 20), "cat"
    options = {"limelight_attention": '{"maxResponseBytes": 3000}'}

    def needed(*sentences: str) -> str:
        told = infer_by(running, "grpc", infer_request("tiny", {"text": texts(*sentences)}, NAMED, parameters=options))
        assert told.reason == "TOO_LARGE"
        return str(told.message.partition(":")[0])

    assert needed(long, short) == needed(long, long) == needed(short, long)


def test_a_short_timeout_is_a_deadline(running: Running) -> None:
    request = infer_request("tiny", {"text": texts("the cat " * 9)}, parameters={"timeout": 1})
    for door in DOORS:
        assert infer_by(running, door, request).code in ("DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED")


def test_a_stream_tells_of_a_bad_request_and_answers_the_next(running: Running) -> None:
    bad, good = tiny("nothing", id="bad"), tiny("logits", id="good")
    first, second = streamed(running.channel, bad, good)
    assert first.error_message.startswith("[INVALID_ARGUMENT] outputs[0].name is 'nothing'")
    assert first.infer_response.id == "bad"
    assert not second.error_message and second.infer_response.id == "good"
