"""Both clients against a server on a real socket. Each test of a call runs on the synchronous and asynchronous one."""

import asyncio
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
from tests.client import served
from tests.client.served import SENTENCES, TEXT
from tests.kit import bundles
from tests.kit.forwarder import Forwarder
from tests.kit.serving import eventually, free_port

Ask = Callable[..., Any]


@pytest.fixture(params=["sync", "async"])
def ask(request: pytest.FixtureRequest, server: Forwarder) -> Ask:
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


LABEL = served.label(served.tiny("a"))  # of the text "a"


def test_a_prediction_has_its_classes_outputs_and_provenance(ask: Ask, server: Forwarder):
    answer, logits = ask("predict", "tiny", {"text": TEXT}), served.tiny().outputs["logits"]
    ranked = served.ranked(logits)
    assert (answer.label, answer.probability, answer.text) == (ranked[0][0], pytest.approx(ranked[0][1]), None)
    assert [each.label for each in answer.classes] == [label for label, _ in ranked]
    assert all(bundles.LABELS[each.index] == each.label for each in answer.classes)
    np.testing.assert_allclose(answer.outputs["logits"], logits, rtol=1e-4)
    assert (answer.provenance.model, answer.provenance.version) == ("tiny", 1)
    sent = server.answers[-1].predictions[0].provenance
    assert 0 < answer.provenance.compute_seconds == pytest.approx(sent.compute_nanoseconds / 1e9)
    assert answer.embedding is None
    assert answer.seed is None
    assert not answer.truncated


def test_a_list_of_instances_gives_a_list_in_the_same_order(ask: Ask):
    texts = ["a", "the cat", "dog"]
    answers = ask("attend", "tiny", [{"text": text} for text in texts])
    assert [each["encoder.0.self"].key.labels for each in answers] == [("a",), ("the", "cat"), ("dog",)]
    assert len(ask("predict", "tiny", [{"text": "one"}])) == 1


def test_attention_comes_with_its_labels(ask: Ask):
    answer, expected = ask("attend", "tiny", {"text": TEXT}), served.tiny().maps
    assert list(answer) == ["encoder.0.self", "encoder.1.self", "pool"]
    for name, each in answer.items():
        np.testing.assert_allclose(each.weights, expected[name].weights, atol=1e-6)
        assert each.key.labels == ("the", "cat", "sat")
    np.testing.assert_array_equal(answer["encoder.1.self"].head(1), answer["encoder.1.self"].weights[1])
    with pytest.raises(KeyError, match=r"decoder.*encoder\.0\.self"):
        answer["decoder"]


def test_texts_have_their_tokens_without_the_model(ask: Ask, server: Forwarder):
    one = ask("tokenize", "tiny", TEXT)
    assert (one.tokens.labels, one.tokens.offsets) == (("the", "cat", "sat"), ((0, 3), (4, 7), (8, 11)))
    assert (one.tokens.ids.tolist(), len(one), one.truncated) == (bundles.ids_of(TEXT).tolist(), 3, False)
    several = ask("tokenize", "tiny", [{"text": "a"}, {"text": "cat " * 1100}], truncate=True, version=1)
    assert [(len(each), each.truncated) for each in several] == [(1, False), (1024, True)]
    assert (server.requests[-1].truncate, server.requests[-1].model.version) == (True, 1)
    assert ask("tokenize", "asked", "is it a cat").tokens.labels == ("is", "it", "a", "cat"), "the image is left out"
    assert list(ask("tokenize", "paper", served.DOCUMENT).label_sets) == ["words", "sentences"]
    first, second = (["the", "cat"], ["a", "dog"])
    both = ask("tokenize", "pair", limelight.Pair(" ".join(first), " ".join(second))).tokens
    assert (list(both.labels), both.origins) == ([*first, *second], ("pair.first",) * 2 + ("pair.second",) * 2)
    with pytest.raises(limelight.FailedPrecondition, match="reads no text"):
        ask("tokenize", "glance", {"image": served.PICTURE})
    with pytest.raises(TypeError, match=r"tokenize\(\) has no option 'seed'"):
        ask("tokenize", "tiny", TEXT, seed=1)


