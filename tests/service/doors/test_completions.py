"""OpenAI's completions and chats over HTTP: fields, texts, tokens, streams, refusals, callers who leave."""

import hashlib
import json
import shutil
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from limelight.v1 import service_pb2
from limelight_export.importing.huggingface.importer import import_checkpoint
from limelight_export.importing.huggingface.library_tokenizer import load_library_tokenizer
from limelight_service.security.tokens import entry, new_token
from tests.importing.huggingface.checkpoints import GENERIC, write_json
from tests.importing.huggingface.decoders import DECODERS
from tests.kit import bundles
from tests.kit.processes import scrape
from tests.kit.serving import Running, eventually, free_port, predict, serving, text
from tests.service.doors.calls import base, found_by
from tests.service.http.calls import Answer, call, connected

TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{% if message.content == 'hang' %}{% for i in range(99999) %}"
    "{% for j in range(99999) %}{% endfor %}{% endfor %}{% endif %}{{ message.role + ': ' + message.content + '\n' }}"
    "{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}"
)
ASKED = {"model": "talker", "prompt": "the cat", "max_tokens": 4, "temperature": 0}
SAID = {"model": "talker", "messages": [{"role": "user", "content": "the cat"}], "max_tokens": 4, "temperature": 0}
COMPLETION = {"id", "object", "created", "model", "system_fingerprint", "choices", "usage"}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = DECODERS["llama"].write(tmp_path_factory.mktemp("checkpoint") / "talker", num_hidden_layers=1)
    tokens = {"bos_token": "<s>", "eos_token": "</s>"}
    write_json(folder / "tokenizer_config.json", {"tokenizer_class": GENERIC, "chat_template": TEMPLATE, **tokens})
    return folder


