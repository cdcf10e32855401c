"""`export_module`: any PyTorch module, with a card in plain Python."""

import re
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image as Picture
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

import limelight
from limelight import export
from limelight_bundle.maps import VALUES
from limelight_bundle.reader import BundleFolder
from limelight_bundle.v1 import bundle_pb2
from limelight_export import Boxes, Card, Classes, Embedding, Map, Mask, Numbers, export_module
from limelight_export.errors import ExportError
from limelight_models.attention.export_markers import marked_attention
from tests.kit.serving import Running, serving

PAGE = Path(__file__).resolve().parents[2] / "docs" / "import-module.md"
SIZE = 8


class Sdpa(nn.Module):
    """Self-attention by PyTorch's function, imported by its own name; a bias where there is one."""

    def __init__(self, heads: int = 2) -> None:
        super().__init__()
        self.project, self.heads = nn.Linear(SIZE, 3 * SIZE), heads

    def forward(self, features: Tensor, mask: Tensor | None, causal: bool = False) -> Tensor:
        split = (each.unflatten(-1, (self.heads, -1)).transpose(1, 2) for each in self.project(features).chunk(3, -1))
        return scaled_dot_product_attention(*split, attn_mask=mask, is_causal=causal).transpose(1, 2).flatten(2)


class Several(nn.Module):
    """Frames -> a vector, numbers and scores in nested results: each kind of attention that is found, and one's own."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(4, SIZE)
        self.masked, self.causal, self.biased = Sdpa(), Sdpa(), Sdpa()
        self.cross = nn.MultiheadAttention(SIZE, 2, batch_first=True)
        self.slots = nn.Parameter(torch.randn(3, SIZE))
        self.read = nn.Linear(SIZE, 2)

    def forward(self, frames: Tensor, real: Tensor) -> tuple[Tensor, dict[str, Tensor], list[Tensor]]:
        x = self.embed(frames)
        keys = (real != 0)[:, None, None, :]
        x = x + self.masked(x, keys)
        x = x + self.causal(x, None, causal=True)
        places = torch.arange(x.shape[1])
        distance = (places[:, None] - places).abs().float() * -0.1
        x = x + self.biased(x, torch.where(keys, distance, torch.tensor(-1e9)))
        slots = self.slots.expand(x.shape[0], -1, -1)
        slots, shown = self.cross(slots, x, x, key_padding_mask=real == 0, average_attn_weights=False)
        scores = (x @ slots.transpose(1, 2)).masked_fill((real == 0).unsqueeze(-1), -1e9)
        own = scores.softmax(1)  # [batch, frame, slot]: each slot looks at frames
        return slots.mean(1), {"numbers": self.read(slots[:, 0])}, [own, shown]


SEVERAL = Card(
    name="several",
    inputs={
        "frames": export.Tensor(
            axes={"frame": None, "feature": 4}, largest={"frame": 300}, mask=Mask(name="real", dtype="int64")
        )
    },
    results={"vector": Embedding(output="0"), "numbers": Numbers(output="1.numbers", units={"x": "m", "y": ""})},
    maps={
        "slots": Map(output="2.0", axes=["batch", "key", "query"], query="slot", key="frame"),
        "shown": Map(output="2.1", query="slot", key="frame"),
    },
    labels={"slot": 3},
)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("modules")


@pytest.fixture(scope="module")
def several(repository: Path) -> tuple[Several, BundleFolder]:
    torch.manual_seed(0)
    module = Several().eval()
    examples = [{"frames": np.ones((3, 4))}, [[0.5, 1, 2, 3]], torch.randn(5, 4)]
    return module, export_module(
        module, card=SEVERAL, examples=examples, repository=repository, references=examples * 34
    )


@pytest.fixture(scope="module")
def page(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Names that the code of the documentation's page defines, run in a folder of its own."""
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("page")
        patch.chdir(folder)
        (folder / "models").symlink_to(repository)
        torch.manual_seed(0)
        exec(
            compile(
                code.replace("export_module(Reviews()", "module = Reviews()\nexport_module(module"), str(PAGE), "exec"
            ),
            names,
        )
    return names