def test_a_target_is_gone_on_from_with_the_most_probable_tokens(ask: Ask):
    options = {"continue_target": True, "max_new_tokens": 2, "top_logprobs": 3}
    asked = {"text": TEXT, "target": "a dog"}
    (sequence,) = ask("predict", "echo", asked, generation=limelight.Generation(**options)).sequences
    assert (sequence.forced_tokens, sequence.text[:5]) == (2, "a dog") and 2 < len(sequence.token_ids) <= 5
    assert sequence.top.log_probabilities.shape == (len(sequence.token_ids), 3)
    *events, end = ask("generate", "echo", asked, **options)
    assert end.sequences == (sequence,)
    assert [each.forced for each in events[1:]] == [True, True, *[False] * (len(sequence.token_ids) - 2)]
    for place, each in enumerate(events[1:]):
        assert each.top.texts[0] == sequence.top.texts[place]
        assert each.top.texts[0][0] == bundles.WORDS[each.top.token_ids[0, 0]]
    assert ask("predict", "echo", {"text": TEXT}).sequences[0].top is None


@pytest.mark.parametrize(
    "document", [served.DOCUMENT, list(SENTENCES), limelight.Document(served.DOCUMENT), limelight.Document(SENTENCES)]
)
def test_a_document_has_words_inside_sentences(ask: Ask, document: Any):
    answer, expected = ask("attend", "paper", {"text": document}), served.paper().maps
    word, sentence = answer.maps
    assert sentence.key.labels == word.query.labels == SENTENCES
    assert word.key.labels == tuple(served.DOCUMENT.split())
    shares = expected["word"].weights[0]
    np.testing.assert_allclose(word.dense(), [[[*shares[:4], *[0] * 4], [*[0] * 4, *shares[4:]]]], rtol=1e-5)
    np.testing.assert_allclose(sentence.weights, expected["sentence"].weights, rtol=1e-5)


def test_what_is_asked_for_goes_onto_the_wire(ask: Ask, server: Forwarder):
    with pytest.raises(limelight.Error):  # options that exclude each other
        ask(
            "attend",
            "tiny",
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
    request = server.requests[-1]
    assert (request.model.name, request.model.version, request.truncate, list(request.outputs)) == (
        "tiny",
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
                    values_pb2.Group(name="head", ranges=[values_pb2.IndexRange(start=0, end=2)]),
                    values_pb2.Group(name="text", inputs=["text"]),
                ]
            )
        ],
        query_groups=[
            attention_pb2.Grouping(
                label_set="tokens",
                groups=[values_pb2.Group(name="all", ranges=[values_pb2.IndexRange()])],
                reduction="GROUP_REDUCTION_SUM",
            )
        ],
        sequences=2,
        top_k=3,
        encoding="ENCODING_UINT8",
        max_response_bytes=1000,
    )


def test_what_is_not_asked_for_does_not(ask: Ask, server: Forwarder):
    ask("attend", "tiny", {"text": "x"})
    request = server.requests[-1]
    assert not request.instances[0].HasField("seed")
    assert not request.HasField("generation")
    assert not request.attention.selections
    assert not request.attention.HasField("pool")
    assert not request.attention.key_groups
    ask("generate", "echo", {"text": "x"})
    sent = server.requests[-1].generation
    assert not any(sent.HasField(name) for name in ("temperature", "top_p", "length_penalty"))


def test_a_seed_is_the_instances_own(ask: Ask, server: Forwarder):
    own = values_pb2.Instance(seed=3)
    own.inputs["text"].text = "x"
    instances = [{"text": "x"}, own]

    def sent() -> list[int | None]:
        sent = server.requests[-1].instances
        return [each.seed if each.HasField("seed") else None for each in sent]

    for seed, expected in ((None, [None, 3]), (7, [7, 7]), ([0, None], [0, 3]), ([None, 2**64 - 1], [None, 2**64 - 1])):
        ask("predict", "tiny", instances, seed=seed)
        assert sent() == expected
        ask("attend", "tiny", instances, seed=seed)
        assert sent() == expected
    assert own.seed == 3, "the caller's own message is not changed"
    with pytest.raises(ValueError, match="1 seed for 2 instances"):
        ask("predict", "tiny", instances, seed=[1])
    for seed in (-1, 2**64):
        with pytest.raises(ValueError, match=rf"a seed is from 0 to 2\*\*64 - 1, not {seed}"):
            ask("predict", "tiny", instances, seed=seed)


def test_the_seed_of_a_sample_is_told_so_that_it_can_be_repeated(ask: Ask, server: Forwarder):
    sampling = limelight.Generation(strategy="sample", temperature=3.0)
    drawn = ask("predict", "echo", {"text": "a"}, generation=sampling)
    assert drawn.seed == server.answers[-1].predictions[0].seed
    again = ask("attend", "echo", {"text": "a"}, generation=sampling, seed=drawn.seed).prediction
    assert (again.seed, again.text) == (drawn.seed, drawn.text)
    for seed in (5, 2**64 - 1):
        assert ask("generate", "echo", {"text": "a"}, strategy="sample", seed=seed)[0].seed == seed
    fresh = ask("generate", "echo", {"text": "a"}, strategy="sample")[0].seed
    assert fresh == next(each.start.seed for each in reversed(server.answers) if each.HasField("start"))
    assert ask("generate", "echo", {"text": "a"})[0].seed is None


