"""Both clients against a server on a real socket. Each test of a call runs on the synchronous and asynchronous one."""

import asyncio
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import numpy as np
import pytest

import limelight
from limelight import calls
from limelight.v1 import attention_pb2, service_pb2, values_pb2
from tests.client.server import FRESH_SEED, Server

Ask = Callable[..., Any]


@pytest.fixture(params=["sync", "async"])
def ask(request: pytest.FixtureRequest, server: Server) -> Ask:
    """Calls `method(*arguments)` of a new client; settings of the client go into `client`."""

    def ask(method: str, *arguments: Any, client: dict[str, Any] | None = None, **options: Any) -> Any:
        settings = {"target": server.target, "timeout": 20, **(client or {})}
        if request.param == "sync":
            with limelight.Client(**settings) as sync:
                answer = getattr(sync, method)(*arguments, **options)
                return list(answer) if method == "generate" else answer

        async def run() -> Any:
            async with limelight.AsyncClient(**settings) as client:
                answer = getattr(client, method)(*arguments, **options)
                return [event async for event in answer] if method == "generate" else await answer

        return asyncio.run(run())

    return ask


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def wait_for(condition: Callable[[], bool], seconds: float = 5) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def test_a_prediction_has_its_classes_outputs_and_provenance(ask: Ask):
    answer = ask("predict", "scribe", {"text": "hello"})
    assert (answer.label, answer.probability, answer.text) == ("long", 0.75, None)
    assert [(each.label, each.index) for each in answer.classes] == [("long", 1), ("short", 0)]
    np.testing.assert_allclose(answer.outputs["logits"], [0, np.log(3)], rtol=1e-6)
    assert (answer.provenance.model, answer.provenance.version) == ("scribe", 1)
    assert answer.provenance.compute_seconds == 0.0015
    assert answer.embedding is None
    assert answer.seed is None
    assert not answer.truncated


def test_a_list_of_instances_gives_a_list_in_the_same_order(ask: Ask):
    texts = ["a", "bb cc", "ddd"]
    answers = ask("attend", "scribe", [{"text": text} for text in texts])
    assert [each["encoder.0.self"].key.labels[1:-1] for each in answers] == [("a",), ("bb", "cc"), ("ddd",)]
    assert len(ask("predict", "scribe", [{"text": "one"}])) == 1


def test_attention_comes_with_its_labels(ask: Ask):
    answer = ask("attend", "scribe", {"text": "big cat"})
    assert list(answer) == ["encoder.0.self", "encoder.1.self"]
    each = answer["encoder.0.self"]
    assert each.weights.shape == (2, 4, 4)
    # Head 1 of layer 0 weighs words by their length, special tokens by 1: 1 + 3 + 3 + 1.
    np.testing.assert_allclose(each.head(1)[0], [1 / 8, 3 / 8, 3 / 8, 1 / 8], rtol=1e-6)
    with pytest.raises(KeyError, match=r"decoder.*encoder\.0\.self"):
        answer["decoder"]


@pytest.mark.parametrize(
    "document", ["It rains. We stay", ["It rains", "We stay"], limelight.Document("It rains. We stay")]
)
def test_a_document_has_words_inside_sentences(ask: Ask, document: Any):
    answer = ask("attend", "han", {"document": document})
    word, sentence = answer.maps
    assert sentence.key.labels == word.query.labels == ("It rains", "We stay")
    assert word.key.labels == ("It", "rains", "We", "stay")
    np.testing.assert_allclose(word.dense(), [[[2 / 7, 5 / 7, 0, 0], [0, 0, 2 / 6, 4 / 6]]], rtol=1e-6)
    np.testing.assert_allclose(sentence.weights, [[[0.5, 0.5]]])