class Finder(nn.Module):
    """Three queries over four cells of a picture: scores of two classes and of no object, and a box each."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.queries = nn.Linear(3, SIZE), nn.Parameter(torch.randn(3, SIZE))
        self.look = nn.MultiheadAttention(SIZE, 2, batch_first=True)
        self.classify, self.frame = nn.Linear(SIZE, 3), nn.Linear(SIZE, 4)

    def forward(self, pixels: Tensor) -> dict[str, Tensor]:
        cells = pixels.unflatten(3, (2, 4)).unflatten(2, (2, 4)).mean((3, 5)).flatten(2).transpose(1, 2)
        cells = self.embed(cells)
        queries = self.queries.expand(cells.shape[0], -1, -1)
        found, look = self.look(queries, cells, cells, average_attn_weights=False)
        return {"logits": self.classify(found), "boxes": self.frame(found).sigmoid(), "look": look}


FINDER = Card(
    name="finder",
    inputs={"image": export.Image(rows=8, columns=8, tensor="pixels", patches=(2, 2))},
    results={
        "objects": Boxes(labels=["cat", "dog"], output="logits", boxes="boxes", over="query", threshold=0.2),
    },
    maps={"look": Map(output="look", query="query", key="patches")},
    labels={"query": 3},
    licence="MIT",
)


@pytest.fixture(scope="module")
def finder(repository: Path) -> Finder:
    torch.manual_seed(0)
    module = Finder().eval()
    export_module(module, card=FINDER, examples=[Picture.new("RGB", (8, 8), "red")], repository=repository)
    return module


@pytest.fixture(scope="module")
def server(repository: Path, page: dict[str, Any], several: object, finder: object) -> Iterator[Running]:
    with serving(repository) as running:
        yield running


@pytest.fixture
def client(server: Running) -> Iterator[limelight.Client]:
    with limelight.Client(f"127.0.0.1:{server.server.port}") as made:
        yield made


def test_the_module_of_the_documentation_is_served_with_its_own_attention(
    page: dict[str, Any], client: limelight.Client
) -> None:
    text = "the film was not good"
    answer = client.attend("own-reviews", {"text": text})
    module = page["module"].eval()
    ids = torch.tensor([page["tokenizer"].encode(text).ids])
    padding = torch.zeros_like(ids, dtype=torch.bool)
    with torch.no_grad():
        words = module.embedding(ids)
        for layer, name in zip(module.encoder.layers, ("encoder.0.self", "encoder.layers.1.self_attn"), strict=True):
            _, weights = layer.self_attn(words, words, words, average_attn_weights=False)
            np.testing.assert_allclose(answer[name].weights, weights[0], atol=1e-5)
            words = layer(words)
        expected = module(ids, padding)
    np.testing.assert_allclose(answer["look"].weights[0, 0], expected["look"][0], atol=1e-5)
    assert list(answer["look"].key.labels) == text.split()
    assert answer.prediction.probability == pytest.approx(float(expected["logits"].softmax(-1).max()), abs=1e-4)


def test_the_commands_of_the_documentation_work(
    server: Running, page: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    import shlex

    from limelight import cli

    (block,) = re.findall(r"^```console\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    first, *commands = block.strip().splitlines()
    assert first == "limelight serve --repository models" and len(commands) == 2
    monkeypatch.setenv("LIMELIGHT_TARGET", f"127.0.0.1:{server.server.port}")
    for command in commands:
        assert cli.main(shlex.split(command)[1:]) == 0


def test_attention_of_every_kind_is_found_and_large_maps_are_optional(
    several: tuple[Several, BundleFolder], client: limelight.Client
) -> None:
    module, folder = several
    bindings = {each.map: each for each in folder.bundle.maps if each.quantity != VALUES}
    assert set(bindings) == {"slots", "shown", "masked", "causal", "biased", "cross"}
    optional = {name for name, each in bindings.items() if each.gate}
    assert optional == {"masked", "causal", "biased"}  # maps over three slots are too small to be worth a gate
    assert not bindings["biased"].HasField("projections")
    assert {each.inputs for each in folder.bundle.attention_references} == {102}  # all that were given
    frames = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)
    answers = client.attend("several", [{"frames": frames}, {"frames": frames[:2]}])
    for answer, given in zip(answers, (frames, frames[:2]), strict=True):
        with torch.no_grad():
            tensor = torch.from_numpy(given)[None]
            vector, numbers, (own, shown) = module(tensor, torch.ones(tensor.shape[:2], dtype=torch.int64))
        np.testing.assert_allclose(answer["slots"].weights[0], own[0].T, atol=1e-5)
        np.testing.assert_allclose(answer["shown"].weights, shown[0], atol=1e-5)
        np.testing.assert_allclose(answer["cross"].weights, shown[0], atol=1e-5)
        assert np.triu(answer["causal"].weights, 1).max() == 0
        np.testing.assert_allclose(answer.prediction.embedding, vector[0], rtol=1e-4, atol=1e-5)
        assert answer.prediction.numbers[0].value == pytest.approx(float(numbers["numbers"][0, 0]), abs=1e-4)


def test_a_decoder_with_a_causal_mask(repository: Path) -> None:
    class Translation(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(20, SIZE)
            self.layers = nn.Transformer(SIZE, 2, 1, 1, SIZE, batch_first=True)

        def forward(self, source: Tensor, target: Tensor, sources: Tensor, targets: Tensor) -> Tensor:
            causal = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
            return self.layers(
                self.embed(source),
                self.embed(target),
                tgt_mask=causal,
                src_key_padding_mask=sources,
                tgt_key_padding_mask=targets,
                memory_key_padding_mask=sources,
            )

    def ids(mask: str, axis: str) -> export.Tensor:
        return export.Tensor(
            axes={axis: 0}, largest={axis: 300}, dtype="int64", maximum=19, mask=Mask(name=mask, padding=True)
        )

    card = Card(name="translation", inputs={"source": ids("sources", "s"), "target": ids("targets", "t")})
    torch.manual_seed(0)
    examples = [{"source": [1, 2, 3], "target": [4, 5]}]
    folder = export_module(Translation(), card=card, examples=examples, repository=repository)
    maps = {each.name: (each.query_labels, each.key_labels) for each in folder.bundle.description.maps}
    layers = {"encoder.layers.0.self_attn": "ss", "decoder.layers.0.self_attn": "tt"}
    layers["decoder.layers.0.multihead_attn"] = "ts"
    assert maps == {f"layers.{name}": tuple(axes) for name, axes in layers.items()}
    assert all(each.HasField("projections") for each in folder.bundle.maps if each.quantity != VALUES)


def test_boxes_of_a_card_are_those_of_the_module(client: limelight.Client, finder: Finder) -> None:
    shown = np.random.default_rng(0).integers(0, 256, (8, 8, 3), np.uint8)
    data = BytesIO()
    Picture.fromarray(shown).save(data, "PNG")
    with torch.no_grad():
        expected = finder(torch.from_numpy(shown.astype(np.float32) / 255).permute(2, 0, 1)[None])
    probabilities, indices = expected["logits"][0].softmax(-1)[:, :-1].max(-1)
    answer = client.attend("finder", {"image": limelight.Image(data.getvalue())})
    assert len(answer.prediction.boxes) == int((probabilities > 0.2).sum()) > 0
    for box in answer.prediction.boxes:
        assert (box.label, box.index) == (["cat", "dog"][box.index], int(indices[box.query]))
        assert box.probability == pytest.approx(float(probabilities[box.query]), abs=1e-5)
        x, y, width, height = (8 * expected["boxes"][0, box.query]).tolist()
        edges = (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
        assert (box.left, box.top, box.right, box.bottom) == pytest.approx(edges, abs=1e-4)
    np.testing.assert_allclose(answer["look"].weights, expected["look"][0], atol=1e-5)
    assert client.model("finder").source.licence == "MIT"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"grid": "query"}, "names the label set 'query', which is not the cells of a picture"),
        ({"boxes": "logits"}, r"reads boxes, \[batch, 3, 4\], from the output 'logits', which is \[batch, 3, 3\]"),
        ({"threshold": 2.0}, "has the threshold 2; it is from 0 to 1"),
    ],
)
def test_boxes_that_do_not_fit_are_one_sentence(change: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    card = replace(FINDER, results={"objects": replace(FINDER.results["objects"], **change)})
    with pytest.raises(ExportError, match=f"the card's result 'objects' {sentence}"):
        export_module(Finder(), card=card, examples=[Picture.new("RGB", (8, 8))], repository=tmp_path)


def test_a_picture_goes_in_with_its_channels_last(repository: Path) -> None:
    class Tiles(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention, self.classify = Sdpa(), nn.Linear(SIZE, 2)

        def forward(self, pixels: Tensor) -> Tensor:  # [batch, row, column, channel]
            tiles = (
                pixels.unflatten(1, (2, 4)).unflatten(3, (2, 4)).mean((2, 4)).flatten(1, 2)
            )  # [batch, tile, channel]
            return self.classify(self.attention(tiles.repeat(1, 1, 3)[..., :SIZE], None).mean(1))

    card = Card(
        name="tiles",
        inputs={"image": export.Image(rows=8, columns=8, tensor="pixels", channels_last=True, patches=(2, 2))},
        results={"class": Classes(labels=["a", "b"])},
    )
    torch.manual_seed(0)
    folder = export_module(Tiles(), card=card, examples=[Picture.new("RGB", (20, 10), "red")], repository=repository)
    (found,) = folder.bundle.description.maps
    assert (found.name, found.query_labels, found.key_labels) == ("attention", "patches", "patches")


# What is wrong is found before anything is traced, so that these take no time.
REFUSED: dict[str, tuple[Callable[[Card], Card], str]] = {
    "unknown output": (
        lambda card: replace(card, maps={"slots": Map(output="own", key="frame")}),
        "the card's map 'slots' names the output 'own', which the model does not return; it returns",
    ),
    "wrong axes": (
        lambda card: replace(card, maps={"slots": Map(output="2.0", query="slot", key="frame")}),
        "has 'slot' as query, always 3, and that axis of the output '2.0' is as long as 'frame': it has the shape",
    ),
    "too few axes": (
        lambda card: replace(card, maps={"slots": Map(output="2.1", axes=["batch", "key"], key="frame")}),
        r"has the axes \['batch', 'key'\], and the output '2.1' has the shape",
    ),
    "wrong number of numbers": (
        lambda card: replace(card, results={"numbers": Numbers(output="1.numbers", units={"x": ""})}),
        r"reads 1 numbers, \[batch, 1\], from the output '1.numbers', which is \[batch, 2\]",
    ),
    "a task of another result": (
        lambda card: replace(card, task="classification"),
        "the card's task is 'classification', and its first result makes it 'embedding'",
    ),
    "an argument that forward lacks": (
        lambda card: replace(card, inputs={"words": export.Tensor(axes={"frame": 0, "feature": 4})}),
        "state the argument 'words', which Several.forward does not take; it takes 'frames', 'real'",
    ),
    "an argument that is missing": (
        lambda card: replace(card, inputs={"frames": export.Tensor(axes={"frame": 0, "feature": 4})}),
        "Several.forward needs the argument 'real', which no input of the card states",
    ),
    "sizes that the module cannot take": (
        lambda card: replace(
            card, inputs={"frames": export.Tensor(axes={"frame": 0, "feature": 5}, mask=Mask(name="real"))}
        ),
        r"the module fails on inputs of the shapes \{'frames': \[",
    ),
    "no tokenizer": (
        lambda card: replace(card, inputs={"frames": export.Text(tokenizer="nowhere.json", max_tokens=9)}),
        "the tokenizer of the card's input 'frames' cannot be read: nowhere.json",
    ),
    "rows that do not sum to 1": (
        lambda card: replace(card, maps={"slots": Map(output="2.0", query="frame", key="slot")}),
        "a row of the map slots sums to .*; the card states that rows sum to 1",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_card_that_does_not_fit_is_one_sentence(case: str, tmp_path: Path) -> None:
    change, sentence = REFUSED[case]
    torch.manual_seed(0)
    with pytest.raises(ExportError, match=sentence) as refused:
        export_module(Several(), card=change(SEVERAL), examples=[np.ones((3, 4))], repository=tmp_path)
    assert "\n" not in str(refused.value)
    assert not list(tmp_path.rglob("*"))


@pytest.mark.parametrize(
    ("example", "sentence"),
    [
        (np.ones(4), r'examples\[1\].inputs\["frames"\].tensor.shape has 1 axis'),
        ("words", r"examples\[1\]: words does not hold numbers of the type float32"),
        ({"frame": np.ones((3, 4))}, r'examples\[1\].inputs\["frame"\] is not an input of the model'),
    ],
)
def test_an_example_of_the_wrong_kind_is_one_sentence(example: object, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=sentence):
        export_module(Several(), card=SEVERAL, examples=[np.ones((3, 4)), example], repository=tmp_path)


def test_a_graph_that_answers_differently_is_refused_with_the_output_and_the_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Small(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = Sdpa()

        def forward(self, x: Tensor) -> Tensor:
            return self.attention(x, None)

    def too_steep(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float, **more: Any) -> Any:
        return marked_attention(query, key, value, mask, 2 * scale, **more)

    monkeypatch.setattr("limelight_export.importing.module.attention.marked_attention", too_steep)
    card = Card(name="small", inputs={"x": export.Tensor(axes={"place": 4, "feature": SIZE})}, labels={"place": 4})
    with pytest.raises(ExportError, match=r"differs from PyTorch's: (output|attention) differs by up to 0\.\d+ \("):
        export_module(Small(), card=card, examples=[np.ones((4, SIZE))], repository=tmp_path)


def test_answers_that_are_not_finite_are_one_sentence(tmp_path: Path) -> None:
    class Broken(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (x - 1000).sqrt()

    card = Card(name="broken", inputs={"x": export.Tensor(axes={"feature": 4})}, outputs=["output"])
    with pytest.raises(ExportError, match=r"^PyTorch answers with NaN or infinity in 'output'$"):
        export_module(Broken(), card=card, examples=[np.ones(4)], repository=tmp_path)


class Compiled(nn.Module):
    """Self-attention, a part of which is compiled."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.compile(Sdpa())

    def forward(self, frames: Tensor) -> Tensor:
        return self.inner(frames, None).mean(1)