def test_classes_can_be_the_best_few(ask: Ask):
    assert [each.label for each in ask("predict", "tiny", {"text": "a"}, max_classes=1).classes] == [LABEL]
    assert len(ask("attend", "tiny", {"text": "a"}, max_classes=1).prediction.classes) == 1


def test_top_k_says_how_much_it_left_out(ask: Ask):
    whole = served.tiny().maps["encoder.0.self"].weights
    best = whole.argmax(axis=2)[..., np.newaxis]
    each = ask("attend", "tiny", {"text": TEXT}, top_k=1, heads=[0], maps="encoder.*")["encoder.0.self"]
    assert each.heads == (0,)
    assert each.axes == ("head", "query", "place") and each.key_index is not None
    np.testing.assert_array_equal(each.key_index, best[:1])
    np.testing.assert_allclose(each.left_out, 1 - whole.max(axis=2)[:1], atol=1e-6)
    np.testing.assert_allclose(each.dense().sum(axis=2) + each.left_out, np.ones((1, 3)), rtol=1e-6)
    both = ask("attend", "tiny", {"text": TEXT}, top_k=1, heads=[-1, 0], maps="encoder.*")["encoder.0.self"]
    np.testing.assert_array_equal(both.key_index, best[list(both.heads)])
    assert sorted(both.heads) == [0, 1]


def test_the_maps_of_other_sequences_have_their_own_steps_and_share_the_rest(ask: Ask):
    beam = limelight.Generation(strategy="beam", hypotheses=2)
    answer = ask("attend", "echo", {"text": TEXT}, sequences=2, generation=beam)
    (other,) = answer.other_sequences
    assert other.sequence == 1 and list(other) == ["decoder.0.cross", "decoder.0.self"] and len(other) == 2
    for maps, sequence in zip((answer, other), answer.prediction.sequences, strict=True):
        tokens, cross = list(sequence.token_ids), maps["decoder.0.cross"]
        assert cross.query.labels == tuple(bundles.WORDS[token] for token in tokens)
        expected = bundles.echo_maps(bundles.ids_of(TEXT), tokens)["decoder.0.cross"].weights
        np.testing.assert_allclose(cross.weights, expected, atol=1e-5)
    assert other["decoder.0.cross"].key is answer["decoder.0.cross"].key
    with pytest.raises(KeyError, match=r"it has decoder\.0\.cross"):
        other["word"]
    assert ask("attend", "echo", {"text": TEXT}, generation=beam).other_sequences == ()


def test_an_image_says_where_its_cells_are(ask: Ask):
    pixels = np.zeros((40, 80), np.uint8)
    patches = ask("attend", "glance", {"image": limelight.Image(pixels)}).label_sets["patches"]
    assert patches.region(1) == limelight.Region(20, 0, 30, 10)


def test_selections_are_a_union_and_exclude_the_fields_of_one(ask: Ask, server: Forwarder):
    selections = [limelight.Selection(maps="encoder.0.*"), limelight.Selection(layers=1, queries=[0, -1])]
    ask("attend", "tiny", {"text": "x"}, selections=selections)
    sent = server.requests[-1].attention.selections
    assert [list(each.names) for each in sent] == [["encoder.0.*"], []]
    assert list(sent[1].queries) == [0, -1]
    with pytest.raises(ValueError, match="either"):
        ask("attend", "tiny", {"text": "x"}, selections=selections, maps="word")


def test_unknown_options_are_refused_before_anything_is_sent(ask: Ask, server: Forwarder):
    with pytest.raises(ValueError, match="'float32', 'float16', 'uint8', not 'bfloat16'"):
        ask("attend", "tiny", {"text": "x"}, encoding="bfloat16")
    with pytest.raises(TypeError, match="colour"):
        ask("attend", "tiny", {"text": "x"}, colour="red")
    with pytest.raises(ValueError, match="timeout"):
        ask("predict", "tiny", {"text": "x"}, timeout=0)
    assert not server.requests


