"""Messages framed by hand are those that protobuf would have written."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as drawn
from numpy.typing import NDArray

from limelight.v1 import attention_pb2, model_pb2, service_pb2, values_pb2
from limelight_bundle.errors import TooLargeError
from limelight_bundle.maps import MapWeights
from limelight_bundle.wire import DTYPES, to_tensor
from limelight_service.attention.options import Encoding, HeadReduction, Options, Pooling, PoolReduction, Selection
from limelight_service.attention.plan import plan_attention
from limelight_service.codecs.answers import LabelEncoder
from limelight_service.codecs.framing import Frame
from limelight_service.codecs.v1.instances import MessageInstances
from limelight_service.codecs.v1.maps import frame_map
from limelight_service.codecs.v1.responses import ATTEND, PREDICT, label_set
from limelight_service.engine.attention.apply import apply
from limelight_service.engine.reduction import map_result
from limelight_service.frontend.call import Call, Ending
from limelight_service.frontend.calls import AnswerEncoder, CallRequest, Inference
from limelight_service.frontend.core import Core
from limelight_service.frontend.models import Model
from limelight_service.frontend.options import CallOptions
from limelight_service.hosting.hosted import HostedModel
from limelight_service.ipc.boundary import GenerationSettings, Strategy
from tests.kit.serving import text
from tests.service.attention.descriptions import keyed, labels_of, map_of
from tests.service.codecs.messages import attend_message, map_message, predict_message
from tests.service.cores import core_over

ENCODINGS = st.sampled_from(list(Encoding))
SENTENCES = st.lists(st.sampled_from(["a", "the cat sat", "the dog ran far on a mat ."]), min_size=1, max_size=3)


def slices_of(array: NDArray[Any]) -> st.SearchStrategy[NDArray[Any]]:
    """Parts of an array that share its memory: steps, turned axes."""
    places = st.tuples(*(st.slices(size) for size in array.shape))
    return st.tuples(places, st.permutations(range(array.ndim))).map(lambda each: array[each[0]].transpose(each[1]))


ARRAYS = (
    st.sampled_from(list(DTYPES.values()))
    .flatmap(lambda dtype: drawn.arrays(dtype, drawn.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)))
    .flatmap(slices_of)
)


@given(st.lists(ARRAYS, max_size=6))
def test_arrays_are_framed_as_protobuf_writes_them(arrays: list[NDArray[Any]]) -> None:
    graph, outer = Frame(values_pb2.Graph(node_names=["n"]).SerializeToString()), Frame()
    value = values_pb2.Value(graph=values_pb2.Graph(node_names=["n"]))
    for array, (name, number) in zip(arrays, [("nodes", 1), ("edges", 2), ("edge_features", 3)], strict=False):
        graph.put_tensor(number, array)
        getattr(value.graph, name).CopyFrom(to_tensor(array))
    outer.put(values_pb2.Value.GRAPH_FIELD_NUMBER, graph)
    assert values_pb2.Value.FromString(outer.joined()) == value
    assert len(outer.joined()) == outer.size


@pytest.mark.parametrize("size", [0, 1, 127, 128, 16_383, 16_384, 2_097_152])
def test_lengths_of_every_number_of_bytes_are_framed(size: int) -> None:
    array = np.arange(size).astype(np.uint8)
    frame = Frame()
    frame.put_tensor(service_pb2.Embedding.VECTOR_FIELD_NUMBER, array)
    assert frame.joined() == service_pb2.Embedding(vector=to_tensor(array)).SerializeToString()


def test_elements_are_sent_little_endian() -> None:
    frame = Frame()
    frame.put_tensor(service_pb2.Embedding.VECTOR_FIELD_NUMBER, np.array([1, 2], ">f4"))
    vector = service_pb2.Embedding.FromString(frame.joined()).vector
    assert (vector.data_type, vector.data) == (values_pb2.DATA_TYPE_FLOAT32, np.array([1, 2], "<f4").tobytes())


def test_what_is_framed_is_copied_when_it_is_joined_and_not_before() -> None:
    array, frame = np.zeros((4, 4), np.float32), Frame()
    frame.put_tensor(service_pb2.Embedding.VECTOR_FIELD_NUMBER, array[:, :3])
    array += 1
    data = frame.joined()
    array += 1
    assert service_pb2.Embedding.FromString(data).vector == to_tensor(np.ones((4, 3), np.float32))


@st.composite
def described_maps(draw: st.DrawFn) -> tuple[model_pb2.MapDescription, MapWeights, dict[str, int]]:
    """A map of any form, and the sizes of its axes."""
    heads, queries, keys, features = (draw(st.integers(low, 4)) for low in (1, 1, 1, 0))
    form = draw(st.sampled_from([model_pb2.MAP_FORM_DENSE, model_pb2.MAP_FORM_EDGES]))
    described = map_of(
        draw(st.sampled_from(["encoder.2.self", "pool"])),
        heads=heads,
        query_labels="queries",
        key_labels="keys",
        form=form,
        features=features,
        head_labels=draw(st.sampled_from(["", "heads"])),
        normalised=draw(st.booleans()),
    )
    random = np.random.default_rng(draw(st.integers(0, 99)))
    weights = random.random((heads, queries + 1, keys + 1, *([features] if features else [])), np.float32)
    weights = weights[:, :queries, :keys]  # as a batch with padding brings it
    sizes = {"queries": queries, "keys": keys}
    if form == model_pb2.MAP_FORM_DENSE:
        return described, MapWeights(weights), sizes
    query, key = np.nonzero(random.random((queries, keys)) < 0.7)
    return described, MapWeights(weights[:, query, key], query.astype(np.int32), key.astype(np.int32)), sizes


@given(
    described_maps(),
    ENCODINGS,
    st.sampled_from(list(HeadReduction)),
    st.sampled_from([(), (Selection(queries=(0,)),), (Selection(heads=(0,), keys=(-1,)),)]),
    st.sampled_from([0, 1, 2]),
    st.sampled_from([None, Pooling(2), Pooling(1, PoolReduction.MEAN)]),
)
def test_a_map_of_any_form_is_framed_as_protobuf_writes_it(
    one: tuple[model_pb2.MapDescription, MapWeights, dict[str, int]],
    encoding: Encoding,
    heads: HeadReduction,
    selections: tuple[Selection, ...],
    top_k: int,
    pool: Pooling | None,
) -> None:
    described, weights, sizes = one
    options = Options(
        encoding=encoding,
        reduce_heads=heads,
        selections=selections,
        top_k=0 if described.features else top_k,
        pool=None if selections else pool,
    )
    plan = plan_attention([described], options)
    (finished,) = apply(plan, keyed({described.name: weights}), labels_of(sizes)).maps
    result = map_result(finished)
    frame = frame_map(result, described, options.quantity)
    assert attention_pb2.AttentionMap.FromString(frame.joined()) == map_message(result, described, options.quantity)
    assert len(frame.joined()) == frame.size


async def inferred(
    core: Core, name: str, sentences: list[str], attention: Options | None, *, all_outputs: bool, beams: bool
) -> Inference:
    """Answer sentences, all in one batch."""
    strategy = Strategy.BEAM if beams else Strategy.GREEDY
    generation = GenerationSettings(strategy, max_new_tokens=4, beams=2, hypotheses=2 if beams else 1)
    request = CallRequest(
        model=name,
        version=1,
        instances=MessageInstances([text(each) for each in sentences]),
        encode_labels=LabelEncoder(label_set),
        options=CallOptions(
            outputs=core.describe(name, 1, call()).model.schema.outputs if all_outputs else (),  # type: ignore[union-attr]
            attention=attention,
            generation=(lambda _: generation) if name == "echo" else None,
        ),
    )
    found: list[Inference] = []
    await core.answer(request, AnswerEncoder(lambda inference: found.append(inference) or b""), call())
    return found[0]


def encoded(encoder: AnswerEncoder, inference: Inference) -> bytes:
    """An answer in a protocol."""
    parts = [encoder.part(inference.checked, each) for each in inference.parts]
    return encoder.whole(replace(inference, parts=parts))


def call() -> Call:
    return Call("id", None, Ending())


def without_times(response: Any, predictions: list[service_pb2.Prediction]) -> Any:
    """A response as it is whenever it is built; building takes time, which is checked here."""
    for each in predictions:
        assert each.provenance.encode_nanoseconds > 0
        each.provenance.encode_nanoseconds = 0
    return response


@pytest.fixture(scope="module")
def core(hosted: dict[str, HostedModel], models: dict[str, Model]) -> Iterator[Core]:
    """A core over an engine that computes at once."""
    made = core_over(hosted, models)
    yield made
    made.close()


@pytest.mark.parametrize("name", ["tiny", "paper", "echo"])
@settings(max_examples=25)
@given(SENTENCES, ENCODINGS, st.booleans(), st.booleans())
def test_an_answer_is_framed_as_protobuf_writes_it(
    core: Core, name: str, sentences: list[str], encoding: Encoding, all_outputs: bool, beams: bool
) -> None:
    beams = beams and name == "echo"
    sequences = 1 + beams
    for attention in (
        None,
        Options(encoding=encoding, sequences=sequences),
        Options(encoding=encoding, pool=Pooling(2), sequences=sequences),
    ):
        asked = inferred(core, name, sentences, attention, all_outputs=all_outputs, beams=beams)
        inference = asyncio.run(asked)
        if attention is None:
            predicted = service_pb2.PredictResponse.FromString(encoded(PREDICT, inference))
            assert without_times(predicted, list(predicted.predictions)) == predict_message(inference)
        else:
            attended = service_pb2.AttendResponse.FromString(encoded(ATTEND, inference))
            assert all(each.maps and len(each.other_sequences) == beams for each in attended.results)
            whole = attend_message(inference)
            assert without_times(attended, [each.prediction for each in attended.results]) == whole


def test_an_answer_that_is_larger_than_allowed_is_refused(core: Core) -> None:
    asked = inferred(core, "tiny", ["the cat", "a dog"], Options(), all_outputs=False, beams=False)
    inference = asyncio.run(asked)
    size = len(encoded(ATTEND, inference))
    # Of one instance already, and of both together. Times in it are numbers of varying length.
    for limit in (size // 4, size - 16):
        wanted = replace(inference.checked.wanted, limit=limit)
        small = replace(inference, checked=replace(inference.checked, wanted=wanted))
        with pytest.raises(TooLargeError, match=f"at most {limit}") as raised:
            encoded(ATTEND, small)
        assert raised.value.field == "instances"