def test_attention_of_a_compiled_module_is_found_by_the_name_that_it_has_without(tmp_path: Path) -> None:
    frames = export.Tensor(axes={"frame": 0, "feature": SIZE}, largest={"frame": 8})
    card = Card(name="compiled", inputs={"frames": frames}, results={"vector": Embedding(output="output")})
    for module in (Compiled(), torch.compile(Compiled())):
        folder = export_module(module, card=card, examples=[np.ones((3, SIZE))], repository=tmp_path)
        assert [each.name for each in folder.bundle.description.maps] == ["inner"]


class Shared(nn.Module):
    """One layer under several names, which keeps the weights of its last run, those of a training step too."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.MultiheadAttention(4, 2, batch_first=True)] * 3)
        self.kept: Tensor | None = None
        self(torch.ones(1, 2, 4))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x, self.kept = layer(x, x, x)
        return x.mean(1)


def test_a_layer_under_several_names_and_weights_kept_of_a_run(tmp_path: Path) -> None:
    folder = export_module(Shared(), card=FRAMES, examples=[np.ones((3, 4))], repository=tmp_path)
    names = [each.name for each in folder.bundle.description.maps]
    assert names == ["layers.0", "layers.0.2", "layers.0.3"]


class Locked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(1)


class Few(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.topk(2, 1).values.mean(1)


class Dropping(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(x, 0.5).mean(1)


FRAMES = Card(
    name="frames",
    inputs={"x": export.Tensor(axes={"frame": 0, "feature": 4}, largest={"frame": 9})},
    results={"vector": Embedding()},
)


@pytest.mark.parametrize(
    ("module", "card", "example", "sentence"),
    [
        (Locked, FRAMES, None, "Locked cannot be copied to the CPU in float32: TypeError: cannot pickle"),
        (Few, FRAMES, None, r"the module fails on inputs of the shapes \{'x': \[1, 1, 4\]\}: RuntimeError: selected"),
        (Dropping, FRAMES, None, r"differently each time \('output'\): is dropout left on"),
        (Few, replace(FRAMES, results={"vector": "output"}), None, "result 'vector' is 'output'; it is Classes"),
        (Few, replace(FRAMES, maps={"m": "output"}), None, "map 'm' is 'output'; it is a Map"),
        (Few, replace(FRAMES, inputs={"x": export.Tensor(axes={"frame": -1})}), None, "an axis of a negative size"),
        (
            lambda: nn.Embedding(3, 2),
            replace(FRAMES, inputs={"input": export.Tensor(axes={}, dtype="int64", minimum=0, maximum=2)}),
            0.5,
            "0.5 is not a number of the type int64",
        ),
    ],
)
def test_what_a_module_or_a_card_cannot_have_is_one_sentence(
    module: Callable[[], nn.Module], card: Card, example: Any, sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(ExportError, match=sentence), warnings.catch_warnings(action="ignore"):
        export_module(module(), card=card, examples=[example or np.ones((3, 4))], repository=tmp_path)


class Mixing(nn.Module):
    """Adds the mean of all rows of a batch: what a row is answered depends on its neighbours."""

    def __init__(self) -> None:
        super().__init__()
        self.read = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.read(x + x.mean(0, keepdim=True))


def test_a_module_that_mixes_rows_is_refused_unless_rows_run_alone(tmp_path: Path) -> None:
    card = Card(
        name="mixing", inputs={"x": export.Tensor(axes={"feature": 4})}, results={"class": Classes(labels="ab")}
    )
    with pytest.raises(ExportError, match=r"output differs by up to .* a row's answer depends on its neighbours"):
        export_module(Mixing(), card=card, examples=[np.ones(4)], repository=tmp_path)
    with pytest.warns(UserWarning, match="no attention was found in the module"):
        folder = export_module(Mixing(), card=replace(card, batch=False), examples=[np.ones(4)], repository=tmp_path)
    assert folder.bundle.single_rows and "single-rows" in folder.bundle.required_features
    assert isinstance(folder.bundle, bundle_pb2.Bundle)


class Asking(nn.Module):
    """Attention of two learned queries, which no label set of a card counts."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = nn.Parameter(torch.randn(1, 2, 4))
        self.attention = nn.MultiheadAttention(4, 1, batch_first=True)
        self.read = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        found, _ = self.attention(self.asked.expand(x.shape[0], -1, -1), x, x, need_weights=False)
        return self.read(found.flatten(1))


