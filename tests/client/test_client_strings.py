"""Every string that enters the client and cannot be sent is refused in one line, with its field and the place in it."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import limelight
from limelight.requests import Attention, Generation, Selection
from tests.kit.forwarder import Forwarder

HALF = "a\ud83d"
Act = Callable[[limelight.Client], Any]


def predict(inputs: Any, **options: Any) -> Act:
    return lambda client: client.predict("tiny", inputs, **options)


def attend(**options: Any) -> Act:
    return lambda client: client.attend("tiny", {"text": "a"}, **options)


@pytest.mark.parametrize(
    ("act", "field"),
    [
        (predict({"text": HALF}), 'instances[0].inputs["text"]'),
        (predict([{"text": "a"}, {"text": HALF}]), 'instances[1].inputs["text"]'),
        (predict({"text": ["a", HALF]}), 'instances[0].inputs["text"].sentences.texts[1]'),
        (predict({"text": limelight.Document(HALF)}), 'instances[0].inputs["text"]'),
        (predict({"text": limelight.Document(("b", HALF))}), 'instances[0].inputs["text"].sentences.texts[1]'),
        (predict({"text": ("b", HALF)}), 'instances[0].inputs["text"].second'),
        (predict({"text": limelight.Pair(HALF, "b")}), 'instances[0].inputs["text"].first'),
        (predict({HALF: "a"}), 'the name in instances[0].inputs["a\\ud83d"]'),
        (
            predict({"graph": limelight.Graph([[1.0]], [[0], [0]], node_names=[HALF])}),  # type: ignore[arg-type]
            'instances[0].inputs["graph"].node_names[0]',
        ),
        (lambda client: client.predict(HALF, {"text": "a"}), "model.name"),
        (lambda client: client.model(HALF), "model.name"),
        (predict({"text": "a"}, outputs=HALF), "outputs"),
        (predict({"text": "a"}, outputs=["b", HALF]), "outputs[1]"),
        (predict({"text": "a"}, generation=Generation(stop=[HALF])), "stop[0]"),
        (attend(maps=HALF), "maps"),
        (attend(selections=[Selection(maps=["b", HALF])]), "maps[1]"),
        (attend(key_groups={HALF: 0}), 'the name in key_groups["a\\ud83d"]'),
        (attend(query_groups={"g": [0, HALF]}), 'query_groups["g"]'),
        (attend(key_groups=limelight.Grouping(groups={"g": 0}, label_set=HALF)), "key_groups, the label set"),
        (lambda client: client.attend_stream("tiny", {"text": HALF}), 'instances[0].inputs["text"]'),
        (lambda client: client.generate("echo", {"text": HALF}), 'instance.inputs["text"]'),
        (lambda client: client.generate("echo", {"text": "a"}, stop=HALF), "stop"),
        (lambda client: client.generate("echo", {"text": "a"}, attention=Attention(maps=HALF)), "maps"),
        (lambda _: limelight.Client(f"127.0.0.1:1{HALF[1:]}"), "target"),
        (lambda _: limelight.AsyncClient(f"127.0.0.1:1{HALF[1:]}"), "target"),
        (lambda _: limelight.Client(server_name=HALF, tls=True), "server_name"),
        (lambda _: limelight.Client(options=[("grpc.primary_user_agent", HALF)]), "option grpc.primary_user_agent"),
        (lambda _: limelight.Client(metadata=[(HALF, "b")]), "metadata[0], the name"),
        (lambda _: limelight.Client(metadata=[("x-b", "c"), ("x-request-id", HALF)]), "metadata[1], 'x-request-id'"),
    ],
)
def test_half_a_surrogate_pair_is_refused_with_its_field_and_place(
    client: limelight.Client, server: Forwarder, act: Act, field: str
):
    with pytest.raises(limelight.InputError, match=r"character \d+ ") as refused:
        act(client)
    error = refused.value
    assert (error.field, error.code.name) == (field, "INVALID_ARGUMENT")
    assert isinstance(error, ValueError) and not isinstance(error, UnicodeError)
    assert str(error).startswith(f"{field}: character ") and "\n" not in str(error)
    str(error).encode()  # so that it can be printed and logged anywhere
    assert server.requests == []
    assert pickle.loads(pickle.dumps(error)).field == field


def test_characters_outside_the_basic_plane_and_noncharacters_are_sent(client: limelight.Client, server: Forwarder):
    text = "\U0001f600\uffff\u0000\U0010ffff"
    client.predict("tiny", {"text": text})
    assert server.requests[-1].instances[0].inputs["text"].text == text


def test_a_file_that_is_not_utf8_is_named_with_the_place(client: limelight.Client, tmp_path: Path):
    (tmp_path / "a.txt").write_bytes("7. März".encode("latin-1"))
    with pytest.raises(limelight.InputError, match=r'inputs\["text"\]: byte 4 of .*a\.txt \(0xe4\) is not UTF-8'):
        client.predict("tiny", {"text": tmp_path / "a.txt"})
    (tmp_path / "b.txt").write_bytes("7. März\r\nb\rc\n".encode())
    assert client.predict("tiny", {"text": tmp_path / "b.txt"}).label


@pytest.mark.parametrize("name", ["none.txt", "none.png", "empty.npy", "\ud800.txt", "a.bin"])
def test_a_file_that_cannot_be_sent_is_an_input_error_or_one_of_the_system(
    client: limelight.Client, tmp_path: Path, name: str
):
    (tmp_path / "empty.npy").touch()
    with pytest.raises((limelight.InputError, OSError)) as refused:
        client.predict("tiny", {"text": tmp_path / name})
    assert not isinstance(refused.value, UnicodeError)


@pytest.mark.parametrize("entry", [("X-A", "b"), ("x-a", "two\nlines"), ("x-a", "é"), ("grpc-x", "b"), ("x-a", b"b")])
def test_metadata_that_cannot_be_sent_is_refused_at_once_and_not_shown(entry: tuple[str, Any]):
    with pytest.raises(limelight.InputError, match=r"metadata\[1\]") as refused:
        limelight.Client(metadata=[("authorization", "secret"), entry])
    assert "secret" not in str(refused.value) and "two" not in str(refused.value)
    limelight.Client(metadata=[("x-a-bin", b"\xff"), ("x_a.b-1", "any text ~")]).close()
