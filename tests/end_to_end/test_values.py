"""Values of maps from PyTorch to a socket, and the effective attention that follows from them."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

import limelight
from limelight import cli, export
from limelight.v1 import attention_pb2, service_pb2, values_pb2
from limelight_bundle.preprocess import Preprocessor
from limelight_bundle.reader import read_bundle
from limelight_export import Card, Embedding, Mask, export_module
from limelight_export.importing.huggingface.importer import import_checkpoint
from limelight_export.pipeline import export_model
from tests.importing.huggingface.decoders import DECODERS
from tests.importing.huggingface.encoders import ENCODERS
from tests.kit import examples, small
from tests.kit.serving import Running, free_port, serving
from tests.service.by_protocol import DOORS, ask, infer_by
from tests.service.open_inference.calls import infer_request

pytestmark = pytest.mark.timeout(900)
TEXTS = ("a", "the cats sat on a mat and the dog ran")
HEADS = 2


class Frames(nn.Module):
    """Frames -> a vector, by PyTorch's own multi-head attention."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, HEADS, batch_first=True)

    def forward(self, frames: Tensor, real: Tensor) -> Tensor:
        made: Tensor = self.attention(frames, frames, frames, key_padding_mask=~real)[0]
        return (made * real[..., None]).sum(1)


FRAMES = Card(
    name="frames",
    inputs={
        "frames": export.Tensor(axes={"frame": None, "feature": 8}, largest={"frame": 300}, mask=Mask(name="real"))
    },
    results={"vector": Embedding()},
)


