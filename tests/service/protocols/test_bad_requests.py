"""Every bad input gets a precise error that names the field, the same by every door; the next good one is answered."""

import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grpc
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from limelight.v1 import attention_pb2, service_pb2, values_pb2
from limelight_bundle.wire import instance_to_wire, to_tensor
from tests.kit import bundles
from tests.kit.serving import Refusal, Running, attend, generate, predict, refusal, text, tokenize
from tests.service.every_door import DOORS, ask

Value = values_pb2.Value
INVALID, RANGE, EXHAUSTED = "INVALID_ARGUMENT", "OUT_OF_RANGE", "RESOURCE_EXHAUSTED"
PRECONDITION, MISSING = "FAILED_PRECONDITION", "NOT_FOUND"
GOOD, INT64 = text("the cat sat"), values_pb2.DATA_TYPE_INT64


@dataclass(frozen=True)
class Case:
    """A bad request, and what it gets. says: words of its message. doors: where it can be sent, and is told just so."""

    request: Any
    field: str
    says: tuple[str, ...]
    code: str
    doors: tuple[str, ...]


def bad(request: Any, field: str, *says: str, code: str = INVALID, doors: tuple[str, ...] = DOORS) -> Case:
    return Case(request, field, says, code, doors)


GRPC = {"doors": ("grpc",)}  # for what JSON cannot say, or its reader refuses in words of its own


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


def image(data: bytes) -> values_pb2.Instance:
    return instance(image=Value(image=data))


def pixels(value: float) -> values_pb2.Instance:
    return instance(pixels=Value(tensor=to_tensor(np.full((1, 4, 4), value, np.float32))))


def grouped(*groups: dict[str, Any], instances: tuple[values_pb2.Instance, ...] = (GOOD,), **fields: Any) -> Any:
    """Ask for sums over groups of keys."""
    return attend("tiny", *instances, key_groups=[{"groups": groups, **fields}])


def changed(**change: Any) -> Any:
    """Ask for a prediction with attention changed."""
    instance = text("the cat")
    instance.interventions.add(**change)
    return predict("tiny", instance)


def beams(**options: Any) -> Any:
    request = attend("echo", GOOD, **options)
    request.generation.CopyFrom(service_pb2.GenerationOptions(strategy=service_pb2.STRATEGY_BEAM, hypotheses=2))
    return request


def streamed(**options: Any) -> Any:
    """Ask for maps in chunks."""
    return service_pb2.AttendStreamRequest.FromString(attend("tiny", GOOD, **options).SerializeToString())


def generated(**options: Any) -> Any:
    """Ask for tokens and their maps."""
    return generate("echo", GOOD, attention=attention_pb2.AttentionOptions(**options))


def why(model: str = "tiny", *instances: values_pb2.Instance, **fields: Any) -> Any:
    """Ask what of their inputs answers depend on."""
    found = instances or (GOOD,)
    return service_pb2.ExplainRequest(model=values_pb2.Model(name=model), instances=found, **fields)


def drawn(**options: Any) -> Any:
    return predict("echo", GOOD, generation=service_pb2.GenerationOptions(**options))


def changed_why() -> Any:
    wrong = values_pb2.Instance()
    wrong.CopyFrom(GOOD)
    wrong.interventions.add(map="pool", uniform=values_pb2.UniformWeights())
    return why("tiny", wrong)


