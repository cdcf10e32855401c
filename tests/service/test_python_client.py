"""The Python client and a real server: values without names, pixels, and any number of instances."""

import asyncio
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import limelight
from limelight.v1 import values_pb2
from tests.kit import bundles
from tests.kit.serving import Running, serving

MOST = 8  # instances that this server takes in one call
TEXTS = [" ".join(bundles.WORDS[place % len(bundles.WORDS)] for place in range(number % 5 + 1)) for number in range(50)]


@pytest.fixture(scope="module")
def running(repository: Path) -> Iterator[Running]:
    with serving(repository, max_instances=MOST) as running:
        yield running


@pytest.fixture
def client(running: Running) -> Iterator[limelight.Client]:
    with limelight.Client(running.server.address, timeout=30) as client:
        yield client


def many(running: Running, *arguments: Any, is_async: bool, method: str = "predict_many", **options: Any) -> list[Any]:
    """All answers, of one client or the other."""
    if not is_async:
        with limelight.Client(running.server.address, timeout=30) as client:
            return list(getattr(client, method)(*arguments, **options))

    async def collect() -> list[Any]:
        async with limelight.AsyncClient(running.server.address, timeout=30) as client:
            return [each async for each in getattr(client, method)(*arguments, **options)]

    return asyncio.run(collect())


both = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


@pytest.mark.parametrize("method", ["predict", "attend"])
def test_too_many_instances_for_one_call_are_told_of_calls_for_any_number(client: limelight.Client, method: str):
    with pytest.raises(limelight.ResourceExhausted, match=f"has 50 entries; at most {MOST} .*; predict_many and atten"):
        getattr(client, method)("tiny", TEXTS)


def test_a_value_alone_is_the_only_input_of_its_model(client: limelight.Client, running: Running):
    text = TEXTS[3]
    named = client.attend("tiny", {"text": text})
    assert client.attend("tiny", text).maps == named.maps
    assert [each.label for each in client.predict("tiny", TEXTS[:3])] == [
        client.predict("tiny", {"text": each}).label for each in TEXTS[:3]
    ]
    value = values_pb2.Value(text=text)
    assert client.predict("tiny", value).results == named.prediction.results
    *_, end = client.generate("echo", text)
    assert isinstance(end, limelight.GenerationEnd) and end.text == client.predict("echo", {"text": text}).text
    (answer,) = limelight.put_together(client.attend_stream("tiny", text))
    assert [each.name for each in answer.maps] == [each.name for each in named.maps]

    async def alone() -> Any:
        async with limelight.AsyncClient(running.server.address, timeout=30) as client:
            events = [each async for each in client.generate("echo", text)]
            stream = [each async for each in client.attend_stream("tiny", [text])]
            return await client.attend("tiny", text), events[-1], limelight.put_together(stream)

    answer, last, streamed = asyncio.run(alone())
    assert answer.maps == named.maps and last.text == end.text and len(streamed) == 1


def test_pictures_come_as_pixels_images_and_files_of_any_name(client: limelight.Client, tmp_path: Path):
    grey = np.arange(16, dtype=np.uint8).reshape(4, 4) * 16
    (tmp_path / "picture.unknown").write_bytes(bundles.png(grey))
    expected = client.predict("picture", {"image": bundles.png(grey)}).results
    forms = [
        grey,
        Image.fromarray(grey),
        tmp_path / "picture.unknown",
        limelight.Image(grey),
        Image.fromarray(grey).convert("RGBA"),
    ]
    for form in forms:
        assert client.predict("picture", form).results == expected  # type: ignore[arg-type]
        assert client.predict("picture", {"image": form}).results == expected  # type: ignore[dict-item]
    turned = Image.fromarray(np.rot90(grey))
    turned.getexif()[0x0112] = 6  # to be turned by a quarter, clockwise
    turned.save(data := io.BytesIO(), "PNG", exif=turned.getexif())
    assert client.predict("picture", Image.open(data)).results == client.predict("picture", data.getvalue()).results
    assert client.predict("picture", Image.open(data)).results == expected


@pytest.mark.parametrize(
    ("model", "value", "error", "message"),
    [
        ("picture", "digit.png", limelight.InputError, r"is of kind image, and this is a string.*pathlib.Path\('digit"),
        ("picture", np.zeros((4, 4)), TypeError, "pixels are uint8"),
        ("tiny", Path("/nowhere/at.all"), FileNotFoundError, "at.all"),
        ("nobody", "text", limelight.NotFound, "nobody"),
        ("tiny", 3, TypeError, "a int cannot be an input"),
    ],
)
def test_a_value_of_another_kind_is_refused_with_what_to_give(
    client: limelight.Client, model: str, value: Any, error: type[Exception], message: str
):
    with pytest.raises(error, match=message):
        client.predict(model, value)