@dataclass(frozen=True)
class Served:
    """A server, its client, and the models in PyTorch."""

    running: Running
    client: limelight.Client
    repository: Path
    models: dict[str, Any]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A model of ours, one with feature-wise weights, encoder and decoder with grouped queries, a module of PyTorch."""
    repository, folders = tmp_path_factory.mktemp("repository"), tmp_path_factory.mktemp("checkpoints")
    torch.manual_seed(0)
    models: dict[str, Any] = {name: small.trained(name) for name in ("vit", "disan")}
    for each in models.values():
        export_model(each, repository, interventions=each is models["vit"])
    for kind, auto in (
        (ENCODERS["eurobert"], AutoModelForSequenceClassification),
        (DECODERS["qwen2"], AutoModelForCausalLM),
    ):
        name = "decoder" if auto is AutoModelForCausalLM else "encoder"
        folder = kind.write(folders / name, **({"max_position_embeddings": 320} if name == "decoder" else {}))
        import_checkpoint(folder, repository, interventions=False)
        models[name] = auto.from_pretrained(folder, attn_implementation="eager").eval()
    models["frames"] = Frames().eval()
    frames = {"frames": np.ones((3, 8), np.float32)}
    export_module(models["frames"], card=FRAMES, examples=[frames], repository=repository)
    with serving(repository, http_port=free_port()) as running, limelight.Client(running.server.address) as client:
        yield Served(running, client, repository, models)


def projected(model: nn.Module, run: Callable[[], object], ends: str, size: int) -> list[NDArray[np.float32]]:
    """Run a model on one row, and return what each of its value projections gives: [head, key, size]."""
    found: list[Tensor] = []
    handles = [
        each.register_forward_hook(lambda module, given, made: found.append(made[0]))
        for name, each in model.named_modules()
        if name.endswith(ends)
    ]
    with torch.no_grad():
        run()
    for handle in handles:
        handle.remove()
    return [each.unflatten(-1, (-1, size)).transpose(0, 1).numpy() for each in found]


def check(found: limelight.AttentionMap, expected: NDArray[np.float32]) -> None:
    assert (found.quantity, found.axes, found.signed) == ("values", ("head", "key", "feature"), True)
    assert found.weights.shape == expected.shape and len(found.query) == 1 and len(found.key) == expected.shape[1]
    np.testing.assert_allclose(found.weights, expected, atol=2e-5)


def test_values_of_our_models_are_those_of_pytorch(served: Served) -> None:
    """Several in a batch; heads and keys that are selected, and another encoding."""
    trained, pictures = served.models["vit"], [examples.picture(seed) for seed in range(3)]
    described = served.client.model("vit").maps
    preprocessor = Preprocessor(read_bundle(served.repository / "vit" / "1"))
    answers = served.client.attend("vit", [{"image": each.data} for each in pictures], quantity="values")
    for picture, answer in zip(pictures, answers, strict=True):
        tensors = small.batch(trained.card, [preprocessor.row({"image": picture})])
        size = described[0].value_size
        expected = projected(trained.model, lambda: trained.model(**tensors), "value_map", size)  # noqa: B023
        assert len(answer.maps) == len(expected) == len(described)
        for each, values in zip(described, expected, strict=True):
            assert "values" in each.quantities and each.value_size == values.shape[2]
            check(answer[each.name], values)
        some = served.client.attend(
            "vit", {"image": picture.data}, layers=-1, heads=[1], keys=[0, -1], quantity="values", encoding="float16"
        )
        (last,) = some.maps
        assert (last.name, last.heads, last.key.indices) == (described[-1].name, (1,), (0, values.shape[1] - 1))
        np.testing.assert_allclose(last.weights, expected[-1][1:, [0, -1]], rtol=1e-3, atol=1e-3)
        np.testing.assert_array_equal(last.head(1), last.weights[0])


@pytest.mark.parametrize(("name", "stack"), [("encoder", "encoder"), ("decoder", "prompt")])
def test_heads_of_a_group_have_the_same_values(name: str, stack: str, served: Served) -> None:
    """Imported models with grouped queries: values are those of v_proj, in the heads of the map."""
    model = served.models[name]
    groups = model.config.num_attention_heads // model.config.num_key_value_heads
    assert groups == 2
    answers = served.client.attend(name, [{"text": each} for each in TEXTS], quantity="values", maps=f"{stack}.*")
    for answer in answers:
        ids = torch.tensor([answer.maps[0].key.ids.tolist()])
        size = answer.maps[0].weights.shape[2]
        expected = projected(model, lambda: model(input_ids=ids), "v_proj", size)  # noqa: B023
        assert [each.name for each in answer.maps] == [f"{stack}.{layer}.self" for layer in range(len(expected))]
        for each, values in zip(answer.maps, expected, strict=True):
            check(each, values.repeat(groups, axis=0))


def test_values_and_weights_of_a_module_make_its_output(served: Served) -> None:
    module, random = served.models["frames"].attention, np.random.default_rng(1)
    frames = {"frames": random.standard_normal((7, 8), dtype=np.float32)}
    weights = served.client.attend("frames", frames)
    values = served.client.attend("frames", frames, quantity="values")
    ((name, of_values),) = values.items()
    context = (weights[name].weights @ of_values.weights).transpose(1, 0, 2).reshape(7, -1)
    with torch.no_grad():
        vector = module.out_proj(torch.from_numpy(context)).sum(0)
    np.testing.assert_allclose(weights.prediction.embedding, vector, atol=1e-5)


def test_effective_attention_gives_the_same_output(served: Served) -> None:
    """More keys than features: other weights would give it too. With few keys none would."""
    picture = {"image": examples.picture(1).data}
    weights = served.client.attend("vit", picture)
    values = served.client.attend("vit", picture, quantity="values")
    for name, each in weights.items():
        effective = limelight.effective_attention(each, values[name])
        np.testing.assert_allclose(effective @ values[name].weights, each.weights @ values[name].weights, atol=1e-6)
        assert np.abs(effective - each.weights).max() > 0.01
    few = served.client.attend("vit", picture, keys=[0, 1, 2])
    vectors = served.client.attend("vit", picture, keys=[0, 1, 2], quantity="values")
    for name, each in few.items():
        np.testing.assert_allclose(limelight.effective_attention(each, vectors[name]), each.weights, atol=1e-4)


def test_the_command_line_shows_lengths_and_writes_vectors(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    call = ["attend", "encoder", TEXTS[1], "--quantity", "values", "--target", served.running.server.address]
    assert cli.main(call) == 0
    assert "encoder.1.self · lengths of values · mean of 4 heads" in capsys.readouterr().out
    assert cli.main([*call, "--head", "1", "--layer", "-1", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["maps"]
    (expected,) = served.client.attend("encoder", {"text": TEXTS[1]}, heads=1, layers=-1, quantity="values").maps
    assert (found["name"], found["axes"], found["heads"]) == ("encoder.1.self", ["head", "key", "feature"], [1])
    np.testing.assert_allclose(found["weights"], expected.weights, rtol=1e-6)


def test_evaluate_measures_how_much_of_the_weights_has_no_effect(served: Served, tmp_path: Path) -> None:
    rows, out = tmp_path / "rows.jsonl", tmp_path / "report.json"
    rows.write_text("".join(json.dumps({"text": each}) + "\n" for each in TEXTS))
    call = ["evaluate", "encoder", "--data", str(rows), "--measure", "effective", "--out", str(out)]
    assert cli.main([*call, "--target", served.running.server.address]) == 0
    (section,) = (each for each in json.loads(out.read_text())["sections"] if each["name"] == "effective")
    found = {(each["subject"], each["name"]): each["value"] for each in section["figures"]}
    texts = [{"text": each} for each in TEXTS]
    both = zip(
        served.client.attend("encoder", texts), served.client.attend("encoder", texts, quantity="values"), strict=True
    )
    lost = []
    for weights, values in both:
        each, vectors = weights.maps[0], values.maps[0]
        rest = each.weights - limelight.effective_attention(each, vectors)
        lost.append(np.linalg.norm(rest) / np.linalg.norm(each.weights))
    assert lost[1] > 0.01 and found["encoder.0.self", "weight without effect"] == pytest.approx(np.mean(lost), abs=1e-5)
    assert 0 < found["encoder.0.self", "correlation with weights"] < 1


def test_values_under_an_intervention_are_those_of_the_changed_model(served: Served) -> None:
    """Of the first layer they are as they were, and of the second they follow from the change."""
    picture = {"image": examples.picture(1).data}
    first, second = (each.name for each in served.client.model("vit").maps)
    usual = served.client.attend("vit", picture, quantity="values")
    masked = served.client.attend(
        "vit", picture, quantity="values", interventions=[limelight.scale_heads(first, {0: 0})]
    )
    np.testing.assert_allclose(masked[first].weights, usual[first].weights, atol=1e-5)
    assert np.abs(masked[second].weights - usual[second].weights).max() > 0.01


def attend(name: str, instance: values_pb2.Instance, **options: Any) -> service_pb2.AttendRequest:
    made = service_pb2.AttendRequest(instances=[instance])
    made.model.name = name
    made.attention.CopyFrom(attention_pb2.AttentionOptions(quantity=attention_pb2.QUANTITY_VALUES, **options))
    return made


@pytest.mark.parametrize("door", DOORS)
def test_what_has_no_values_is_refused_and_the_next_request_answered(door: str, served: Served) -> None:
    text = values_pb2.Instance(inputs={"text": values_pb2.Value(text=TEXTS[1])})
    found = ask(served.running, door, attend("disan", text))
    assert (found.code, found.field) == ("INVALID_ARGUMENT", "attention.quantity")
    assert "is VALUES, which no map of the model has; a map has them if" in found.message
    for options, field in (
        ({"reduce_heads": attention_pb2.HEAD_REDUCTION_MEAN}, "attention.reduce_heads"),
        ({"top_k": 2}, "attention.top_k"),
        ({"rollout": True}, "attention.rollout"),
        ({"pool": attention_pb2.Pool(size=2)}, "attention.pool"),
        ({"encoding": attention_pb2.ENCODING_UINT8}, "attention.encoding"),
        ({"selections": [attention_pb2.MapSelection(queries=[0])]}, "attention.selections[0].queries"),
        ({"selections": [attention_pb2.MapSelection(heads=[9])]}, "attention.selections[0].heads[0]"),
        ({"selections": [attention_pb2.MapSelection(names=["decoder.0.self"])]}, "attention.quantity"),
    ):
        found = ask(served.running, door, attend("decoder", text, **options))
        assert (found.code, found.field) == ("INVALID_ARGUMENT", field), found
    picture = values_pb2.Instance(inputs={"image": values_pb2.Value(image=examples.picture(1).data)})
    found = ask(served.running, door, attend("vit", picture, max_response_bytes=2200))  # of 1,600 that are values
    assert (found.code, found.reason) == ("RESOURCE_EXHAUSTED", "TOO_LARGE") and "FLOAT16 would fit" in found.message
    stream = service_pb2.AttendStreamRequest(instances=[text], attention=attend("decoder", text).attention)
    stream.model.name = "decoder"
    found = ask(served.running, door, stream)
    assert (found.code, found.field) == ("INVALID_ARGUMENT", "attention.quantity") and "use Attend" in found.message
    good = ask(served.running, door, attend("decoder", text)).results[0].maps
    assert [each.name for each in good] == ["prompt.0.self", "prompt.1.self"]
    assert {(each.query_labels, each.key_labels, len(each.weights.shape)) for each in good} == {("", "prompt", 3)}


@pytest.mark.parametrize("door", DOORS)
def test_values_by_the_open_inference_protocol(door: str, served: Served) -> None:
    """One tensor, the rows first; shorter rows are filled up."""
    texts = np.array([[each.encode()] for each in TEXTS], object)
    request = infer_request("encoder", {"text": texts}, ("encoder.0.self", {"limelight_quantity": "values"}))
    found = infer_by(served.running, door, request)
    shape = found["outputs"][0]["shape"] if door == "http" else list(found.outputs[0].shape)
    whole = served.client.attend(
        "encoder", [{"text": each} for each in TEXTS], quantity="values", maps="encoder.0.self"
    )
    assert shape == [2, *whole[1]["encoder.0.self"].weights.shape]
    if door == "http":
        rows = np.array(found["outputs"][0]["data"], np.float32).reshape(shape)
    else:
        rows = np.frombuffer(found.raw_output_contents[0], np.float32).reshape(shape)
    for row, answer in zip(rows, whole, strict=True):
        values = answer["encoder.0.self"].weights
        np.testing.assert_allclose(row[:, : values.shape[1]], values, atol=1e-6)
