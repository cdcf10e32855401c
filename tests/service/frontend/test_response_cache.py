"""The response cache: the same answer to the bit by every protocol, for the same caller alone, within its bytes."""

import random
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice, permutations
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import limelight
from limelight.v1 import attention_pb2, service_pb2, values_pb2
from limelight_bundle.rows import Labels, Row
from limelight_service.attention.hidden import HiddenRequest
from limelight_service.attention.options import Group, Grouping, GroupReduction, Options, Selection, Span
from limelight_service.frontend import response_cache
from limelight_service.frontend.response_cache import ResponseCache
from limelight_service.ipc.boundary import GenerationSettings, InferenceRequest, Strategy
from limelight_service.ipc.wire import fingerprints
from limelight_service.security.tokens import entry, new_token
from tests.kit import bundles
from tests.kit.processes import scrape
from tests.kit.serving import Running, attend, eventually, free_port, predict, serving, text
from tests.service.by_protocol import DOORS, ask, infer_by, same
from tests.service.http.calls import call
from tests.service.open_inference.calls import infer_request

BYTES = 2**22
SENTENCE = {"text": "the cat sat"}


@pytest.fixture(scope="module", params=[0, 1], ids=["one-process", "one-frontend"])
def cached(request: pytest.FixtureRequest, repository: Path) -> Iterator[Running]:
    """A server that keeps answers."""
    ports = {"http_port": free_port(), "metrics_port": free_port()}
    with serving(repository, response_cache_bytes=BYTES, frontends=request.param, **ports) as running:
        yield running


@pytest.fixture(scope="module")
def plain(repository: Path) -> Iterator[Running]:
    """A server that keeps none."""
    with serving(repository, http_port=free_port()) as running:
        yield running


@contextmanager
def keeping(repository: Path, **changes: Any) -> Iterator[Running]:
    with serving(repository, metrics_port=free_port(), **{"response_cache_bytes": BYTES, **changes}) as running:
        yield running


def asked(running: Running) -> tuple[float, float]:
    """Rows of all models that were hits, and misses."""
    page = scrape(running.server.metrics_port)
    found = [
        sum(v for k, v in page.items() if k.startswith("limelight_cache_total") and f'"{r}"' in k) for r in _RESULTS
    ]
    return found[0], found[1]


_RESULTS = ("hit", "miss")
WORDS = st.lists(st.sampled_from(bundles.WORDS[4:]), min_size=1, max_size=6).map(" ".join)
ATTENTION = st.sampled_from(
    [
        {},
        {"top_k": 2},
        {"encoding": attention_pb2.ENCODING_UINT8},
        {"encoding": attention_pb2.ENCODING_FLOAT16},
        {"reduce_heads": attention_pb2.HEAD_REDUCTION_MEAN},
        {"selections": [attention_pb2.MapSelection(heads=[0])]},
    ]
)


@st.composite
def requests(draw: st.DrawFn) -> Any:
    """Draw calls of Predict, Attend and generation to its end."""
    model = draw(st.sampled_from(["tiny", "echo"]))
    instances = [text(each) for each in draw(st.lists(WORDS, min_size=1, max_size=3))]
    if draw(st.booleans()):
        return attend(model, *instances, **draw(ATTENTION))
    fields: dict[str, Any] = {}
    if model == "echo":
        fields["generation"] = draw(
            st.builds(
                service_pb2.GenerationOptions,
                strategy=st.sampled_from([service_pb2.STRATEGY_GREEDY, service_pb2.STRATEGY_BEAM]),
                max_new_tokens=st.integers(1, 4),
            )
        )
    return predict(model, *instances, **fields)


def predictions(response: Any) -> Sequence[service_pb2.Prediction]:
    if isinstance(response, service_pb2.PredictResponse):
        return response.predictions
    return [each.prediction for each in response.results]


