"""Tokens: who has none gets nothing, and who has one gets what it is for, through a real socket."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

import limelight
from limelight.v1 import admin_pb2, service_pb2, values_pb2
from limelight_service.security.tokens import entry, new_token
from tests.kit import bundles
from tests.kit.processes import process, scrape, started
from tests.kit.serving import Running, eventually, free_port, generate, predict, refusal, serving, text

SERVING = health_pb2.HealthCheckResponse.SERVING
MODELS = service_pb2.ListModelsRequest()


@dataclass(frozen=True)
class Locked:
    """A server that wants tokens. tokens: by name. file: of their hashes."""

    running: Running
    tokens: dict[str, str]
    file: Path

    def call(self, method: str, request: Any, name: str | None = None) -> Any:
        """Call with the token of a name, or with none."""
        metadata = () if name is None else bearer(self.tokens[name])
        return getattr(self.running.stub, method)(request, metadata=metadata, timeout=20)


def bearer(token: str) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {token}"),)


RULES: dict[str, dict[str, Any]] = {
    "all": {},
    "predicts": {"methods": ["Predict"]},
    "tiny-only": {"models": ["tin*"]},
    "slow": {"rows_per_second": 0.5},
    "narrow": {"rows_in_flight": 2},
    "ended": {},
}


def write(file: Path, tokens: dict[str, str], rules: dict[str, dict[str, Any]]) -> None:
    file.write_text("\n".join(entry(name, tokens[name], fields) for name, fields in rules.items()))


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    bundles.tiny(folder)
    bundles.echo(folder)
    bundles.echo(folder, "endless", max_new_tokens=100_000, endless=True)
    return folder


@pytest.fixture(scope="module")
def locked(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Locked]:
    file = tmp_path_factory.mktemp("access") / "tokens.toml"
    tokens = {name: new_token() for name in RULES}
    write(file, tokens, RULES)
    with file.open("a") as ends:
        ends.write("expires = 2020-01-01T00:00:00Z\n")
    with serving(repository, tokens=str(file), metrics_port=free_port(), frontends=1) as running:
        yield Locked(running, tokens, file)


def refused(locked: Locked, method: str, request: Any, name: str | None = None) -> Any:
    with pytest.raises(grpc.RpcError) as error:
        answer = locked.call(method, request, name)
        if method == "Generate":
            list(answer)
    return refusal(error.value)


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ((), "missing"),
        ((("authorization", ""),), "malformed"),
        ((("authorization", "Bearer"),), "malformed"),
        ((("authorization", "Basic bGltZTpsaWdodA=="),), "malformed"),
        ((*bearer("a"), *bearer("b")), "malformed"),
        (bearer("limelight_" + "a" * 43), "unknown"),
        (bearer("x" * 8000), "unknown"),
    ],
)
def test_without_a_good_token_no_method_answers(locked: Locked, metadata: Any, reason: str) -> None:
    port = locked.running.server.metrics_port
    series = f'limelight_unauthenticated_total{{reason="{reason}"}}'
    before = scrape(port).get(series, 0)
    methods = [each.name for each in service_pb2.DESCRIPTOR.services_by_name["AttentionService"].methods]
    for method in methods:
        with pytest.raises(grpc.RpcError) as error:
            answer = getattr(locked.running.stub, method)(_empty(method), metadata=metadata, timeout=20)
            if method in ("AttendStream", "Generate"):
                list(answer)
        found = refusal(error.value)
        assert (found.code, found.reason) == ("UNAUTHENTICATED", "UNAUTHENTICATED")
        assert len(found.request_id) == 32
    assert scrape(port)[series] == before + len(methods)


def _empty(method: str) -> Any:
    return getattr(service_pb2, f"{method}Request")()


def test_models_are_unloaded_and_loaded_by_tokens_that_name_it_and_their_models_only(tmp_path: Path) -> None:
    bundles.tiny(tmp_path / "models")
    bundles.echo(tmp_path / "models")
    rules = {"all": {}, "loader": {"methods": ["LoadModel", "UnloadModel"], "models": ["tin*"]}}
    tokens, file = {name: new_token() for name in rules}, tmp_path / "tokens.toml"
    write(file, tokens, rules)

    settings = {"model_control": "explicit", "frontends": 1, "reflection": False}
    with serving(tmp_path / "models", tokens=str(file), **settings) as running:
        without = reflected(running.channel, metadata=bearer(tokens["all"]))
        assert without is grpc.StatusCode.UNIMPLEMENTED, "it can be turned off"

        def change(action: str, model: str, name: str) -> str:
            method = running.channel.unary_unary(f"/limelight.v1.AdminService/{action}Model")
            message = admin_pb2.UnloadModelRequest(model={"name": model, "version": 1})
            try:
                method(message.SerializeToString(), metadata=bearer(tokens[name]), timeout=20)
            except grpc.RpcError as error:
                return refusal(error).code
            return "OK"

        assert change("Unload", "tiny", "all") == "PERMISSION_DENIED"
        assert change("Unload", "echo", "loader") == "NOT_FOUND"
        assert change("Load", "echo", "loader") == "NOT_FOUND"
        assert change("Unload", "tiny", "loader") == "OK"
        listed = running.stub.ListModels(MODELS, metadata=bearer(tokens["all"]), timeout=20)
        assert [each.model.name for each in listed.models] == ["echo"]
        assert change("Load", "tiny", "loader") == "OK"
        assert change("Load", "tiny", "loader") == "UNAVAILABLE"


def test_the_digest_of_a_token_is_no_token(locked: Locked) -> None:
    digest = locked.file.read_text().split('sha256 = "')[1][:64]
    with pytest.raises(grpc.RpcError) as error:
        locked.running.stub.ListModels(MODELS, metadata=bearer(digest), timeout=20)
    assert error.value.code() is grpc.StatusCode.UNAUTHENTICATED  # type: ignore[attr-defined]


def test_whoever_has_no_token_is_refused_before_the_request_is_there(locked: Locked) -> None:
    channel = locked.running.channel
    upload = channel.stream_unary("/limelight.v1.AttentionService/Predict")
    refused = threading.Event()

    def never_ends() -> Iterator[bytes]:
        refused.wait(20)
        yield from ()

    call = upload.future(never_ends(), timeout=20)
    assert call.exception().code() is grpc.StatusCode.UNAUTHENTICATED
    refused.set()


def test_health_is_open_and_reflection_is_not(locked: Locked) -> None:
    channel = locked.running.channel
    check = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=20)
    assert check.status == SERVING
    with limelight.Client(locked.running.server.address) as client:
        assert client.ready()
    assert reflected(channel) is grpc.StatusCode.UNAUTHENTICATED
    assert reflected(channel, metadata=bearer(locked.tokens["tiny-only"])) is grpc.StatusCode.OK


def reflected(channel: grpc.Channel, **options: Any) -> grpc.StatusCode:
    """Ask which services there are; gives how that ended."""
    call = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(
        iter([reflection_pb2.ServerReflectionRequest(list_services="")]), timeout=20, **options
    )
    with suppress(grpc.RpcError):
        list(call)
    return call.code()  # type: ignore[no-any-return]


def test_a_token_for_some_methods_may_call_no_other(locked: Locked) -> None:
    locked.call("Predict", predict("tiny", text("the cat")), "predicts")
    found = refused(locked, "ListModels", MODELS, "predicts")
    assert (found.code, found.message) == (
        "PERMISSION_DENIED",
        "this token may not call ListModels; it may call: Predict",
    )


def test_a_token_for_some_models_does_not_learn_that_there_are_others(locked: Locked) -> None:
    listed = locked.call("ListModels", MODELS, "tiny-only").models
    assert [each.model.name for each in listed] == ["tiny"]
    assert len(locked.call("ListModels", MODELS, "all").models) == 3
    locked.call("Predict", predict("tiny", text("the cat")), "tiny-only")

    def told(method: str, request: Any) -> tuple[str, str]:
        found = refused(locked, method, request, "tiny-only")
        return found.code, found.message

    def get(name: str) -> service_pb2.GetModelRequest:
        return service_pb2.GetModelRequest(model=values_pb2.Model(name=name))

    hidden, none = "echo", "ehco"
    for method, ask in (
        ("GetModel", get),
        ("Predict", lambda name: predict(name, text("a"))),
        ("Generate", lambda name: generate(name, text("the cat"))),
    ):
        assert told(method, ask(hidden)) == ("NOT_FOUND", "there is no model 'echo'; there are: tiny")
        assert told(method, ask(none)) == ("NOT_FOUND", "there is no model 'ehco'; there are: tiny")


def test_a_rate_is_kept_and_says_when_to_come_back(locked: Locked) -> None:
    locked.call(
        "Predict", predict("tiny", text("the cat"), text("a dog"), text("far")), "slow"
    )  # one row, and two too many
    found = refused(locked, "Predict", predict("tiny", text("the cat")), "slow")
    assert (found.code, found.reason) == ("RESOURCE_EXHAUSTED", "QUOTA")
    assert found.retry is not None and 0 < found.retry <= 4.1
    locked.call("Predict", predict("tiny", text("the cat")), "all")  # others are not held up


def test_rows_in_flight_are_bounded_until_they_have_ended(locked: Locked) -> None:
    request = generate("endless", text("the cat"))
    streams = [locked.call("Generate", request, "narrow") for _ in range(2)]
    for stream in streams:
        next(stream)
    found = refused(locked, "Generate", request, "narrow")
    assert (found.code, found.reason, found.retry) == ("RESOURCE_EXHAUSTED", "QUOTA", 0.5)
    streams[0].cancel()

    def admitted() -> bool:
        try:
            locked.call("Predict", predict("tiny", text("the cat")), "narrow")
        except grpc.RpcError:
            return False
        return True

    assert eventually(admitted)
    streams[1].cancel()
    too_many = refused(locked, "Predict", predict("tiny", *[text("a")] * 3), "narrow")
    assert (too_many.code, too_many.retry) == ("RESOURCE_EXHAUSTED", None)
    gauge = 'limelight_token_inflight_rows{token="narrow"}'
    assert eventually(lambda: scrape(locked.running.server.metrics_port)[gauge] == 0)


def test_calls_and_rows_are_counted_by_the_tokens_name(locked: Locked) -> None:
    port = locked.running.server.metrics_port
    calls, rows = 'limelight_token_calls_total{grpc_code="OK",token="all"}', 'limelight_token_rows_total{token="all"}'
    before = scrape(port)
    locked.call("Predict", predict("tiny", text("the cat"), text("a dog")), "all")
    after = scrape(port)
    assert (after[calls] - before.get(calls, 0), after[rows] - before.get(rows, 0)) == (1, 2)


def test_what_a_changed_file_says_counts_and_a_bad_one_changes_nothing(repository: Path, tmp_path: Path) -> None:
    file, tokens = tmp_path / "tokens.toml", {name: new_token() for name in ("old", "new")}
    write(file, tokens, {"old": {}})
    with serving(repository, tokens=str(file), metrics_port=free_port(), frontends=1) as running:
        locked = Locked(running, tokens, file)

        def reloads(result: str) -> float:
            return scrape(running.server.metrics_port)[f'limelight_reloads_total{{result="{result}",what="tokens"}}']

        locked.call("Predict", predict("tiny", text("a")), "old")
        assert refused(locked, "ListModels", MODELS, "new").code == "UNAUTHENTICATED"
        file.write_text('[tokens.old]\nsha256 = "not one"\n')
        assert eventually(lambda: reloads("failed") == 1)
        locked.call("ListModels", MODELS, "old")
        file.unlink()
        assert eventually(lambda: reloads("failed") == 2)
        locked.call("ListModels", MODELS, "old")
        write(file, tokens, {"new": {}})
        assert eventually(lambda: reloads("ok") == 1)
        locked.call("ListModels", MODELS, "new")
        assert refused(locked, "ListModels", MODELS, "old").code == "UNAUTHENTICATED"
        assert not [each for each in scrape(running.server.metrics_port) if "rows" in each and 'token="old"' in each]


def test_a_token_ends_when_it_expires(locked: Locked) -> None:
    found = refused(locked, "ListModels", MODELS, "ended")
    assert (found.code, found.message) == ("UNAUTHENTICATED", "the token has expired; ask for a new one")


def test_many_callers_of_one_token_take_no_more_than_its_rows_in_flight(locked: Locked) -> None:
    request = predict("tiny", text("the cat"), text("a dog"))

    def ask(_: int) -> str:
        try:
            locked.call("Predict", request, "narrow")
        except grpc.RpcError as error:
            return str(error.code().name)  # type: ignore[attr-defined]
        return "OK"

    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(ask, range(200)))
    assert set(found) <= {"OK", "RESOURCE_EXHAUSTED"} and "OK" in found
    gauge = 'limelight_token_inflight_rows{token="narrow"}'
    assert eventually(lambda: scrape(locked.running.server.metrics_port)[gauge] == 0)


def test_the_log_has_the_tokens_name_and_never_the_token(repository: Path, tmp_path: Path) -> None:
    file, token, other = tmp_path / "tokens.toml", new_token(), new_token()
    file.write_text(entry("site", token, {}))
    flags = ("--repository", str(repository), "--port", "0", "--metrics-port", "0", "--tokens", str(file))
    with process(*flags, "--log-level", "debug", "--grace-seconds", "1") as (running, logged):
        target = started(running)
        with limelight.Client(target, token=token) as client:
            client.predict("tiny", {"text": "the cat"})
        with limelight.Client(target, token=other) as client, pytest.raises(limelight.Unauthenticated):
            client.models()
        running.terminate()
        assert running.wait(20) == 0
    everything = "".join(logged)
    assert token not in everything and other not in everything
    lines = [json.loads(line) for line in logged]
    requests = [(each.get("token"), each["method"], each["code"]) for each in lines if each["event"] == "request"]
    assert requests == [("site", "Predict", "OK"), (None, "ListModels", "UNAUTHENTICATED")]