def test_attention_whose_axes_nothing_counts_is_named_in_a_warning(tmp_path: Path) -> None:
    card = Card(
        name="asking",
        inputs={"x": export.Tensor(axes={"step": 0, "feature": 4}, largest={"step": 9})},
        results={"class": Classes(labels="ab")},
    )
    with pytest.warns(UserWarning, match="the attention of 'attention' becomes no map"):
        folder = export_module(Asking(), card=card, examples=[np.ones((3, 4))], repository=tmp_path)
    assert not folder.bundle.maps


class Window(nn.Module):
    """What is as long as the input up to a number of frames, which no short input reaches."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        near = x[:, :64]
        return near, scaled_dot_product_attention(x, near, near).mean(1)


@pytest.mark.parametrize(
    ("largest", "outputs", "sentence"),
    [
        (300, ["0", "1"], "axis 1 of the output '0' varies, but follows no axis of an input"),
        (0, ["0", "1"], r"an axis of '0' is not always as long as frame: its size is Min\(64, frame\)"),
        (0, ["1"], r"an axis of 'attention' is not always as long as frame: its size is Min\(64, frame\)"),
        (300, ["1"], ""),
        (50, ["0", "1"], ""),
    ],
)
def test_an_axis_that_ends_to_grow_is_not_taken_for_one_of_an_input(
    largest: int, outputs: list[str], sentence: str, tmp_path: Path
) -> None:
    frames = export.Tensor(axes={"frame": 0, "feature": 4}, largest={"frame": largest} if largest else {})
    card = Card(name="window", inputs={"x": frames}, outputs=outputs)
    with warnings.catch_warnings(action="ignore"):
        if sentence:
            with pytest.raises(ExportError, match=sentence):
                export_module(Window(), card=card, examples=[np.ones((3, 4))], repository=tmp_path)
            return
        folder = export_module(Window(), card=card, examples=[np.ones((3, 4))], repository=tmp_path)
    assert bool(folder.bundle.maps) == (largest == 50)


class Counting(Mixing):
    """Makes a number of the size of the batch."""

    def forward(self, x: Tensor) -> Tensor:
        return self.read(x.new_ones(len(x), 4) + x)


def test_a_size_that_becomes_a_number_is_refused_with_what_keeps_it(tmp_path: Path) -> None:
    card = Card(
        name="counting", inputs={"x": export.Tensor(axes={"feature": 4})}, results={"class": Classes(labels="ab")}
    )
    with pytest.raises(ExportError, match=r"froze the axis batch of the input 'x' at .* tensor\.shape\[0\] keeps"):
        export_module(Counting(), card=card, examples=[np.ones(4)], repository=tmp_path)