@both
def test_many_instances_are_split_at_the_servers_limit_and_stay_in_order(running: Running, is_async: bool):
    told: list[tuple[int, int | None]] = []
    answers = many(running, "tiny", TEXTS, is_async=is_async, progress=lambda *each: told.append(each))
    with limelight.Client(running.server.address) as client:
        assert [each.results for each in answers] == [client.predict("tiny", each).results for each in TEXTS]
    assert told[-1] == (len(TEXTS), len(TEXTS)) and told == sorted(told)
    attended = many(running, "tiny", iter(TEXTS), is_async=is_async, method="attend_many", maps="*")
    assert [each.prediction.results for each in attended] == [each.results for each in answers]
    assert all(each.maps for each in attended)
    assert many(running, "tiny", [], is_async=is_async) == []


@both
def test_instances_that_fail_are_errors_at_their_places_and_the_others_go_on(
    running: Running, is_async: bool, tmp_path: Path
):
    inputs: list[Any] = list(TEXTS)
    inputs[3] = {"txet": "a"}  # the server refuses it
    inputs[4] = {"text": " ".join(["a"] * 1000)}  # too long for the model
    inputs[17] = tmp_path / "missing.txt"
    inputs[18] = "\ud83d"
    inputs[40] = 3
    answers = many(running, "tiny", inputs, is_async=is_async, concurrency=2)
    failed = {place: each for place, each in enumerate(answers) if isinstance(each, limelight.Error)}
    assert sorted(failed) == [3, 4, 17, 18, 40] and len(answers) == len(inputs)
    assert isinstance(failed[3], limelight.InvalidArgument) and failed[3].field == 'instances[3].inputs["txet"]'
    assert (
        failed[4].field is not None and failed[4].field.startswith("instances[4]") and "instances[4]" in str(failed[4])
    )
    assert "missing.txt" in str(failed[17]) and "surrogate" in str(failed[18]) and "int cannot be" in str(failed[40])
    rest = [each.results for each in answers if isinstance(each, limelight.Prediction)]
    with limelight.Client(running.server.address) as client:
        assert rest == [client.predict("tiny", each).results for n, each in enumerate(TEXTS) if n not in failed]


@both
@pytest.mark.parametrize(
    ("model", "options", "error", "message"),
    [
        ("nobody", {}, limelight.NotFound, "nobody"),
        ("tiny", {"maps": "no.such.map"}, limelight.InvalidArgument, "matches no map"),
        ("tiny", {"map": "*"}, TypeError, "did you mean 'maps'"),
        ("tiny", {"batch_size": 0}, ValueError, "batch_size is at least 1"),
        ("tiny", {"concurrency": 0}, ValueError, "concurrency is at least 1"),
    ],
)
def test_what_every_call_would_get_is_raised_at_once(
    running: Running, is_async: bool, model: str, options: dict[str, Any], error: type[Exception], message: str
):
    with pytest.raises(error, match=message):
        many(running, model, TEXTS, is_async=is_async, method="attend_many", **options)


@both
def test_a_selection_that_some_instances_lack_fails_those(running: Running, is_async: bool):
    answers = many(running, "tiny", TEXTS[:10], is_async=is_async, method="attend_many", maps="encoder.*", queries=[4])
    lengths = [len(text.split()) for text in TEXTS[:10]]
    with limelight.Client(running.server.address) as client:
        tokens = [len(client.attend("tiny", each).maps[0].query) for each in TEXTS[:10]]
    assert min(tokens) <= 4 < max(tokens), lengths
    assert [isinstance(each, limelight.InvalidArgument) for each in answers] == [size <= 4 for size in tokens]


@pytest.mark.parametrize("one", ["a text", {"text": "a text"}, b"RIFF"])
def test_one_instance_is_not_taken_for_several(client: limelight.Client, one: Any):
    for call in (client.predict_many, client.attend_many, limelight.AsyncClient("127.0.0.1:1").predict_many):
        with pytest.raises(TypeError, match=r"several instances are expected, .*: give a list"):
            call("tiny", one)


def test_instances_are_read_no_further_ahead_than_they_are_sent(client: limelight.Client):
    read = 0

    def texts() -> Iterator[str]:
        nonlocal read
        for number in range(10_000):
            read = number
            yield TEXTS[number % len(TEXTS)]

    answers = client.predict_many("tiny", texts(), batch_size=4, concurrency=2)
    for _ in range(10):
        assert isinstance(next(answers), limelight.Prediction)
    answers.close()  # type: ignore[attr-defined]
    assert read <= 10 + 4 * 2 * 2 + 4


def test_a_bar_shows_the_progress(client: limelight.Client, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("tqdm", reason="tqdm is not installed")
    assert len(list(client.predict_many("tiny", TEXTS, progress=True))) == len(TEXTS)
    assert "50/50" in capsys.readouterr().err