def test_models_are_listed_and_described(ask: Ask):
    listed = {each.name: each for each in ask("models")}
    assert list(listed) == ["asked", "broken", "coming", "echo", "glance", "pair", "paper", "report", "tiny"]
    states = {name: each.state for name, each in listed.items() if not each.default}
    assert states == {"broken": "failed", "coming": "loading"}
    assert "model.onnx" in listed["broken"].reason
    model = ask("model", "tiny")
    assert (model.task, model.classes, model.status.state) == ("classification", bundles.LABELS, "ready")
    assert [(each.name, each.kind, each.optional) for each in model.inputs] == [("text", "text", False)]
    assert (model.maps[0].quantities, model.maps[0].interventions) == (("scores", "norms"), ())
    results = [(name, "classes", bundles.LABELS) for name in ("mood", "words")]
    assert [(each.name, each.kind, each.classes) for each in model.results] == results
    assert (model.target_input, model.max_new_tokens) == ("", 0)
    echo = ask("model", "echo")
    assert (echo.target_input, echo.max_new_tokens) == ("target", bundles.MOST_NEW_TOKENS)
    assert echo.results[0].label_set == "output"
    report = ask("model", "report")
    assert (report.metrics[0].value, report.metrics[0].baseline) == (0.875, 0.5)
    assert report.taxonomy["scoring"] == ("scaled multiplicative",)
    assert tuple((each.name, each.unit) for each in report.results[1].targets)[:2] == bundles.TARGETS
    # A model's own example can be sent as it is.
    assert ask("predict", "tiny", model.examples[0]).label == LABEL


def test_a_stream_begins_has_tokens_and_ends(ask: Ask, server: Forwarder):
    expected, cross = served.echo(), limelight.Attention(maps="decoder.0.cross")
    start, *tokens, end = ask("generate", "echo", {"text": TEXT}, attention=cross)
    assert list(start.label_sets) == [each.name for each in server.answers[0].start.label_sets]
    assert start.label_sets["tokens"].labels == ("the", "cat", "sat")
    assert [each.text for each in tokens] == [*served.steps(expected)[:-1], ""], "a special token has no text"
    assert [each.index for each in tokens] == list(range(len(tokens)))
    row = tokens[1].maps[0]
    assert (row.query.labels, row.query.indices) == ((tokens[1].text,), (1,))
    assert row.key.labels == ("the", "cat", "sat")
    np.testing.assert_allclose(row.weights, expected.maps["decoder.0.cross"].weights[:, 1:2], atol=1e-5)
    assert (end.text, end.sequences[0].finish_reason) == (served.said(expected), "end")
    assert end.output_steps.labels == served.steps(expected)


def test_beam_search_has_whole_sequences_and_no_tokens(ask: Ask, server: Forwarder):
    start, end = ask("generate", "echo", {"text": TEXT}, strategy="beam", hypotheses=2, stop="!", attention=MAPS)
    assert isinstance(start, limelight.GenerationStart)
    sent = server.answers[-1].end
    assert [each.text for each in end.sequences] == [each.text for each in sent.sequences] and len(end.sequences) == 2
    assert end.maps[0].query.labels == tuple(bundles.WORDS[token] for token in sent.sequences[0].token_ids)
    assert list(server.requests[-1].generation.stop) == ["!"]


MAPS = limelight.Attention(maps="decoder.*")


def test_a_generating_model_attends_to_the_end(ask: Ask):
    answer = ask("attend", "echo", {"text": TEXT, "target": "a dog"})
    assert answer.prediction.text == "a dog"
    assert answer["decoder.0.cross"].query.labels == ("a", "dog")


def test_an_unknown_model_is_not_found(ask: Ask):
    with pytest.raises(limelight.NotFound, match="no model 'nope'; there are: asked, broken") as caught:
        ask("predict", "nope", {"text": "x"})
    assert caught.value.code is grpc.StatusCode.NOT_FOUND


def test_a_wrong_field_is_named(ask: Ask):
    with pytest.raises(limelight.InvalidArgument) as caught:
        ask("attend", "tiny", {"text": "x"}, maps="nothing")
    assert caught.value.field == "attention.selections[0].names[0]"
    assert "matches no map" in caught.value.violations[0].description


def test_a_full_server_says_when_to_come_back(ask: Ask, server: Forwarder):
    server.fail(grpc.StatusCode.RESOURCE_EXHAUSTED, "256 instances wait already", retry_ms=1500)
    with pytest.raises(limelight.ResourceExhausted) as caught:
        ask("predict", "tiny", {"text": "x"})
    assert caught.value.retry_after == 1.5
    assert len(server.requests) == 1, "a full server is not asked again unbidden"