def bits(response: Any) -> bytes:
    """An answer without what is of the call."""
    copy = type(response).FromString(response.SerializeToString())
    for each in predictions(copy):
        made = each.provenance
        made.cached = False
        made.queue_nanoseconds = made.compute_nanoseconds = 0
        made.preprocess_nanoseconds = made.encode_nanoseconds = 0
    data: bytes = copy.SerializeToString(deterministic=True)
    return data


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(request=requests(), doors=st.permutations(DOORS))
def test_an_answer_is_the_same_to_the_bit_by_any_door(
    cached: Running, plain: Running, request: Any, doors: Sequence[str]
) -> None:
    ask(cached, doors[0], request)
    first, second = (ask(cached, door, request) for door in doors)
    assert all(each.provenance.cached for each in (*predictions(first), *predictions(second)))
    assert not any(each.provenance.compute_nanoseconds for each in predictions(second))
    assert bits(first) == bits(second)
    same(second, ask(plain, "grpc", request))


@pytest.mark.parametrize("door", DOORS)
def test_the_open_inference_protocol_tells_which_rows_were_kept(cached: Running, door: str) -> None:
    second = b"mat on dog sat" if door == "grpc" else b"mat on cat sat"
    inputs = {"text": np.array([b"a dog ran", second], dtype=object)}
    first = infer_by(cached, door, infer_request("tiny", {"text": inputs["text"][:1]}, "logits"))
    both = infer_by(cached, door, infer_request("tiny", inputs, "logits"))
    again = infer_by(cached, door, infer_request("tiny", inputs, "logits"))

    def kept(answer: Any) -> Any:
        if door == "http":
            return answer["parameters"].get("limelight_cached")
        return answer.parameters["limelight_cached"].string_param

    def logits(answer: Any) -> Any:
        return answer["outputs"][0]["data"] if door == "http" else answer.raw_output_contents[0]

    assert kept(both) == "[true, false]" and kept(again) == "[true, true]"
    assert logits(both) == logits(again)
    count = len(logits(first))
    assert logits(both)[:count] == logits(first)


def test_only_rows_that_are_missing_are_run(repository: Path) -> None:
    with keeping(repository) as running:
        first, second = text("the cat sat"), text("a dog ran on")
        running.stub.Predict(predict("tiny", first))
        found = running.stub.Predict(predict("tiny", second, first, second)).predictions
        assert [each.provenance.cached for each in found] == [False, True, False]
        page = scrape(running.server.metrics_port)
        assert page['limelight_batch_rows_sum{model="tiny"}'] == 3
        assert (asked(running), page["limelight_cache_evictions_total"]) == ((1, 3), 0)
        assert 0 < page["limelight_cache_bytes"] <= BYTES
        assert page['limelight_taken{what="response_cache_bytes"}'] == BYTES


def test_rows_of_an_explanation_are_kept(cached: Running) -> None:
    with limelight.Client(cached.server.address) as client:
        first, (_, misses) = client.explain("tiny", SENTENCE), asked(cached)
        second, (_, after) = client.explain("tiny", SENTENCE), asked(cached)
        assert after == misses and second.prediction.provenance.cached
        np.testing.assert_equal(*[{name: each.values for name, each in why.ways.items()} for why in (first, second)])


@pytest.mark.parametrize(
    ("model", "seed", "fields", "is_kept"),
    [
        ("noisy", None, {}, True),  # noise without a seed has its neutral value
        ("noisy", 5, {}, False),
        ("tiny", 5, {}, True),  # draws nothing
        ("echo", None, {"strategy": service_pb2.STRATEGY_SAMPLE}, False),
        ("echo", 5, {"strategy": service_pb2.STRATEGY_SAMPLE}, False),
        ("echo", None, {"strategy": service_pb2.STRATEGY_SAMPLE, "temperature": 0.0}, True),
    ],
)
def test_nothing_that_was_drawn_is_kept(
    cached: Running, model: str, seed: int | None, fields: dict[str, Any], is_kept: bool
) -> None:
    if model == "noisy":
        ids = values_pb2.Value()
        ids.tensor.CopyFrom(values_pb2.Tensor(data_type=values_pb2.DATA_TYPE_INT64, shape=[2], data=b"\1" + bytes(15)))
        instance = values_pb2.Instance(inputs={"ids": ids}, seed=seed)
    else:
        instance = values_pb2.Instance(inputs={"text": values_pb2.Value(text="the cat ran")}, seed=seed)
    more = {"generation": service_pb2.GenerationOptions(**fields)} if fields else {}
    found = [cached.stub.Predict(predict(model, instance, **more)).predictions[0].provenance for _ in range(3)]
    assert [each.cached for each in found[1:]] == [is_kept] * 2