def test_what_is_asked_for_goes_onto_the_wire(ask: Ask, server: Server):
    ask(
        "attend",
        "scribe",
        {"text": "x"},
        version=1,
        truncate=True,
        outputs="logits",
        seed=0,
        max_classes=1,
        quantity="norms",
        key_groups={"head": slice(0, 2), "text": "text"},
        query_groups=limelight.Grouping(groups={"all": slice(None)}, label_set="tokens", reduction="sum"),
        sequences=2,
        maps=["encoder.*"],
        layers=-1,
        heads=[0, 1],
        reduce="max",
        top_k=3,
        encoding="uint8",
        max_response_bytes=1000,
        generation=limelight.Generation(strategy="beam", beams=2, length_penalty=0.0, temperature=0.0),
    )
    request = server.servicer.requests[-1]
    assert (request.model.name, request.model.version, request.truncate, list(request.outputs)) == (
        "scribe",
        1,
        True,
        ["logits"],
    )
    assert request.instances[0].HasField("seed")
    assert request.max_classes == 1
    assert request.generation == service_pb2.GenerationOptions(
        strategy="STRATEGY_BEAM", beams=2, length_penalty=0.0, temperature=0.0
    )
    assert request.attention == attention_pb2.AttentionOptions(
        selections=[attention_pb2.MapSelection(names=["encoder.*"], layers=[-1], heads=[0, 1])],
        quantity="QUANTITY_NORMS",
        reduce_heads="HEAD_REDUCTION_MAX",
        key_groups=[
            attention_pb2.Grouping(
                groups=[
                    attention_pb2.Group(name="head", ranges=[attention_pb2.IndexRange(start=0, end=2)]),
                    attention_pb2.Group(name="text", inputs=["text"]),
                ]
            )
        ],
        query_groups=[
            attention_pb2.Grouping(
                label_set="tokens",
                groups=[attention_pb2.Group(name="all", ranges=[attention_pb2.IndexRange()])],
                reduction="GROUP_REDUCTION_SUM",
            )
        ],
        sequences=2,
        top_k=3,
        encoding="ENCODING_UINT8",
        max_response_bytes=1000,
    )


def test_what_is_not_asked_for_does_not(ask: Ask, server: Server):
    ask("attend", "scribe", {"text": "x"})
    request = server.servicer.requests[-1]
    assert not request.instances[0].HasField("seed")
    assert not request.HasField("generation")
    assert not request.attention.selections
    assert not request.attention.HasField("pool")
    assert not request.attention.key_groups
    ask("generate", "echo", {"text": "x"})
    sent = server.servicer.requests[-1].generation
    assert not any(sent.HasField(name) for name in ("temperature", "top_p", "length_penalty"))


def test_a_seed_is_the_instances_own(ask: Ask, server: Server):
    own = values_pb2.Instance(seed=3)
    own.inputs["text"].text = "x"
    instances = [{"text": "x"}, own]

    def sent() -> list[int | None]:
        sent = server.servicer.requests[-1].instances
        return [each.seed if each.HasField("seed") else None for each in sent]

    for seed, expected in ((None, [None, 3]), (7, [7, 7]), ([0, None], [0, 3]), ([None, 2**64 - 1], [None, 2**64 - 1])):
        ask("predict", "scribe", instances, seed=seed)
        assert sent() == expected
        ask("attend", "scribe", instances, seed=seed)
        assert sent() == expected
    assert own.seed == 3, "the caller's own message is not changed"
    with pytest.raises(ValueError, match="1 seeds for 2 instances"):
        ask("predict", "scribe", instances, seed=[1])
    for seed in (-1, 2**64):
        with pytest.raises(ValueError, match=rf"a seed is from 0 to 2\*\*64 - 1, not {seed}"):
            ask("predict", "scribe", instances, seed=seed)


def test_the_seed_of_a_sample_is_told_so_that_it_can_be_repeated(ask: Ask):
    sampling = limelight.Generation(strategy="sample")
    fresh = ask("predict", "echo", {"text": "a"}, generation=sampling).seed
    assert fresh == FRESH_SEED
    assert ask("attend", "echo", {"text": "a"}, generation=sampling, seed=fresh).prediction.seed == fresh
    assert ask("generate", "echo", {"text": "a"}, strategy="sample", seed=5)[0].seed == 5
    assert ask("generate", "echo", {"text": "a"}, strategy="sample")[0].seed == FRESH_SEED
    assert ask("generate", "echo", {"text": "a"})[0].seed is None