def test_a_model_that_does_not_generate_fails_the_precondition(ask: Ask):
    with pytest.raises(limelight.FailedPrecondition, match="does not generate"):
        ask("generate", "tiny", {"text": "x"})


def test_a_fault_of_the_server_is_an_error_and_the_next_call_is_answered(ask: Ask, server: Forwarder):
    server.fail(grpc.StatusCode.UNKNOWN, "a fault of the server")
    with pytest.raises(limelight.Error, match="a fault"):
        ask("predict", "tiny", {"text": "x"})
    assert ask("predict", "tiny", {"text": "a"}).label == LABEL


def test_unavailable_is_tried_again(ask: Ask, server: Forwarder):
    server.fail(grpc.StatusCode.UNAVAILABLE, "starting", times=2)
    assert ask("predict", "tiny", {"text": "a"}).label == LABEL
    assert len(server.requests) == 3


def test_one_attempt_is_one_attempt(ask: Ask, server: Forwarder):
    server.fail(grpc.StatusCode.UNAVAILABLE, "starting")
    with pytest.raises(limelight.Unavailable, match="starting"):
        ask("predict", "tiny", {"text": "x"}, client={"attempts": 1})
    assert len(server.requests) == 1


def test_no_server_is_unavailable_after_the_attempts(ask: Ask):
    begin = time.monotonic()
    with pytest.raises(limelight.Unavailable):
        ask("models", client={"target": f"127.0.0.1:{free_port()}"})
    assert time.monotonic() - begin < 10


def test_a_server_that_starts_during_a_call_answers_it(ask: Ask, server: Forwarder):
    port = free_port()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ask, "models", client={"target": f"127.0.0.1:{port}", "attempts": 5})
        time.sleep(0.4)
        assert not answer.done(), "the first attempts failed, and the call goes on"
        with Forwarder(server.upstream, port):
            assert "echo" in [each.name for each in answer.result()]


def test_the_deadline_of_the_call_wins_over_that_of_the_client(ask: Ask, server: Forwarder):
    server.pauses["Predict"] = 30
    begin = time.monotonic()
    with pytest.raises(limelight.DeadlineExceeded):
        ask("predict", "tiny", {"text": "x"}, timeout=0.1)
    with pytest.raises(limelight.DeadlineExceeded):
        ask("predict", "tiny", {"text": "x"}, client={"timeout": 0.1})
    assert time.monotonic() - begin < 25, "two calls that would take half a minute each were cut short"


def test_answers_over_four_mebibytes_arrive(ask: Ask):
    answer = ask("attend", "tiny", {"text": "word " * 600})
    assert answer["encoder.1.self"].weights.shape == (2, 600, 600)
    assert sum(each.weights.nbytes for each in answer.maps) > 4 * 2**20


def test_an_answer_over_the_clients_own_limit_says_what_to_do(ask: Ask):
    with pytest.raises(limelight.ResourceExhausted, match="max_response_bytes"):
        ask("attend", "tiny", {"text": "word " * 600}, client={"max_response_bytes": 1000})


def test_metadata_goes_with_every_call(ask: Ask, server: Forwarder):
    ask("predict", "tiny", {"text": "x"}, client={"metadata": [("x-team", "limes")]})
    assert server.metadata["x-team"] == "limes"


def test_closing_a_stream_cancels_the_call(server: Forwarder):
    server.pauses["Generate"] = 0.2
    with limelight.Client(server.target) as client:
        events = client.generate("echo", {"text": TEXT})
        next(events)
        next(events)
        events.close()  # type: ignore[attr-defined]
        assert eventually(lambda: server.cancelled == 1)


def test_closing_an_asynchronous_stream_cancels_the_call(server: Forwarder):
    server.pauses["Generate"] = 0.2

    async def run() -> None:
        async with limelight.AsyncClient(server.target) as client:
            events = client.generate("echo", {"text": TEXT})
            await anext(events)
            await events.aclose()  # type: ignore[attr-defined]
            assert await asyncio.to_thread(eventually, lambda: server.cancelled == 1)

    asyncio.run(run())


def test_one_asynchronous_client_makes_calls_at_the_same_time(server: Forwarder):
    async def run() -> list[Any]:
        async with limelight.AsyncClient(server.target) as client:
            return await asyncio.gather(*(client.predict("tiny", {"text": "a"}) for _ in range(20)))

    assert [each.label for each in asyncio.run(run())] == [LABEL] * 20


def test_an_answer_that_makes_no_sense_is_an_internal_error():
    call = calls.predict("tiny", {"text": "x"})
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
