"""Instances in the short form of JSON are read as those that state the kind of each value."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from limelight.v1 import model_pb2, values_pb2
from limelight_bundle.errors import InputError
from limelight_bundle.values import Audio, Image, Pair, Sentences, TensorValue, Text
from limelight_service.codecs.json.instances import JsonInstances
from tests.kit import bundles
from tests.kit.serving import Running, free_port, serving
from tests.service.http.calls import call, events

KINDS = ("text", "document", "pair", "image", "graph", "audio", "tensor")


def short(value: Any) -> Any:
    """A value without its kind."""
    ((kind, content),) = value.items()
    if kind == "document":
        return content["text"] if "text" in content else content["sentences"]["texts"]
    if kind == "pair":
        return [content["first"], content["second"]]
    if kind == "audio":
        return content["wav"]
    return content["data"] if kind == "tensor" else content


def outputs(running: Running, model: str, instances: list[Any]) -> list[Any]:
    answer = call(running, f"/v1/models/{model}:predict", {"instances": instances})
    assert answer.status == 200, answer.body
    return [each["outputs"] for each in answer.json["predictions"]]


@pytest.mark.parametrize("model", ["tiny", "paper", "picture", "echo", "noisy", "web"])
def test_every_model_takes_its_examples_without_kinds_and_without_names(running: Running, model: str) -> None:
    examples = call(running, f"/v1/models/{model}").json["description"]["examples"]
    expected = outputs(running, model, [{**each, "seed": 7} for each in examples])
    named = [{name: short(value) for name, value in each["inputs"].items()} for each in examples]
    assert outputs(running, model, [{**each, "seed": 7} for each in named]) == expected
    assert outputs(running, model, [{"inputs": each, "seed": 7} for each in named]) == expected
    if model not in ("web", "noisy"):  # a graph is an object, as values by their names are; a text alone has no seed
        assert outputs(running, model, [next(iter(each.values())) for each in named]) == expected


def test_one_line_is_enough_for_every_method(running: Running) -> None:
    attended = call(running, "/v1/models/tiny:attend", {"instances": ["the cat"], "attention": {}})
    assert attended.status == 200 and attended.json["results"][0]["maps"]
    for path, body in (
        ("/v1/models/echo:generate", {"instance": "the cat"}),
        ("/v1/models/echo:generate", {"instance": {"text": "the cat", "seed": 3}}),
        ("/v1/models/tiny:attendStream", {"instances": ["the cat"], "attention": {}}),
    ):
        assert events(call(running, path, body))[-1][0] == "end"


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("asked")
    bundles.glance(folder, asked=True)
    with serving(folder, http_port=free_port()) as running:
        yield running


def test_a_value_alone_is_refused_with_the_long_form_where_the_model_takes_several(asked: Running) -> None:
    answer = call(asked, "/v1/models/glance:predict", {"instances": ["what is it?"]})
    assert (answer.status, answer.field) == (400, "instances[0]")
    long = '{"inputs": {"image": {"image": …}, "question": {"text": …}}}'
    assert long in answer.error["message"]
    example = call(asked, "/v1/models/glance").json["description"]["examples"][0]["inputs"]
    picture = {"b64": example["image"]["image"]}
    named = {"instances": [{"image": picture, "question": example["question"]["text"]}]}
    assert call(asked, "/v1/models/glance:predict", named).status == 200


def read(kind: str, value: Any) -> Any:
    """What a model of one input of this kind takes of a value alone."""
    tensor = model_pb2.TensorDescription(name="numbers", data_type=values_pb2.DATA_TYPE_FLOAT32)
    one = model_pb2.InputDescription(
        name="numbers" if kind == "tensor" else "input",
        kind=model_pb2.InputKind.Value(f"INPUT_KIND_{kind.upper()}"),  # type: ignore[arg-type]
        tensors=[tensor],
    )
    schema: Any = SimpleNamespace(
        description=SimpleNamespace(inputs=[one]), preprocessor=SimpleNamespace(check_names=lambda names, path: None)
    )
    (found,) = JsonInstances([value], 0).read(0, schema).values()
    return found


def test_the_input_decides_the_kind_of_a_value() -> None:
    assert read("text", "a") == read("document", "a") == Text("a")
    assert read("document", ["a", "b"]) == Sentences(("a", "b"))
    assert read("pair", ["a", "b"]) == Pair("a", "b")
    assert read("image", "YQ==") == Image(b"a") and read("audio", "YQ==") == Audio(b"a")
    found = read("tensor", [[1, 2.5]])
    assert isinstance(found, TensorValue) and found.array.tolist() == [[1.0, 2.5]] and found.array.dtype == "float32"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [5, "é", ["a", 5], [[]], [None], True, ["a", "b", "c"]], ids=str)
def test_a_value_that_an_input_does_not_take_is_refused_by_its_path(kind: str, value: Any) -> None:
    try:
        found = read(kind, value)
    except InputError as error:
        assert error.path[:3] == ("instances", 0, "inputs")
    else:
        assert isinstance(found, Text | Sentences | TensorValue)
