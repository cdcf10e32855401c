"""Maps of any size, from a served model to NumPy arrays and files, by the client and the command line."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import limelight
from limelight.maps import AttentionMap
from limelight.streams import StreamEvent
from tests.kit import bundles, tiny
from tests.kit.exports import export_model
from tests.kit.serving import Running, serving

CHUNK = 4096
LONG = " ".join(np.random.default_rng(0).choice(tiny.WORDS[:-1], 90))
SENTENCE = "the cat sat on a mat"
INPUTS: dict[str, Any] = {
    "tiny": {"text": SENTENCE},
    "paper": {"document": "the cat sat. on a mat the dog ran. cat"},
    "echo": {"text": SENTENCE},
    "long_reader": {"text": LONG},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    repository = tmp_path_factory.mktemp("streamed")
    for make in (bundles.tiny, bundles.paper, bundles.echo):
        make(repository)
    torch.manual_seed(0)
    export_model(tiny.trained(tiny.LongReader(), tiny.long_reader_card()), repository)
    with serving(repository, chunk_bytes=CHUNK) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: Running) -> Iterator[limelight.Client]:
    with limelight.Client(server.server.address) as client:
        yield client


def input_of(client: limelight.Client, model: str) -> dict[str, Any]:
    """Name the input as the model does."""
    (name,) = (each.name for each in client.model(model).inputs[:1])
    return {name: next(iter(INPUTS[model].values()))}


def assert_same(found: AttentionMap, whole: AttentionMap, atol: float = 1e-5) -> None:
    np.testing.assert_allclose(found.dense(), whole.dense(), atol=atol)
    for name in ("name", "stack", "layer", "kind", "heads", "head_reduction", "normalised", "signed", "axes"):
        assert getattr(found, name) == getattr(whole, name)
    assert found.query.labels == whole.query.labels and found.key.labels == whole.key.labels
    assert (found.left_out is None) == (whole.left_out is None)
    if found.left_out is not None:
        np.testing.assert_allclose(found.left_out, whole.left_out, atol=atol)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"heads": [-1], "queries": [0, 2], "keys": [1, 3]},
        {"reduce": "mean", "encoding": "float16"},
        {"top_k": 2},
        {"encoding": "uint8"},
        {"key_groups": {"first": 0, "rest": slice(1, None)}, "maps": "*0.self"},
    ],
    ids=lambda options: "+".join(options) or "whole",
)
@pytest.mark.parametrize("model", INPUTS)
def test_a_stream_put_together_is_what_attend_answers(
    client: limelight.Client, model: str, options: dict[str, Any]
) -> None:
    inputs = input_of(client, model)
    try:
        whole = client.attend(model, inputs, **options)
    except limelight.InvalidArgument as error:
        with pytest.raises(limelight.InvalidArgument, match=str(error).split(";")[0].replace("[", r"\[")):
            list(client.attend_stream(model, inputs, **options))
        return
    (found,) = limelight.put_together(client.attend_stream(model, inputs, **options))
    assert found.prediction.label_sets.keys() == whole.prediction.label_sets.keys()
    for ours, theirs in zip(found.maps, whole.maps, strict=True):
        assert_same(ours, theirs, 1e-5 if options.get("encoding") is None else 5e-3)


def test_each_instance_has_its_start_and_its_end(client: limelight.Client) -> None:
    events = list(client.attend_stream("long_reader", [{"text": SENTENCE}, {"text": LONG}]))
    kinds = [(each.instance, type(each).__name__) for each in events]
    assert kinds[0] == (0, "StreamStart") and kinds[-1] == (1, "StreamEnd")
    assert [each for each in kinds if each[1] != "MapChunk"] == [
        (0, "StreamStart"),
        (0, "StreamEnd"),
        (1, "StreamStart"),
        (1, "StreamEnd"),
    ]
    end = events[-1]
    assert isinstance(end, limelight.StreamEnd)
    assert end.chunks == kinds.count((1, "MapChunk")) > 3
    assert end.weights_bytes == (2 * 4 * 90 + 1) * 90 * 4


def test_a_chunk_says_where_it_stands_and_what_it_is_of(client: limelight.Client) -> None:
    start: limelight.StreamStart | None = None
    for event in client.attend_stream(
        "long_reader", {"text": LONG}, maps="encoder.1.self", queries=list(range(40, 90))
    ):
        if isinstance(event, limelight.StreamStart):
            start = event
            assert [each.shape for each in start.maps] == [(4, 50, 90)]
        if isinstance(event, limelight.MapChunk):
            assert start is not None
            part, (whole,) = event.part, start.maps
            assert part.heads == whole.heads[event.head]
            assert part.query.labels == whole.query.labels[event.query]
            assert part.weights.shape == (len(part.heads), len(part.query), 90)
            np.testing.assert_allclose(part.weights.sum(axis=-1), 1, atol=1e-5)


def test_the_asynchronous_client_gets_the_same(server: Running, client: limelight.Client) -> None:
    async def collect() -> list[StreamEvent]:
        async with limelight.AsyncClient(server.server.address) as other:
            return [each async for each in other.attend_stream("long_reader", {"text": LONG})]

    (found,) = limelight.put_together(asyncio.run(collect()))
    for ours, theirs in zip(found.maps, client.attend("long_reader", {"text": LONG}).maps, strict=True):
        assert_same(ours, theirs)


def test_maps_go_into_files_while_they_come(client: limelight.Client, tmp_path: Path) -> None:
    start, *saved = limelight.save_maps(client.attend_stream("long_reader", {"text": LONG}), tmp_path / "new" / "maps")
    assert isinstance(start, limelight.StreamStart)
    whole = client.attend("long_reader", {"text": LONG})
    for each in saved:
        assert isinstance(each, limelight.SavedMap)
        weights = np.load(each.file, mmap_mode="r")
        assert weights.shape == each.map.shape
        np.testing.assert_allclose(weights, whole[each.map.name].weights, atol=1e-5)
    assert [each.file.name for each in saved if isinstance(each, limelight.SavedMap)] == [
        f"{name}.npy" for name in whole
    ]


def test_what_top_k_keeps_goes_into_files_of_its_own(client: limelight.Client, tmp_path: Path) -> None:
    options: dict[str, Any] = {"maps": "encoder.0.self", "top_k": 1}
    _, saved = limelight.save_maps(client.attend_stream("long_reader", {"text": LONG}, **options), tmp_path)
    assert isinstance(saved, limelight.SavedMap)
    arrays, (whole,) = np.load(saved.file), client.attend("long_reader", {"text": LONG}, **options).maps
    np.testing.assert_array_equal(arrays["key_index"], whole.key_index)
    np.testing.assert_allclose(arrays["weights"], whole.weights, atol=1e-5)
    np.testing.assert_allclose(arrays["left_out"], whole.left_out, atol=1e-5)


def test_edges_go_into_files_of_their_own(client: limelight.Client, tmp_path: Path) -> None:
    inputs, options = input_of(client, "paper"), {"maps": "word"}
    _, saved = limelight.save_maps(client.attend_stream("paper", inputs, **options), tmp_path)
    assert isinstance(saved, limelight.SavedMap)
    arrays, (whole,) = np.load(saved.file), client.attend("paper", inputs, **options).maps
    assert whole.edges is not None and sorted(arrays) == ["key_index", "query_index", "weights"]
    np.testing.assert_array_equal(arrays["query_index"], whole.edges.query_index)
    np.testing.assert_array_equal(arrays["key_index"], whole.edges.key_index)
    np.testing.assert_allclose(arrays["weights"], whole.weights, atol=1e-5)


@pytest.fixture
def command(server: Running) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run `limelight attend` against the server."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"LIMELIGHT_TARGET": server.server.address}
        whole = [sys.executable, "-m", "limelight.cli", "attend", *arguments]
        return subprocess.run(whole, env=environment, capture_output=True, text=True, timeout=120, check=False)

    return run


def test_the_command_line_writes_maps_into_a_folder(
    command: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    done = command("long_reader", LONG, "--map", "encoder.*", "--out", str(tmp_path / "maps"))
    assert done.returncode == 0, done.stderr
    first, *files = done.stdout.splitlines()
    assert first.startswith("long_reader version 1")
    assert files == [f"{tmp_path}/maps/encoder.{layer}.self.npy 4 90 90" for layer in range(2)]
    np.testing.assert_allclose(np.load(tmp_path / "maps" / "encoder.0.self.npy").sum(axis=-1), 1, atol=1e-5)
    told = command("long_reader", LONG, "--map", "pool", "--out", str(tmp_path), "--json").stdout.splitlines()
    prediction, saved = map(json.loads, told)
    assert prediction["prediction"]["provenance"]["model"] == "long_reader"
    assert saved["shape"] == list(np.load(saved["file"]).shape) == [1, 1, 90]


def test_what_cannot_be_written_is_said_in_a_line(
    command: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    done = command("long_reader", LONG, "--out", str(tmp_path / "file"))
    assert done.returncode == 1 and "cannot write into" in done.stderr and "Traceback" not in done.stderr
    both = command("long_reader", LONG, "--out", str(tmp_path), "--png", "maps.png")
    assert both.returncode == 2 and "--png" in both.stderr