TEXT, IDS, IMAGE = (f'instances[0].inputs["{name}"]' for name in ("text", "ids", "image"))
SHAPE, DATA, TYPE, PIXELS = f"{IDS}.tensor.shape", f"{IDS}.tensor.data", f"{IDS}.tensor.data_type", 'inputs["pixels"]'
GROUPS, SELECTION = "attention.key_groups[0].groups", "attention.selections[0]"
SCORES, ONES = attention_pb2.QUANTITY_SCORES, to_tensor(np.ones(2, np.float32))
ONE, ALL = {"indices": [0]}, "echo, noisy, paper, picture, tiny, web"
BEGUN = instance(text=Value(text="the cat"), target_ids=Value(tensor=to_tensor(np.array([5, 6]))))
LONG, NAN = text(" ".join(["the cat"] * 16)), float("nan")
NO_VERSION = service_pb2.PredictRequest(model=values_pb2.Model(name="tiny", version=9), instances=[GOOD])
CASES = [
    # Models, counts and sizes.
    bad(predict("nothing", GOOD), "", "nothing", ALL, code=MISSING),
    bad(predict("../tiny", GOOD), "", "echo, noisy", code=MISSING, **GRPC),
    bad(NO_VERSION, "", "9", "1", code=MISSING),
    bad(service_pb2.PredictRequest(instances=[GOOD]), "", "tiny", code=MISSING, **GRPC),
    bad(predict("tiny"), "instances", "at least one"),
    bad(predict("tiny", *[GOOD] * 65), "instances", "65", "64", code=EXHAUSTED),
    bad(attend("tiny", LONG, max_response_bytes=15_000), "attention", "15000", "would fit", code=EXHAUSTED),
    bad(attend("tiny", GOOD, max_response_bytes=10), "instances", "10", code=EXHAUSTED),
    bad(predict("tiny", GOOD, outputs=["logits", "x"]), "outputs[1]", "logits, features, tags"),
    bad(predict("tiny", GOOD, max_classes=-1), "max_classes", "-1"),
    # Inputs.
    bad(predict("tiny", GOOD, instance()), 'instances[1].inputs["text"]', "'text'"),
    bad(
        predict("tiny", instance(text=Value(text="a"), other=Value(text="a"))), 'instances[0].inputs["other"]', "'text'"
    ),
    bad(predict("tiny", instance(Text=Value(text="cat"))), 'instances[0].inputs["Text"]'),
    bad(predict("tiny", instance(text=Value())), TEXT),
    bad(predict("tiny", instance(text=Value(image=b"x"))), TEXT, "text"),
    bad(predict("tiny", GOOD, text("")), 'instances[1].inputs["text"]', "empty"),
    bad(predict("tiny", text(" \n\t")), TEXT, "empty"),
    bad(predict("tiny", text(" ".join(["cat"] * 33))), TEXT, "32", "truncate"),
    bad(predict("tiny", text("cat " * 126), truncate=True), TEXT, "500"),
    bad(predict("picture", image(b"GIF89a, not")), IMAGE, "PNG"),
    bad(predict("picture", image(b"")), IMAGE),
    bad(predict("picture", image(png(20_000, 20_000))), IMAGE, "1000000", code=EXHAUSTED),
    bad(predict("picture", image(png(4, 4)), image(png(4, 4)), image(b"no")), 'instances[2].inputs["image"]'),
    # Tensors.
    bad(predict("tiny", ids(1, 2, dtype="int32")), TYPE, "INT64"),
    bad(predict("tiny", raw(99, [1], 8)), TYPE),
    bad(predict("tiny", raw(INT64, [1, 2], 16)), SHAPE),
    bad(predict("tiny", raw(INT64, [-1], 8)), SHAPE),
    bad(predict("tiny", raw(INT64, [0], 0)), SHAPE),
    bad(predict("tiny", raw(INT64, [33], 33 * 8)), SHAPE, "32"),
    bad(predict("tiny", raw(INT64, [3], 23)), DATA, "23", "24"),
    bad(predict("tiny", raw(INT64, [2**62, 4], 0)), DATA),
    bad(predict("tiny", raw(INT64, [1] * 1000, 8)), SHAPE),
    bad(predict("tiny", ids(4, 14)), DATA, "14", "13", code=RANGE),
    bad(predict("tiny", ids(4, -1)), DATA, "-1", code=RANGE),
    bad(predict("picture", pixels(NAN)), f"instances[0].{PIXELS}.tensor.data", "NaN"),
    bad(predict("picture", pixels(float("inf"))), f"instances[0].{PIXELS}.tensor.data"),
    # Tokens.
    bad(tokenize("nothing", GOOD), "", "nothing", ALL, code=MISSING),
    bad(tokenize("picture", image(png(4, 4))), "", "picture reads no text", code=PRECONDITION),
    bad(tokenize("tiny"), "instances", "at least one"),
    bad(tokenize("tiny", *[GOOD] * 65), "instances", "65", "64", code=EXHAUSTED),
    bad(tokenize("tiny", GOOD, instance()), "instances[1].inputs", "no text", "'text'"),
    bad(tokenize("tiny", instance(txt=Value(text="a"))), 'instances[0].inputs["txt"]', "'text'"),
    bad(tokenize("tiny", text(" ".join(["cat"] * 33))), TEXT, "32", "truncate"),
    bad(tokenize("tiny", text("cat " * 126), truncate=True), TEXT, "500"),
    bad(tokenize("tiny", ids(4, 14)), DATA, "14", "13", code=RANGE),
    # Selections of maps and what is made of them.
    bad(attend("tiny", GOOD, selections=[{"names": ["dec*"]}]), f"{SELECTION}.names[0]", "encoder.0.self"),
    bad(attend("tiny", GOOD, selections=[{"names": ["*" * 257]}]), f"{SELECTION}.names[0]", "257", "256"),
    bad(attend("tiny", GOOD, selections=[{"layers": [0, 2]}]), f"{SELECTION}.layers[1]", "is 2"),
    bad(attend("tiny", GOOD, selections=[{"layers": [-9]}]), f"{SELECTION}.layers[0]", "is -9"),
    bad(attend("tiny", GOOD, selections=[{}, {"names": ["enc*", "no"]}]), "attention.selections[1].names[1]", "pool"),
    bad(attend("tiny", GOOD, selections=[{"heads": [-3]}]), f"{SELECTION}.heads[0]", "is -3"),
    bad(attend("tiny", GOOD, selections=[{"names": ["enc*"], "heads": [2]}]), f"{SELECTION}.heads[0]", "2 heads"),
    bad(
        attend("tiny", LONG, GOOD, selections=[{"names": ["enc*"], "queries": [3]}]), f"{SELECTION}.queries[0]", "3 qu"
    ),
    bad(attend("tiny", GOOD, selections=[{"keys": [-4]}]), f"{SELECTION}.keys[0]", "3 keys"),
    bad(attend("echo", GOOD, selections=[{"names": ["decoder*"], "queries": [11]}]), f"{SELECTION}.queries[0]"),
    bad(attend("tiny", GOOD, selections=[{}] * 65), "attention.selections"),
    bad(attend("tiny", GOOD, selections=[{"keys": range(100_001)}]), "attention.selections"),
    bad(attend("tiny", GOOD, selections=[{"names": ["*"] * 1001}]), "attention.selections"),
    bad(attend("paper", instance(text=Value(text="the cat .")), rollout=True), "attention.rollout"),
    bad(attend("tiny", GOOD, encoding=9), "attention.encoding"),
    bad(attend("tiny", GOOD, reduce_heads=77), "attention.reduce_heads"),
    bad(attend("tiny", GOOD, top_k=-1), "attention.top_k"),
    bad(attend("tiny", GOOD, max_response_bytes=-1), "attention.max_response_bytes"),
    bad(attend("tiny", GOOD, quantity=9), "attention.quantity", "9"),
    bad(
        attend("tiny", GOOD, quantity=SCORES, selections=[{"names": ["pool"]}]), "attention.quantity", "SCORES", "pool"
    ),
    bad(attend("paper", GOOD, quantity=SCORES), "attention.quantity"),
    bad(attend("tiny", GOOD, quantity=SCORES, key_groups=[{"groups": [ONE]}]), "attention.quantity"),
    bad(attend("tiny", GOOD, pool={"size": 0}), "attention.pool.size", "4096"),
    bad(attend("tiny", GOOD, pool={"size": 4097}), "attention.pool.size", "4097"),
    bad(attend("tiny", GOOD, pool={"size": 2, "reduction": 9}), "attention.pool.reduction"),
    bad(attend("tiny", GOOD, pool={"size": 2}, key_groups=[{"groups": [ONE]}]), "attention.pool"),
    bad(attend("tiny", GOOD, pool={"size": 2}, selections=[{"keys": [0]}]), "attention.pool", "selections[0].keys"),
    bad(attend("tiny", GOOD, pool={"size": 2}, selections=[{"queries": [0]}]), "attention.pool", "selected queries"),
    *(
        bad(attend("tiny", GOOD, quantity=SCORES, **options), f"attention.{field}", says)
        for options, field, says in (
            ({"query_groups": [{"groups": [ONE], "label_set": "tokens"}]}, "quantity", "SCORES"),
            ({"pool": {"size": 2, "reduction": attention_pb2.POOL_REDUCTION_MEAN}}, "quantity", "MAX"),
            ({"encoding": attention_pb2.ENCODING_UINT8}, "encoding", "FLOAT16"),
            ({"rollout": True}, "rollout", "SCORES"),
        )
    ),
    bad(attend("tiny", GOOD, sequences=2), "attention.sequences", "generate"),
    bad(beams(sequences=3), "attention.sequences", "hypotheses is 2"),
    bad(attend("echo", GOOD, sequences=-1), "attention.sequences"),
    # Groups.
    bad(grouped(), GROUPS, "1024"),
    bad(grouped(*[ONE] * 1025), GROUPS, "1025", "1024"),
    bad(grouped(ONE, {"name": "x"}), f"{GROUPS}[1]", "no entry"),
    bad(grouped({"indices": [1, 3]}), f"{GROUPS}[0].indices[1]", "3 tokens"),
    bad(grouped({"indices": [2]}, instances=(GOOD, text("cat"))), f"{GROUPS}[0].indices[0]", "there is 1 token"),
    bad(grouped({"ranges": [{"start": 2, "end": 2}]}), f"{GROUPS}[0].ranges[0]", "3 tokens"),
    bad(grouped(ONE, {"spans": [{"end": 3}, {"start": 90, "end": 91}]}), f"{GROUPS}[1].spans[1]", "90", "3 tokens"),
    bad(grouped({"spans": [{"end": 3, "part": "first"}]}), f"{GROUPS}[0].spans[0].part"),
    bad(grouped({"spans": [{"end": 3, "sentence": 0}]}), f"{GROUPS}[0].spans[0].sentence"),
    bad(grouped({"inputs": ["title"]}), f"{GROUPS}[0].inputs[0]", "text"),
    bad(grouped(ONE, label_set="words"), "attention.key_groups[0].label_set", "tokens"),
    bad(attend("tiny", GOOD, query_groups=[{"groups": [ONE]}]), "attention.query_groups[0].label_set", "tokens, one"),
    bad(grouped({"name": "x" * 257, "indices": [0]}), f"{GROUPS}[0].name"),
    bad(grouped(ONE, reduction=9), "attention.key_groups[0].reduction"),
    bad(grouped({"indices": range(100_001)}), "attention.key_groups"),
    bad(grouped({"inputs": ["text"] * 4097}), "attention.key_groups"),
    bad(attend("tiny", GOOD, query_groups=[{"groups": [ONE]}] * 65), "attention.query_groups"),
    *(
        bad(
            beams(query_groups=[{"groups": [group], "label_set": "output"}]), f"attention.query_groups[0].{field}", says
        )
        for group, field, says in (
            ({"spans": [{"start": 900, "end": 901}]}, "groups[0].spans[0]", "where none of"),
            ({"spans": [{"end": 1, "part": "text"}]}, "groups[0].spans[0].part", "come from output"),
            ({"inputs": ["text"]}, "groups[0].inputs[0]", "come from output"),
            ({"indices": [99]}, "groups[0].indices[0]", "99"),
        )
    ),
    # Interventions.
    bad(changed(map="encoder.9", head_scales=ONES), "instances[0].interventions[0].map", "encoder.0.self"),
    bad(changed(map="pool", weights=ONES), "instances[0].interventions[0].weights", "pool", "no interventions"),
    bad(changed(map="pool"), "instances[0].interventions[0]", "head_scales"),
    bad(
        predict("tiny", values_pb2.Instance(inputs=GOOD.inputs, interventions=[{"map": "pool"}] * 257)),
        *("instances[0].interventions", "257; at most 256"),
    ),
    # Generation.
    bad(predict("tiny", GOOD, generation={"top_k": 3}), "", "does not generate", code=PRECONDITION),
    *(
        bad(drawn(**{name: value}), f"generation.{name}", *says)
        for name, value, *says in (
            ("strategy", 9),
            ("temperature", -1),
            ("temperature", -1e-8, "is -1e-08;"),
            ("temperature", NAN),
            ("temperature", float("inf")),
            ("top_k", -1),
            ("top_p", 1.5),
            ("top_p", 1.0000001, "is 1.0000001; it may be from 0"),
            ("top_p", -1e-8, "is -1e-08;"),
            ("top_p", NAN),
            ("max_new_tokens", -1),
            ("stop", ["a"] * 17),
            ("beams", 17),
            ("hypotheses", 5),
            ("length_penalty", NAN),
            ("length_penalty", 10.000001, "is 10.000001; it may be from 0 to 10"),
            ("top_logprobs", -1, "from 0 (for none) to 20"),
            ("top_logprobs", 21, "is 21"),
        )
    ),
    bad(
        predict("echo", BEGUN, GOOD, generation={"continue_target": True}),
        'instances[1].inputs["target"]',
        "is missing; continue_target",
    ),
    bad(generate("echo", GOOD, generation={"continue_target": True}), 'instance.inputs["target"]', "is missing"),
    bad(predict("noisy", GOOD, generation={"continue_target": True}), "", "does not generate", code=PRECONDITION),
    bad(drawn(beams=2, hypotheses=3), "generation.hypotheses"),
    bad(drawn(stop=["a", ""]), "generation.stop[1]"),
    bad(drawn(stop=["a" * 257]), "generation.stop[0]"),
    # Streams.
    bad(generate("tiny", GOOD), "", code=PRECONDITION),
    bad(generate("nothing", GOOD), "", code=MISSING),
    bad(generate("echo", GOOD, generation={"beams": 17}), "generation.beams"),
    bad(generated(selections=[{"queries": [0]}]), f"{SELECTION}.queries"),
    bad(generated(selections=[{"names": ["decoder.0.self"], "keys": [0]}]), f"{SELECTION}.keys"),
    *(
        bad(generated(key_groups=[{"groups": [ONE, group], "label_set": "input"}]), f"{GROUPS}[1].{field}", says)
        for group, field, says in (
            ({"indices": [-1]}, "indices[0]", "counted from the first"),
            ({"ranges": [{"start": 1}]}, "ranges[0]", "counted from the first, and there may be 14"),
            ({"spans": [{"end": 2}]}, "spans[0]", "generated text, which is not known yet"),
            ({"inputs": ["text"]}, "inputs[0]", "come from output"),
        )
    ),
    bad(streamed(selections=[{"queries": [9]}]), f"{SELECTION}.queries[0]"),
    bad(streamed(max_response_bytes=40), "instances", "40", code=EXHAUSTED),
    *(
        bad(made(**{name: value}), f"attention.{name}")
        for made, of in ((generated, "output"), (streamed, "tokens"))
        for name, value in (
            ("rollout", True),
            ("pool", {"size": 2}),
            ("query_groups", [{"groups": [ONE], "label_set": of}]),
            ("sequences", 2),
        )
        if not (made is streamed and name == "rollout")
    ),
    bad(streamed(rollout=True, selections=[{"names": ["encoder.*"]}]), "attention.rollout"),
    # Explanations.
    bad(why("nothing"), "", "nothing", code=MISSING),
    bad(why("noisy"), "", "raw outputs only", code=PRECONDITION),
    bad(why(generation={"top_k": 3}), "", "does not generate", code=PRECONDITION),
    bad(why("tiny", GOOD, text("")), 'instances[1].inputs["text"]', "empty"),
    bad(changed_why(), "instances[0].interventions", "attention itself"),
    bad(why(target={"result": "moods"}), "target.result", "mood, words", "did you mean 'mood'?"),
    bad(why(target={"label": "calmm"}), "target.label", "calm, lively, neither", "did you mean 'calm'?"),
    bad(why(target={"index": 3}), "target.index", "3 classes", code=RANGE),
    bad(why(target={"text": "a mat"}), "target.text", "set label or index"),
    bad(why(target={"span": {"end": 3}}), "target.span", "mood"),
    bad(why(target={"similar_to": GOOD}), "target.similar_to", "mood"),
    bad(why(target={"entry": 0}), "target.entry", "mood"),
    bad(why(target={"result": "words", "entry": 3}), "target.entry", "3 tokens", code=RANGE),
    bad(why("echo", target={"label": "cat"}), "target.label", "set text"),
    bad(why("echo", target={"text": "a mat"}), "target.text", "target_ids"),
    bad(why("echo", target={"entry": 40}), "target.entry", "output", code=RANGE),
    bad(why(units={"kind": service_pb2.UNIT_KIND_PATCHES}), "units.kind", "UNIT_KIND_WORDS, UNIT_KIND_SENTENCES"),
    bad(why(units={"size": 2}), "units.size", "patches and frames"),
    bad(why("picture", image(png(4, 4)), units={"size": -1}), "units.size", "-1"),
    bad(why(units={"kind": service_pb2.UNIT_KIND_LINES, "groups": [ONE]}), "units", "set one"),
    bad(why("tiny", ids(4, 5), units={"kind": service_pb2.UNIT_KIND_LINES}), "units.kind", "'text'"),
    bad(why(units={"groups": [{"name": "x"}]}), "units.groups[0]", "indices, ranges, spans, inputs"),
    bad(why(units={"groups": [ONE, {"spans": [{"start": 90, "end": 95}]}]}), "units.groups[1].spans[0]", "90 to 95"),
    bad(why(units={"groups": [{"spans": [{"end": 3, "part": "left"}]}]}), "units.groups[0].spans[0].part", "'left'"),
    bad(why(units={"groups": [{"indices": [3]}]}), "units.groups[0].indices[0]", "3 tokens"),
    bad(why(units={"groups": [ONE], "label_set": "words"}), "units.label_set", "tokens"),
    bad(why(units={"inputs": ["title"]}), "units.inputs[0]", "text"),
    bad(why(ways=[3]), "ways[0]", "no map of the model takes interventions", "WAY_ERASE"),
    bad(why(ways=[5, 1, 5]), "ways[2]", "a second time"),
    bad(why(ways=[1, 0]), "ways[1]", "name a way"),
    bad(why(ways=[7]), "ways[0]", **GRPC),
    bad(why(ways=[2], selections=[{"names": ["pool"]}]), "ways[0]", "square self maps"),
    bad(why(selections=[{"keys": [0]}]), "selections[0].keys", "units are the keys"),
    bad(why(selections=[{"names": ["encoder.9"]}]), "selections[0].names[0]", "encoder.0.self"),
    bad(why(selections=[{"heads": [5]}]), "selections[0].heads[0]", "encoder.0.self"),
    bad(why(selections=[{"names": ["pool"]}, {"names": ["*.1.self"], "queries": [9]}]), "selections[1].queries[0]"),
    bad(why("tiny", *[GOOD] * 65), "instances", "64", code=EXHAUSTED),
    bad(why("tiny", *[LONG] * 4), "units", "64 rows", "15 units of each instance fit", code=EXHAUSTED),
]