def test_classes_can_be_the_best_few(ask: Ask):
    assert [each.label for each in ask("predict", "scribe", {"text": "x"}, max_classes=1).classes] == ["long"]
    assert len(ask("attend", "scribe", {"text": "x"}, max_classes=1).prediction.classes) == 1


def test_top_k_says_how_much_it_left_out(ask: Ask):
    answer = ask("attend", "scribe", {"text": "big cat"}, top_k=1, heads=[0])
    # Head 0 of layer 0 attends evenly to four tokens.
    each = answer["encoder.0.self"]
    assert each.heads == (0,)
    assert each.axes == ("head", "query", "place") and each.key_index is not None
    assert each.key_index.tolist() == [[[0]] * 4]
    np.testing.assert_allclose(each.left_out, [[0.75] * 4], rtol=1e-6)
    np.testing.assert_allclose(each.dense().sum(axis=2) + each.left_out, np.ones((1, 4)), rtol=1e-6)
    both = ask("attend", "scribe", {"text": "big cat"}, top_k=1, heads=[-1, 0])["encoder.0.self"]
    assert both.heads == (0, 1) and both.key_index.tolist() == [[[0]] * 4, [[1]] * 4]  # head 1 most to "big"


def test_the_maps_of_other_sequences_have_their_own_steps_and_share_the_rest(ask: Ask):
    beam = limelight.Generation(strategy="beam", hypotheses=2)
    answer = ask("attend", "echo", {"text": "a b"}, sequences=2, generation=beam)
    (other,) = answer.other_sequences
    assert (other.sequence, answer.prediction.sequences[1].text) == (1, "a")
    assert answer["decoder.cross"].query.labels == ("A", "B", "</s>")
    assert other["decoder.cross"].query.labels == ("a", "</s>")
    assert other["decoder.cross"].key is answer["decoder.cross"].key
    assert list(other) == ["decoder.cross"] and len(other) == 1
    with pytest.raises(KeyError, match=r"it has decoder\.cross"):
        other["word"]
    assert ask("attend", "echo", {"text": "a b"}, generation=beam).other_sequences == ()


def test_an_image_says_where_its_cells_are(ask: Ask):
    pixels = np.zeros((40, 80), np.uint8)
    patches = ask("attend", "vit", {"image": limelight.Image(pixels)}).label_sets["patches"]
    assert patches.region(1) == limelight.Region(20, 0, 30, 10)


def test_selections_are_a_union_and_exclude_the_fields_of_one(ask: Ask, server: Server):
    selections = [limelight.Selection(maps="encoder.0.*"), limelight.Selection(layers=1, queries=[0, -1])]
    ask("attend", "scribe", {"text": "x"}, selections=selections)
    sent = server.servicer.requests[-1].attention.selections
    assert [list(each.names) for each in sent] == [["encoder.0.*"], []]
    assert list(sent[1].queries) == [0, -1]
    with pytest.raises(ValueError, match="either"):
        ask("attend", "scribe", {"text": "x"}, selections=selections, maps="word")


def test_unknown_options_are_refused_before_anything_is_sent(ask: Ask, server: Server):
    with pytest.raises(ValueError, match="'float32', 'float16', 'uint8', not 'bfloat16'"):
        ask("attend", "scribe", {"text": "x"}, encoding="bfloat16")
    with pytest.raises(TypeError, match="colour"):
        ask("attend", "scribe", {"text": "x"}, colour="red")
    with pytest.raises(ValueError, match="timeout"):
        ask("predict", "scribe", {"text": "x"}, timeout=0)
    assert not server.servicer.requests