@pytest.fixture(scope="module")
def repository(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama that takes conversations, an encoder–decoder, and one that never ends by itself."""
    found = tmp_path_factory.mktemp("completions")
    import_checkpoint(checkpoint, found)
    bundles.echo(found)
    bundles.echo(found, "endless", max_new_tokens=100_000, endless=True)
    with_template(found / "talker" / "1", found / "hostile" / "1", "{{ lipsum.__globals__ }}")
    return found


def with_template(bundle: Path, copy: Path, template: str) -> None:
    """Copy a bundle with another chat template, as nobody's export would write it."""
    shutil.copytree(bundle, copy)
    description = json.loads((copy / "bundle.json").read_text())
    name = description["generation"]["chat_template"]
    (copy / name).write_text(template)
    for each in description["files"]:
        if each["path"] == name:
            each["sha256"] = hashlib.sha256(template.encode()).hexdigest()
    (copy / "bundle.json").write_text(json.dumps(description))


@pytest.fixture(scope="module")
def running(repository: Path) -> Iterator[Running]:
    with serving(repository, http_port=free_port(), metrics_port=free_port(), max_instances=8) as found:
        yield found


@pytest.fixture(scope="module")
def library(checkpoint: Path) -> Any:
    """The tokenizer and the model by transformers alone."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(checkpoint, attn_implementation="eager").eval()
    return load_library_tokenizer(checkpoint), model


def complete(running: Running, **changes: Any) -> Any:
    return answered(call(running, "/v1/completions", ASKED | changes))


def chat(running: Running, **changes: Any) -> Any:
    return answered(call(running, "/v1/chat/completions", SAID | changes))


def answered(answer: Answer) -> Any:
    """The JSON of an answer, or the chunks of a stream."""
    assert answer.status == 200, answer.body
    if answer.headers["content-type"] != "text/event-stream":
        return answer.json
    *chunks, done, rest = answer.body.decode().split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    return [json.loads(each.removeprefix("data: ")) for each in chunks]


def joined(chunks: list[Any], index: int = 0) -> tuple[str, list[Any], str]:
    """The text of a choice of a stream, its pieces of log-probabilities, and why it ended."""
    own = [each for chunk in chunks for each in chunk["choices"] if each["index"] == index]
    *_, last = own
    text = "".join(each["text"] if "text" in each else each["delta"].get("content", "") for each in own)
    assert all(each["finish_reason"] is None for each in own[:-1])
    return text, [each["logprobs"] for each in own if each["logprobs"]], last["finish_reason"]


def test_an_answer_has_the_fields_of_the_schema(running: Running) -> None:
    found = complete(running)
    assert found.keys() == COMPLETION and found["object"] == "text_completion" and found["model"] == "talker"
    assert found["id"].startswith("cmpl-") and isinstance(found["created"], int)
    (choice,) = found["choices"]
    assert choice == {"text": choice["text"], "index": 0, "logprobs": None, "finish_reason": "length"}
    assert found["usage"] == {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    said = chat(running)
    assert said.keys() == COMPLETION and said["object"] == "chat.completion" and said["id"].startswith("chatcmpl-")
    (choice,) = said["choices"]
    assert choice.keys() == {"index", "message", "logprobs", "finish_reason"} and choice["logprobs"] is None
    assert choice["message"].keys() == {"role", "content", "refusal"} and choice["message"]["role"] == "assistant"


def test_texts_are_those_of_transformers(running: Running, library: Any) -> None:
    tokenizer, model = library
    ids = tokenizer(["the cat"], return_tensors="pt").input_ids
    made = model.generate(ids, max_new_tokens=4, do_sample=False)[0, ids.shape[1] :]
    assert complete(running)["choices"][0]["text"] == tokenizer.decode(made, skip_special_tokens=True)
    assert complete(running, prompt=ids[0].tolist())["choices"] == complete(running)["choices"]
    ids = tokenizer.apply_chat_template(SAID["messages"], add_generation_prompt=True, return_tensors="pt")["input_ids"]
    made = model.generate(ids, max_new_tokens=4, do_sample=False)[0, ids.shape[1] :]
    said = chat(running)
    assert said["choices"][0]["message"]["content"] == tokenizer.decode(made, skip_special_tokens=True)
    assert said["usage"]["prompt_tokens"] == ids.shape[1]
    for message in ({"role": "user", "content": [{"type": "text", "text": "the cat"}]}, SAID["messages"][0]):
        assert chat(running, messages=[message])["choices"] == said["choices"]


@pytest.mark.parametrize("prompt", ["the cat", "a 😀 é"])
@pytest.mark.parametrize("max_tokens", [0, 3])
def test_a_prompt_is_repeated_with_the_probabilities_of_its_tokens(
    running: Running, library: Any, prompt: str, max_tokens: int
) -> None:
    tokenizer, model = library
    found = complete(running, prompt=prompt, echo=True, logprobs=2, max_tokens=max_tokens)
    (choice,) = found["choices"]
    made = choice["logprobs"]
    ids = tokenizer([prompt], return_tensors="pt").input_ids
    expected = torch.log_softmax(model(ids).logits[0], -1)
    count = ids.shape[1]
    assert choice["text"].startswith(prompt) and len(made["tokens"]) == count + max_tokens
    assert made["tokens"][0] == "<s>" and made["token_logprobs"][0] is None and made["top_logprobs"][0] is None
    wanted = expected[:-1].gather(1, ids[0, 1:, None])[:, 0].tolist()
    np.testing.assert_allclose(made["token_logprobs"][1:count], wanted, rtol=1e-3, atol=1e-4)
    for place, each in enumerate(made["top_logprobs"][1:count]):
        best = expected[place].topk(2).values.tolist()
        np.testing.assert_allclose(sorted(each.values(), reverse=True)[:2], best, rtol=1e-3, atol=1e-4)
        assert made["tokens"][place + 1] in each
    assert b"".join(map(as_bytes, made["tokens"][1:count])).decode() == prompt
    assert made["text_offset"] == sorted(made["text_offset"]) and made["text_offset"][count:][:1] in ([], [len(prompt)])
    assert found["usage"] == {
        "prompt_tokens": count,
        "completion_tokens": max_tokens,
        "total_tokens": count + max_tokens,
    }
    streamed = complete(running, prompt=prompt, echo=True, logprobs=2, max_tokens=max_tokens, stream=True)
    text, pieces, finish = joined(streamed)
    assert (text, finish) == (choice["text"], "length")
    assert {name: [each for piece in pieces for each in piece[name]] for name in made} == made
    without = complete(running, prompt=prompt, echo=True, max_tokens=max_tokens)
    assert without["choices"][0]["text"] == choice["text"] and without["usage"] == found["usage"]


def as_bytes(token: str) -> bytes:
    if not token.startswith("bytes:"):
        return token.encode()
    return bytes(int(each, 16) for each in token.removeprefix("bytes:").split("\\x")[1:])


def test_a_chat_tells_of_tokens_with_their_bytes(running: Running) -> None:
    (choice,) = chat(running, logprobs=True, top_logprobs=2, seed=3, temperature=1)["choices"]
    tokens = choice["logprobs"]["content"]
    data = bytes(each for token in tokens for each in token["bytes"])
    assert data.decode(errors="replace") == choice["message"]["content"]
    for each in tokens:
        assert each.keys() == {"token", "logprob", "bytes", "top_logprobs"} and len(each["top_logprobs"]) == 2
    streamed = chat(running, logprobs=True, top_logprobs=2, seed=3, temperature=1, stream=True)
    text, pieces, _ = joined(streamed)
    assert text == choice["message"]["content"] and [each for piece in pieces for each in piece["content"]] == tokens
    assert streamed[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert streamed[-1]["choices"][0]["delta"] == {} and streamed[0]["object"] == "chat.completion.chunk"


@pytest.mark.parametrize("stop", ["w w", "t w", [" w w ", "w"], ["never", "zz"], " w w w w w", []])
def test_a_text_ends_where_a_stop_text_begins(running: Running, stop: Any) -> None:
    whole = complete(running, max_tokens=12)["choices"][0]["text"]
    stops = [stop] if isinstance(stop, str) else stop
    ends = [(place + len(each), place) for each in stops if (place := whole.find(each)) >= 0]
    _, first = min(ends, default=(0, len(whole)))  # to be whole, as the text is written
    for logprobs in (None, 0):
        found = complete(running, max_tokens=12, stop=stop, logprobs=logprobs)["choices"][0]
        assert found["text"] == whole[:first]
        assert found["finish_reason"] == ("stop" if ends else "length")
        text, pieces, finish = joined(complete(running, max_tokens=12, stop=stop, logprobs=logprobs, stream=True))
        assert (text, finish) == (found["text"], found["finish_reason"])
        told = [each for piece in pieces for each in piece["tokens"]]
        assert told == (found["logprobs"]["tokens"] if logprobs == 0 else [])


def test_a_seed_gives_the_same_texts_and_each_choice_another(running: Running) -> None:
    asked: dict[str, Any] = {"prompt": ["the cat", "a"], "n": 3, "temperature": 1.5, "seed": -1, "max_tokens": 8}
    found = complete(running, **asked)
    texts = [each["text"] for each in found["choices"]]
    assert [each["index"] for each in found["choices"]] == list(range(6)) and len(set(texts)) == 6
    assert [each["text"] for each in complete(running, **asked, best_of=3)["choices"]] == texts
    streamed = complete(running, **asked, stream=True, stream_options={"include_usage": True})
    assert [joined(streamed, place)[0] for place in range(6)] == texts
    assert streamed[-1]["choices"] == [] and streamed[-1]["usage"] == found["usage"]
    assert all(each["usage"] is None for each in streamed[:-1])
    assert len({complete(running, temperature=2, max_tokens=12)["choices"][0]["text"] for _ in range(4)}) > 1
    assert len({each["text"] for each in complete(running, n=9)["choices"]}) == 1  # in two calls of the core


def test_a_model_with_a_source_answers_it(running: Running) -> None:
    found = complete(running, model="echo", prompt=["the cat", "sat"], max_tokens=1000)
    answer = running.stub.Predict(predict("echo", text("the cat"), text("sat"))).predictions
    written = [each.results[0].sequences.sequences[0] for each in answer]
    assert [each["text"] for each in found["choices"]] == [each.text for each in written]
    (choice,) = complete(running, model="echo", logprobs=1)["choices"]
    assert "".join(choice["logprobs"]["tokens"]) == choice["text"].replace(" ", "") and choice["text"]
    assert found["usage"]["completion_tokens"] == sum(
        len(each.token_ids) - (each.finish_reason == service_pb2.FINISH_REASON_END) for each in written
    )


@pytest.mark.parametrize("ask", [complete, chat])
def test_attention_rides_along(running: Running, ask: Any) -> None:
    attention = {"selections": [{"names": ["decoder.0.self"], "heads": [1]}]}
    plain, found = ask(running), ask(running, attention=attention)
    (along,) = found.pop("attention")
    assert {**found, "id": 0, "created": 0} == {**plain, "id": 0, "created": 0}
    (whole,) = along["maps"]
    assert whole["weights"]["shape"][:2] == [1, 4]
    chunks = ask(running, attention=attention, stream=True)
    assert joined(chunks)[0] == joined(ask(running, stream=True))[0]
    rows = [each["attention"]["maps"][0] for each in chunks if "maps" in each.get("attention", {})]
    for place, (row, expected) in enumerate(zip(rows, whole["weights"]["data"][0], strict=True)):
        assert row["queries"] == [place]
        np.testing.assert_allclose(row["weights"]["data"][0][0], expected[: row["weights"]["shape"][2]], atol=1e-6)
    names = [one["name"] for each in chunks for one in each.get("attention", {}).get("labelSets", ())]
    assert names == ["input", "output"]
    explained = ask(running, explain={"ways": ["WAY_ERASE"]})
    assert explained["choices"] == plain["choices"] and explained["explanations"][0]["ways"]


WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"prompt": None}, "prompt", "is missing"),
    ({"prompt": []}, "prompt", "has 0 entries"),
    ({"prompt": ""}, "prompt", "is empty"),
    ({"prompt": ["a", ""]}, "prompt[1]", "is empty"),
    ({"prompt": [1, 99999]}, "prompt", "99999"),
    ({"prompt": "the " * 200}, "prompt", "tokens"),
    ({"prompt": {"text": "a"}}, "prompt", "it takes a text, token ids"),
    ({"max_tokens": 0}, "max_tokens", "with echo alone"),
    ({"max_tokens": -1}, "max_tokens", "it takes 0 to"),
    ({"temperature": 3}, "temperature", "it takes 0 to 2"),
    ({"top_p": "1"}, "top_p", "it takes a number"),
    ({"n": 0}, "n", "it takes 1 to"),
    ({"n": 9, "stream": True}, "n", "at most 8 are streamed"),
    ({"best_of": 2}, "best_of", "it may be n, 1"),
    ({"logprobs": 21}, "logprobs", "it takes 0 to 20"),
    ({"stop": [""]}, "stop[0]", "a text of 1 to"),
    ({"stop": ["a"] * 17}, "stop", "has 17 entries"),
    ({"suffix": "x"}, "suffix", "which is not done here"),
    ({"logit_bias": {"5": 1}}, "logit_bias", "which is not done here"),
    ({"presence_penalty": 0.5}, "presence_penalty", "which is not done here; leave it out, or send 0"),
    ({"stream_options": {"include_usage": True}}, "stream_options", "with stream alone"),
    ({"stream": True, "explain": {}}, "explain", "does not go with stream"),
    ({"echo": True, "model": "echo"}, "echo", "does not write on behind its prompt"),
    ({"echo": True, "logprobs": 0, "prompt": [5]}, "prompt", "has 1 tokens"),
    ({"echo": True, "logprobs": 0, "prompt": "a" * 300}, "prompt", "tokens"),
    ({"echo": True, "logprobs": 0, "explain": {}}, "explain", "does not go with"),
    ({"nonsense": 1}, "nonsense", "is no field here"),
    ({"attention": {"selections": [{"names": ["nothing"]}]}}, "attention", "matches no map"),
]
WRONG_CHATS: list[tuple[dict[str, Any], str, str]] = [
    ({"messages": []}, "messages", "has 0 entries"),
    ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role", "it takes system"),
    ({"messages": [{"role": "user"}]}, "messages[0].content", "is missing"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0]", "text"),
    ({"messages": [{"role": "user", "content": "a </s> b"}]}, "messages[0].content", "holds '</s>', a special token"),
    ({"messages": [{"role": "user", "content": "hang"}]}, "messages", "it takes too many steps"),
    ({"messages": [{"role": "user", "content": "the " * 200}]}, "messages", "tokens"),
    ({"tools": [{"type": "function"}]}, "tools", "which is not done here; leave it out, or send []"),
    ({"functions": [{}]}, "functions", "which is not done here"),
    ({"chat_template": "{{ 1 }}"}, "chat_template", "which is not done here"),
    ({"response_format": {"type": "json_object"}}, "response_format.type", "it takes text"),
    ({"top_logprobs": 2}, "top_logprobs", "with logprobs true alone"),
    ({"model": "hostile"}, "", "takes no conversations: the chat template uses the name '__globals__'"),
    ({"model": "echo"}, "", "echo is no model that has a chat template; those that do: hostile, talker"),
]


@pytest.mark.parametrize(
    ("path", "given", "field", "message"),
    [
        *(("/v1/completions", ASKED | changes, *more) for changes, *more in WRONG),
        *(("/v1/chat/completions", SAID | changes, *more) for changes, *more in WRONG_CHATS),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_what_is_wrong_is_refused_by_its_name(
    running: Running, path: str, given: dict[str, Any], field: str, message: str, stream: bool
) -> None:
    if stream and {"stream_options", "stream"} & given.keys():
        pytest.skip("is about streams itself")
    found = call(running, path, given | ({"stream": True} if stream else {}))
    assert found.status == 400, found.body
    error = found.error
    assert (error["param"] or "").startswith(field) and message in error["message"]
    assert error["type"] == "invalid_request_error"


def test_a_caller_who_leaves_stops_the_writing(running: Running) -> None:
    body = json.dumps(
        {"model": "endless", "prompt": ["the cat", "a dog"], "max_tokens": 100_000, "stream": True}
    ).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
    in_flight = 'limelight_inflight_requests{model="endless"}'
    with connected(running) as connection:
        connection.sendall(f"{head}\r\n\r\n".encode() + body)
        assert connection.recv(2**16).startswith(b"HTTP/1.1 200 ")
        assert scrape(running.server.metrics_port)[in_flight] == 2
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    assert eventually(lambda: scrape(running.server.metrics_port)[in_flight] == 0)
    assert complete(running)["choices"]


def test_a_stream_that_fails_ends_with_an_error(running: Running) -> None:
    asked = {"model": "endless", "prompt": "the cat", "max_tokens": 100_000, "stream": True}
    found = call(running, "/v1/completions", asked, headers={"x-request-timeout": "0.5"})
    *_, last, rest = found.body.decode().split("\n\n")
    assert found.status == 200 and rest == ""
    assert json.loads(last.removeprefix("data: "))["error"]["code"] == "deadline"


def test_callers_at_once_get_their_own(running: Running) -> None:
    def ask(place: int) -> Any:
        return complete(running, prompt=["the cat", "a mat"][place % 2], stream=bool(place % 3))

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(ask, range(24)))
    texts = [joined(each)[0] if isinstance(each, list) else each["choices"][0]["text"] for each in found]
    assert texts[::2] == texts[:1] * 12 and texts[1::2] == texts[1:2] * 12


def test_tokens_are_asked_for_and_their_rights_count(repository: Path, tmp_path: Path) -> None:
    token = new_token()
    (tmp_path / "tokens.toml").write_text(entry("one", token, {"methods": ["Predict"]}))
    with serving(repository, http_port=free_port(), tokens=str(tmp_path / "tokens.toml")) as running:
        for path, body in (("/v1/completions", ASKED), ("/v1/chat/completions", SAID)):
            wrong = call(running, path, body, headers={"authorization": "Bearer wrong"})
            assert wrong.status == 401 and wrong.error["code"] == "invalid_api_key"
            allowed = {"authorization": f"Bearer {token}"}
            assert call(running, path, body, headers=allowed).status == 200
            for more in ({"stream": True}, {"attention": {}}, {"explain": {}}):
                assert call(running, path, body | more, headers=allowed).status == 403


# As the scripts of the clients send it.
_BRIEF = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "the cat"}]


def test_openai_gets_texts_chats_streams_and_errors(running: Running, client_python: Callable[[str], Path]) -> None:
    found = found_by(client_python("openai"), "with_openai_completions.py", f"{base(running)}/v1", "talker")
    plain = complete(running, prompt=["the cat", "a"], max_tokens=5, logprobs=2, echo=True, n=2, seed=1)
    same = ("object", "model", "choices", "usage", "system_fingerprint")
    assert {name: without_nulls(found["completion"][name]) for name in same} == {
        name: without_nulls(plain[name]) for name in same
    }
    said = chat(running, messages=_BRIEF, max_tokens=5, logprobs=True, top_logprobs=1)
    assert without_nulls(found["chat"]["choices"]) == without_nulls(said["choices"])
    content = said["choices"][0]["message"]["content"]
    assert found["streamed"] == found["asynchronous"] == content and found["usage"]["completion_tokens"] <= 5
    assert found["text"] == complete(running, max_tokens=5)["choices"][0]["text"] and found["cut"] == 0
    assert "decoder.0.self" in found["maps"]
    (tools, model) = found["refused"]
    assert tools[:3] == ["BadRequestError", "tools", "invalid_input"] and "which is not done here" in tools[3]
    assert model[0] == "NotFoundError"


def without_nulls(value: Any) -> Any:
    """Leave out fields that are null: the client fills in those of its schema."""
    if isinstance(value, list):
        return [without_nulls(each) for each in value]
    if isinstance(value, dict):
        return {name: without_nulls(each) for name, each in value.items() if each is not None}
    return value


def test_langchain_gets_texts_and_chats(running: Running, client_python: Callable[[str], Path]) -> None:
    script = "with_langchain_completions.py"
    found = found_by(client_python("langchain-openai"), script, f"{base(running)}/v1", "talker")
    said = chat(running, messages=_BRIEF, max_tokens=5)
    content = said["choices"][0]["message"]["content"]
    assert found["chat"] == found["streamed"] == content and found["finish"] == said["choices"][0]["finish_reason"]
    assert found["usage"]["total_tokens"] == said["usage"]["total_tokens"]
    texts = [each["text"] for each in complete(running, prompt=["the cat", "a"], max_tokens=5)["choices"]]
    assert found["texts"] == texts and found["text"] == found["text_streamed"] == texts[0]