CHAIN = bundles.drawn_graph(4, [(0, 1), (1, 2), (2, 3), (3, 1)], seed=3)
NODES, EDGES = CHAIN.nodes, CHAIN.edges


def graph(field: str, array: Any) -> Any:
    """Ask for two graphs, of which the second has something else in a field."""
    good, wrong = instance_to_wire({"graph": CHAIN}), instance_to_wire({"graph": CHAIN})
    getattr(wrong.inputs["graph"].graph, field).CopyFrom(to_tensor(array))
    return attend("web", good, wrong)


def changed_graph(change: Callable[[values_pb2.Graph], object]) -> Any:
    wrong = instance_to_wire({"graph": CHAIN})
    change(wrong.inputs["graph"].graph)
    return attend("web", instance_to_wire({"graph": CHAIN}), wrong)


CASES += [
    bad(request, f'instances[1].inputs["graph"].graph.{field}', says, code=RANGE if "nodes are" in says else INVALID)
    for request, field, says in (
        (graph("edges", EDGES + 1), "edges.data", "has 4 at [0, 3]; nodes are 0 to 3"),
        (graph("edges", EDGES - 1), "edges.data", "has -1 at [0, 0]; nodes are 0 to 3"),
        (graph("edges", np.concatenate([EDGES, EDGES[:, 2:3]], 1)), "edges.data", "has the edge from 2 to 3 twice"),
        (graph("edges", EDGES[0]), "edges.shape", "is [4]; expected [2, edge]"),
        (graph("edges", EDGES.astype(np.int32)), "edges.data_type", "is not INT64"),
        (graph("nodes", NODES[:, :3].copy()), "nodes.shape", "has 3 for feature, which is always 4"),
        (graph("nodes", NODES[:0]), "nodes.shape", "has size 0 along node"),
        (graph("nodes", NODES.astype(np.float64)), "nodes.data_type", "is FLOAT64; expected FLOAT32"),
        (graph("nodes", np.full_like(NODES, np.nan)), "nodes.data", "has NaN or infinity"),
        (graph("nodes", np.zeros((101, 4), np.float32)), "nodes.shape", "has 101 for node; at most 100 are allowed"),
        (graph("edge_features", np.zeros((4, 1), np.float32)), "edge_features", "are not used by the model"),
        (changed_graph(lambda graph: graph.node_names.pop()), "node_names", "has 3 names; the graph has 4 nodes"),
        (changed_graph(lambda graph: graph.ClearField("edges")), "edges.data_type", "is not a known data type"),
    )
]