@pytest.mark.parametrize("frontends", [0, 1])
def test_callers_with_other_tokens_share_nothing(repository: Path, tmp_path: Path, frontends: int) -> None:
    tokens = {name: new_token() for name in ("one", "other")}
    (tmp_path / "tokens.toml").write_text("\n".join(entry(name, each, {}) for name, each in tokens.items()))
    changes = {"tokens": str(tmp_path / "tokens.toml"), "frontends": frontends, "http_port": free_port()}
    with keeping(repository, **changes) as running:

        def is_kept(name: str, door: str) -> bool:
            metadata = [("authorization", f"Bearer {tokens[name]}")]
            answer = ask(running, door, predict("tiny", text("the cat sat")), metadata)
            return bool(answer.predictions[0].provenance.cached)

        assert [is_kept("one", "grpc"), is_kept("other", "http")] == [False, False]
        assert [is_kept("one", "http"), is_kept("other", "grpc")] == [True, True]


def test_results_take_no_more_bytes_than_they_may(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit, kept = 20_000, list[int]()
    encoded = ResponseCache._encoded
    monkeypatch.setattr(
        ResponseCache, "_encoded", lambda *them: kept.append(len(data := encoded(*them) or b"")) or data
    )
    with keeping(repository, response_cache_bytes=limit) as running:
        words = random.Random(1)
        texts = [" ".join(words.choices(bundles.WORDS[4:], k=6)) for _ in range(60)]
        for each in texts:
            running.stub.Attend(attend("tiny", text(each)))
            assert scrape(running.server.metrics_port)["limelight_cache_bytes"] <= limit
        page = scrape(running.server.metrics_port)
        assert page["limelight_cache_evictions_total"] > 0 and page["limelight_cache_bytes"] > limit / 2
        answers = [running.stub.Attend(attend("tiny", text(each))) for each in (texts[-1], texts[0])]
        assert [each.results[0].prediction.provenance.cached for each in answers] == [True, False]
        assert max(kept) * 4 < limit
    with keeping(repository, response_cache_bytes=max(kept)) as running:  # each is larger than a quarter
        for _ in range(3):
            answer = running.stub.Attend(attend("tiny", text(texts[0])))
            assert not answer.results[0].prediction.provenance.cached
        assert scrape(running.server.metrics_port).get("limelight_cache_bytes", 0) == 0


def test_results_of_a_version_go_with_it(tmp_path: Path) -> None:
    bundles.tiny(tmp_path)
    with keeping(tmp_path, model_control="explicit") as running, limelight.Client(running.server.address) as client:

        def kept() -> float:
            return scrape(running.server.metrics_port)["limelight_cache_bytes"]

        before = [client.predict("tiny", SENTENCE) for _ in range(2)][-1]
        assert before.provenance.cached and kept() > 0
        bundles.tiny(tmp_path, version=2)
        client.load_model("tiny")
        after = client.predict("tiny", SENTENCE)
        assert (after.provenance.version, after.provenance.cached) == (2, False)
        client.unload_model("tiny", 1)
        client.unload_model("tiny", 2)
        assert eventually(lambda: kept() == 0)
        client.load_model("tiny", 2)
        assert not client.predict("tiny", SENTENCE).provenance.cached


def test_large_rows_and_answers_take_the_way_by_threads(cached: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_cache, "_LARGE", 0)
    many = [text(" ".join(each)) for each in islice(permutations(bundles.WORDS[4:14]), 100)]
    first, second = (cached.stub.Attend(attend("tiny", *many)) for _ in range(2))
    assert all(each.prediction.provenance.cached for each in second.results)
    assert bits(first) == bits(second) and len(bits(first)) > 2**18


def test_answers_have_no_word_of_it_where_nothing_is_kept(plain: Running) -> None:
    body = {"instances": [{"inputs": {"text": {"text": "the cat"}}}]}
    answers = [call(plain, "/v1/models/tiny:predict", body).json for _ in range(2)]
    assert all("cached" not in each["predictions"][0]["provenance"] for each in answers)


def test_rows_with_other_interventions_have_other_answers_and_the_same_are_kept(tmp_path: Path) -> None:
    shutil.copytree(Path(__file__).parents[3] / "deploy" / "demo" / "slips", tmp_path / "slips")
    source = {"document": "The bus was late. The food was fine."}
    with (
        keeping(tmp_path) as running,
        limelight.Client(running.server.address) as client,
    ):
        asked = [(), (limelight.scale_heads("word", {0: 0.0}),), (limelight.scale_heads("word", {0: 0.5}),)]
        first, again = ([client.predict("slips", source, interventions=each) for each in asked] for _ in range(2))
        assert [each.provenance.cached for each in (*first, *again)] == [False] * 3 + [True] * 3
        assert [each.provenance.graph for each in again] == ["main", "intervened", "intervened"]
        for one, other in zip(first, again, strict=True):
            np.testing.assert_equal(one.outputs, other.outputs)
        assert len({str(each.outputs) for each in again}) == 3


ROW = Row({"ids": np.arange(6)}, {"token": 6}, {"text": Labels("text", 1, 6, texts=list("abcdef"), starts=range(6))})
REQUEST = InferenceRequest("m", 1, (ROW,), (None,), frozenset({"logits", "other"}))
SPANS = Options(key_groups=(Grouping(("f",), (Group("g", spans=(Span(0, 2),)),), GroupReduction.SUM),))
MOVED = replace(ROW, labels={"text": replace(ROW.labels["text"], starts=range(1, 7))})
DIFFERENT = [
    replace(REQUEST, rows=(replace(ROW, tensors={"ids": np.arange(6).astype(np.int32)}),)),
    replace(REQUEST, rows=(replace(ROW, tensors={"ids": np.arange(6).reshape(2, 3)}),)),
    replace(REQUEST, rows=(replace(ROW, tensors={"ids": np.arange(6)[::-1]}),)),
    replace(REQUEST, rows=(replace(ROW, tensors={**ROW.tensors, "encoder.0.scales": np.ones(2, np.float32)}),)),
    replace(REQUEST, rows=(replace(ROW, tensors={**ROW.tensors, "encoder.0.scales": np.zeros(2, np.float32)}),)),
    replace(REQUEST, rows=(replace(ROW, sizes={"token": 5}),)),
    replace(REQUEST, seeds=(1,)),
    replace(REQUEST, outputs=frozenset({"logits"})),
    replace(REQUEST, version=2),
    replace(REQUEST, attention=Options()),
    replace(REQUEST, attention=Options(top_k=1)),
    replace(REQUEST, attention=Options(selections=(Selection(heads=(0,)),))),
    replace(REQUEST, attention=SPANS),
    replace(REQUEST, attention=SPANS, rows=(MOVED,)),
    replace(REQUEST, attention=SPANS, steps=3),
    replace(REQUEST, hidden=HiddenRequest(("encoder.0",))),
    replace(REQUEST, generation=GenerationSettings(strategy=Strategy.BEAM)),
    replace(REQUEST, generation=GenerationSettings(stop=("a",))),
]
SAME = [
    replace(REQUEST, deadline=5.0),
    replace(REQUEST, outputs=frozenset(["other", "logits"])),
    replace(REQUEST, rows=(MOVED,)),  # an engine is not told of offsets that no group names
    replace(REQUEST, rows=(replace(ROW, tensors={"ids": np.arange(12)[:6].copy()}),)),
]


def test_whatever_an_engine_is_told_makes_another_result_and_nothing_else_does() -> None:
    keys = [fingerprints(each, ("digest", "cpu", "me"))[0] for each in (REQUEST, *DIFFERENT)]
    assert len(set(keys)) == len(keys)
    assert {fingerprints(each, ("digest", "cpu", "me"))[0] for each in SAME} == {keys[0]}
    others = [("digest", "cpu", ""), ("other", "cpu", "me"), ("digest", "cuda", "me")]
    assert keys[0] not in {fingerprints(REQUEST, each)[0] for each in others}
    several = fingerprints(replace(REQUEST, rows=(ROW, MOVED, ROW), seeds=(None, 4, None)), ("digest", "cpu", "me"))
    assert several[0] == several[2] == keys[0] != several[1]


def test_a_call_that_fails_keeps_nothing(cached: Running) -> None:
    with pytest.raises(grpc.RpcError):
        cached.stub.Predict(predict("tiny", text("a cat on a dog"), text(" ")))
    assert not cached.stub.Predict(predict("tiny", text("a cat on a dog"))).predictions[0].provenance.cached