def test_models_are_listed_and_described(ask: Ask):
    broken, *ready = ask("models")
    assert (broken.state, broken.default) == ("failed", False)
    assert "bundle.json" in broken.reason
    assert [each.name for each in ready] == ["echo", "han", "nli", "scribe", "vit", "vqa", "weather"]
    model = ask("model", "scribe")
    assert (model.task, model.classes, model.status.state) == ("classification", ("short", "long"), "ready")
    assert [(each.name, each.kind, each.optional) for each in model.inputs] == [("text", "text", False)]
    assert (model.metrics[0].value, model.metrics[0].baseline) == (0.875, 0.5)
    assert (model.maps[0].quantities, model.maps[0].interventions) == (("scores", "norms"), ("head_scales",))
    assert [(each.name, each.kind, each.classes) for each in model.results] == [("class", "classes", ("short", "long"))]
    assert (model.target_input, model.max_new_tokens) == ("", 0)
    echo = ask("model", "echo")
    assert (echo.target_input, echo.max_new_tokens, echo.results[0].label_set) == ("target", 32, "output")
    targets = ask("model", "weather").results[0].targets
    assert [(each.name, each.unit) for each in targets] == [("temperature", "°C")]
    assert model.taxonomy["scoring"] == ("scaled multiplicative",)
    # A model's own example can be sent as it is.
    assert ask("predict", "scribe", model.examples[0]).label == "long"


def test_a_stream_begins_has_tokens_and_ends(ask: Ask):
    start, *tokens, end = ask("generate", "echo", {"text": "hello big world"}, attention=limelight.Attention())
    assert list(start.label_sets) == ["source"]
    assert [(each.index, each.text) for each in tokens] == [(0, "HELLO"), (1, "BIG"), (2, "WORLD"), (3, "</s>")]
    row = tokens[1].maps[0]
    assert (row.query.labels, row.query.indices, row.key.labels) == (("BIG",), (1,), ("hello", "big", "world"))
    np.testing.assert_allclose(row.weights, [[[0.2, 0.6, 0.2]]], rtol=1e-6)
    assert (end.text, end.sequences[0].finish_reason) == ("HELLO BIG WORLD", "end")
    assert end.output_steps.labels == ("HELLO", "BIG", "WORLD", "</s>")


def test_beam_search_has_whole_sequences_and_no_tokens(ask: Ask, server: Server):
    start, end = ask("generate", "echo", {"text": "a b"}, strategy="beam", hypotheses=2, stop="!")
    assert isinstance(start, limelight.GenerationStart)
    assert [each.text for each in end.sequences] == ["A B", "a"]
    assert end.maps[0].query.labels == ("A", "B", "</s>")
    assert list(server.servicer.requests[-1].generation.stop) == ["!"]


def test_a_generating_model_attends_to_the_end(ask: Ask):
    answer = ask("attend", "echo", {"text": "a b", "target": "x y"})
    assert answer.prediction.text == "x y"
    assert answer.maps[0].query.labels == ("x", "y", "</s>")


def test_an_unknown_model_is_not_found(ask: Ask):
    with pytest.raises(limelight.NotFound, match="no model 'nope'; there are echo, han") as caught:
        ask("predict", "nope", {"text": "x"})
    assert caught.value.code is grpc.StatusCode.NOT_FOUND


def test_a_wrong_field_is_named(ask: Ask):
    with pytest.raises(limelight.InvalidArgument) as caught:
        ask("attend", "scribe", {"text": "x"}, maps="nothing")
    assert caught.value.field == "attention.selections[0].names[0]"
    assert "nothing" in caught.value.violations[0].description


def test_a_full_server_says_when_to_come_back(ask: Ask, server: Server):
    with pytest.raises(limelight.ResourceExhausted) as caught:
        ask("predict", "full", {"text": "x"})
    assert caught.value.retry_after == 1.5
    assert len(server.servicer.requests) == 1, "a full server is not asked again unbidden"


def test_a_model_that_does_not_generate_fails_the_precondition(ask: Ask):
    with pytest.raises(limelight.FailedPrecondition, match="does not generate"):
        ask("generate", "scribe", {"text": "x"})


def test_a_fault_of_the_server_is_an_error_and_the_next_call_is_answered(ask: Ask):
    with pytest.raises(limelight.Error):
        ask("predict", "crash", {"text": "x"})
    assert ask("predict", "scribe", {"text": "x"}).label == "long"


def test_unavailable_is_tried_again(ask: Ask, server: Server):
    server.servicer.unavailable = 2
    assert ask("predict", "scribe", {"text": "x"}).label == "long"
    assert len(server.servicer.requests) == 3