def check_still_serves(running: Running) -> None:
    """A good request is answered right."""
    (prediction,) = running.stub.Predict(predict("tiny", GOOD)).predictions
    assert sum(each.probability for each in prediction.results[0].classification.classes) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.code}-{case.field}")
def test_a_bad_request_gets_one_precise_error_by_every_door(running: Running, case: Case) -> None:
    told = [ask(running, door, case.request) for door in case.doors]
    for each in told:
        assert isinstance(each, Refusal)
        assert (each.code, each.field, each.retry) == (case.code, case.field, None), each
        assert all(words in each.message for words in case.says), each
        assert running.server.settings.repository not in each.message and len(each.request_id) == 32
    assert len({each.reason for each in told}) == 1
    check_still_serves(running)


def test_what_is_said_to_fit_is_answered(running: Running) -> None:
    request = attend("tiny", LONG, max_response_bytes=15_000, outputs=("logits",))
    for door in DOORS:
        assert "encoding FLOAT16 would fit" in ask(running, door, request).message
    request.attention.encoding = attention_pb2.ENCODING_FLOAT16
    assert running.stub.Attend(request).ByteSize() <= 15_000


def test_a_name_as_long_as_a_request_gets_an_error_that_arrives(running: Running) -> None:
    request = predict("tiny", instance(**{"é" * 500_000: Value(text="cat")}))
    assert {ask(running, door, request).code for door in DOORS} == {INVALID}
    check_still_serves(running)


def method(running: Running, name: str) -> Callable[[bytes], bytes]:
    """A method that sends and takes bare bytes."""
    return running.channel.unary_unary(f"/limelight.v1.AttentionService/{name}")  # type: ignore[no-any-return]


@pytest.mark.parametrize("data", [b"\xff" * 9, b"\x0a\xff\xff\xff\xff\x0f", b"\x12\x02\x0a\x7f", b"garbage"])
def test_what_is_no_message_is_refused_as_such(running: Running, data: bytes) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        method(running, "Predict")(data)
    assert refusal(caught.value).code == INVALID
    assert "limelight.v1.PredictRequest" in refusal(caught.value).message
    check_still_serves(running)


BLAMELESS = {"INTERNAL", "UNKNOWN", "UNAVAILABLE"}
SPOILT = st.sampled_from(
    [
        predict("tiny", GOOD, ids(4, 5)),
        attend("tiny", GOOD, selections=[{"heads": [1]}]),
        attend("tiny", GOOD, pool={"size": 2}, top_k=1),
        why("tiny", GOOD, target={"label": "calm"}, units={"groups": [ONE, {"spans": [{"end": 5}]}]}, ways=[1, 5, 6]),
        grouped({"indices": [-1], "ranges": [{"end": 2}]}, {"spans": [{"end": 5}], "inputs": ["text"]}),
    ]
)
SAME_SERVER = [HealthCheck.function_scoped_fixture]


@settings(max_examples=100, deadline=None, suppress_health_check=SAME_SERVER)
@given(request=SPOILT, data=st.data())
def test_no_mutation_of_a_request_is_the_servers_fault(running: Running, request: Any, data: st.DataObject) -> None:
    sent = bytearray(request.SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        sent[data.draw(st.integers(0, len(sent) - 1))] = data.draw(st.integers(0, 255))
    try:
        method(running, type(request).__name__.removesuffix("Request"))(bytes(sent))
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


@settings(max_examples=100, deadline=None, suppress_health_check=SAME_SERVER)
@given(
    st.sampled_from(["tiny", "paper", "picture", "echo"]),
    st.dictionaries(st.sampled_from(["text", "ids", "image", "pixels", "mask"]), some_values, max_size=2),
    st.sampled_from(DOORS),
)
def test_no_value_is_the_servers_fault(running: Running, model: str, inputs: dict[str, Value], door: str) -> None:
    found = ask(running, door, attend(model, values_pb2.Instance(inputs=inputs)))
    assert not isinstance(found, Refusal) or found.code not in BLAMELESS, found