def test_one_attempt_is_one_attempt(ask: Ask, server: Server):
    server.servicer.unavailable = 1
    with pytest.raises(limelight.Unavailable, match="starting"):
        ask("predict", "scribe", {"text": "x"}, client={"attempts": 1})
    assert len(server.servicer.requests) == 1


def test_no_server_is_unavailable_after_the_attempts(ask: Ask):
    begin = time.monotonic()
    with pytest.raises(limelight.Unavailable):
        ask("models", client={"target": f"127.0.0.1:{free_port()}"})
    assert time.monotonic() - begin < 10


def test_a_server_that_starts_during_a_call_answers_it(ask: Ask):
    port = free_port()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ask, "models", client={"target": f"127.0.0.1:{port}", "attempts": 5})
        time.sleep(0.4)
        assert not answer.done(), "the first attempts failed, and the call goes on"
        with Server(port):
            assert answer.result()[1].name == "echo"


def test_the_deadline_of_the_call_wins_over_that_of_the_client(ask: Ask):
    begin = time.monotonic()
    with pytest.raises(limelight.DeadlineExceeded):
        ask("predict", "sleepy", {"text": "x"}, timeout=0.1)
    with pytest.raises(limelight.DeadlineExceeded):
        ask("predict", "sleepy", {"text": "x"}, client={"timeout": 0.1})
    assert time.monotonic() - begin < 25, "two calls that would take half a minute each were cut short"


def test_answers_over_four_mebibytes_arrive(ask: Ask):
    answer = ask("attend", "scribe", {"text": "word " * 598})
    assert answer["encoder.1.self"].weights.shape == (2, 600, 600)
    assert sum(each.weights.nbytes for each in answer.maps) > 4 * 2**20


def test_an_answer_over_the_clients_own_limit_says_what_to_do(ask: Ask):
    with pytest.raises(limelight.ResourceExhausted, match="max_response_bytes"):
        ask("attend", "scribe", {"text": "word " * 598}, client={"max_response_bytes": 1000})


def test_metadata_goes_with_every_call(ask: Ask, server: Server):
    ask("predict", "scribe", {"text": "x"}, client={"metadata": [("x-team", "limes")]})
    assert server.servicer.metadata["x-team"] == "limes"


def test_closing_a_stream_cancels_the_call(server: Server):
    before = server.servicer.cancelled
    with limelight.Client(server.target) as client:
        events = client.generate("echo", {"text": "slow " * 50})
        next(events)
        next(events)
        events.close()  # type: ignore[attr-defined]
        assert wait_for(lambda: server.servicer.cancelled == before + 1)


def test_closing_an_asynchronous_stream_cancels_the_call(server: Server):
    before = server.servicer.cancelled

    async def run() -> None:
        async with limelight.AsyncClient(server.target) as client:
            events = client.generate("echo", {"text": "slow " * 50})
            await anext(events)
            await events.aclose()  # type: ignore[attr-defined]
            assert await asyncio.to_thread(wait_for, lambda: server.servicer.cancelled == before + 1)

    asyncio.run(run())


def test_one_asynchronous_client_makes_calls_at_the_same_time(server: Server):
    async def run() -> list[Any]:
        async with limelight.AsyncClient(server.target) as client:
            return await asyncio.gather(*(client.predict("scribe", {"text": "x"}) for _ in range(20)))

    assert [each.label for each in asyncio.run(run())] == ["long"] * 20


def test_an_answer_that_makes_no_sense_is_an_internal_error():
    call = calls.predict("scribe", {"text": "x"})
    with pytest.raises(limelight.Internal, match="0 answers for 1 instances"):
        calls.read(call, service_pb2.PredictResponse())


@pytest.mark.parametrize("settings", [{"attempts": 0}, {"attempts": 6}, {"timeout": -1}, {"max_response_bytes": 0}])
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any]):
    for kind in (limelight.Client, limelight.AsyncClient):
        with pytest.raises(ValueError):
            kind("127.0.0.1:1", **settings)


def test_every_name_that_is_offered_is_there():
    for name in limelight.__all__:
        assert getattr(limelight, name).__name__ == name
    assert limelight.__version__[0].isdigit()
    with pytest.raises(AttributeError, match="Clint"):
        limelight.Clint  # noqa: B018
