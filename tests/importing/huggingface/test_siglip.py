"""SigLIP scores each text of a picture by itself, as transformers does, and shows what its vector is pooled from."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer

import limelight
from limelight_export.errors import CheckpointError
from limelight_export.importing.huggingface.architectures import ARCHITECTURES
from limelight_export.importing.huggingface.importer import import_checkpoint, read_model
from limelight_export.importing.huggingface.tasks.task import ImportOptions
from tests.importing.huggingface import test_clip
from tests.importing.huggingface.checkpoints import GENERIC, VOCABULARY, change_config, tokenizer, write_json
from tests.importing.huggingface.test_vision import LABELS as CLASSES
from tests.importing.huggingface.test_vision import PATCH, SIZE, SIZES, picture, pixels_of
from tests.kit.serving import serving

NAME, LIBRARY = "siglip", "SiglipModel"
POSITIONS, PADDING = 24, 3
LABELS, PROMPT = ("cat", "dog on a mat", "the cat ran"), "where did {}?"


def write(folder: Path, model_class: str = LIBRARY) -> Path:
    """Write a checkpoint with random weights."""
    torch.manual_seed(1)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    text = {"vocab_size": VOCABULARY, "max_position_embeddings": POSITIONS, "pad_token_id": 0}
    config = transformers.SiglipConfig(
        text_config={**sizes, **text, "bos_token_id": 2, "eos_token_id": 3},
        vision_config={**sizes, "image_size": SIZE, "patch_size": PATCH},
        id2label=CLASSES,
    )
    model = getattr(transformers, model_class)(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    (folder / "tokenizer.json").write_text(tokenizer())
    stated = {"tokenizer_class": GENERIC, "model_max_length": POSITIONS, "pad_token": "[SEP]"}
    write_json(folder / "tokenizer_config.json", {**stated, "model_input_names": ["input_ids"]})
    transformers.SiglipImageProcessor(size={"height": SIZE, "width": SIZE}).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def client(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[limelight.Client]:
    repository = tmp_path_factory.mktemp("repository")
    import_checkpoint(folder, repository, options=ImportOptions(labels=LABELS, prompt=PROMPT))
    import_checkpoint(folder, repository, task="text-embedding", options=ImportOptions(name="texts"))
    with serving(repository) as running, limelight.Client(running.server.address) as caller:
        yield caller


def test_each_text_has_a_probability_of_its_own(folder: Path, client: limelight.Client, library: Any) -> None:
    files, read = [picture(*size) for size in SIZES], Tokenizer.from_file(str(folder / "tokenizer.json"))
    read.enable_padding(length=POSITIONS, pad_id=PADDING)
    ids = torch.tensor([read.encode(PROMPT.replace("{}", label)).ids for label in LABELS])
    answers = client.attend("siglip", [{"image": limelight.Image(each)} for each in files])
    for data, answer in zip(files, answers, strict=True):
        pixels = pixels_of(folder, data)
        with torch.no_grad():
            expected = library(input_ids=ids, pixel_values=pixels, output_attentions=True)
            last, head = expected.vision_model_output.last_hidden_state, library.vision_model.head
            _, pooling = head.attention(head.probe, last, last, average_attn_weights=False)
        probabilities = expected.logits_per_image[0].sigmoid().tolist()
        assert {each.label: each.probability for each in answer.prediction.classes} == {
            label: pytest.approx(each, abs=1e-4) for label, each in zip(LABELS, probabilities, strict=True)
        }
        np.testing.assert_allclose(answer["pooling"].weights, pooling[0].numpy(), atol=1e-4)
        assert (answer["pooling"].query.kind, answer["pooling"].key.labels[:2]) == ("one", ("r0c0", "r0c1"))
        for layer, weights in enumerate(expected.vision_model_output.attentions):
            np.testing.assert_allclose(answer[f"encoder.{layer}.self"].weights, weights[0].numpy(), atol=1e-4)


def test_texts_are_filled_up_with_padding_that_is_read(folder: Path, client: limelight.Client, library: Any) -> None:
    read = Tokenizer.from_file(str(folder / "tokenizer.json"))
    read.enable_padding(length=POSITIONS, pad_id=PADDING)
    texts = ["the cat", "where did the dog on a mat sat?", "a"]
    for text, answer in zip(texts, client.attend("texts", [{"text": each} for each in texts]), strict=True):
        encoded = read.encode(text)
        with torch.no_grad():
            output = library.text_model(input_ids=torch.tensor([encoded.ids]), output_attentions=True)
        vector = output.pooler_output[0]
        np.testing.assert_allclose(answer.prediction.embedding, (vector / vector.norm()).numpy(), atol=1e-5)
        for layer, weights in enumerate(output.attentions):
            np.testing.assert_allclose(answer[f"encoder.{layer}.self"].weights, weights[0].numpy(), atol=1e-4)
        key = answer["encoder.0.self"].key
        own = POSITIONS - encoded.attention_mask.count(0)
        assert key.ids.tolist() == encoded.ids
        assert key.labels[own:] == ("[SEP]",) * (POSITIONS - own)
        assert key.special[own:].all() and not key.special[1 : own - 1].any()
        by_ids = client.predict("texts", {"token_ids": np.array(encoded.ids)}).embedding
        np.testing.assert_allclose(by_ids, answer.prediction.embedding, atol=1e-6)
    with pytest.raises(limelight.InvalidArgument, match="has more than 24 tokens; shorten it or set truncate"):
        client.predict("texts", {"text": "xyz" * 20})
    with pytest.raises(limelight.InvalidArgument, match="token_ids"):
        client.predict("texts", {"token_ids": np.array(encoded.ids[:5])})


def test_vectors_of_pictures_equal_transformers(folder: Path, library: Any) -> None:
    trained, pixels = read_model(folder, task="image-embedding"), pixels_of(folder, picture(70, 45))
    with torch.no_grad():
        vector = library.get_image_features(pixels).pooler_output[0]
        found = trained.model(pixels=pixels).outputs["vector"][0]
    torch.testing.assert_close(found, vector / vector.norm())


@pytest.mark.parametrize("kind", ["SigLIP", "CLIP"])
def test_classes_of_an_encoder_of_pictures_alone_equal_transformers(kind: str, tmp_path: Path) -> None:
    if kind == "SigLIP":
        folder = write(tmp_path / "siglip", "SiglipForImageClassification")
    else:
        folder = test_clip.write(tmp_path / "clip")
        config = transformers.CLIPConfig.from_pretrained(folder, id2label=CLASSES)
        transformers.CLIPForImageClassification(config).save_pretrained(folder)
    trained = read_model(folder)
    pixels = pixels_of(folder, picture(70, 45))
    library = transformers.AutoModelForImageClassification.from_pretrained(folder, attn_implementation="eager").eval()
    with torch.no_grad():
        torch.testing.assert_close(trained.model(pixels=pixels).outputs["logits"], library(pixels).logits)
    assert [each.name for each in trained.card.description.maps] == ["encoder.0.self", "encoder.1.self"]


def test_what_the_modules_do_not_compute_is_refused(tmp_path: Path) -> None:
    other = write(tmp_path / "siglip")
    with pytest.raises(CheckpointError, match="SigLIP reads every text as 24 tokens, not 12"):
        read_model(other, task="text-embedding", options=ImportOptions(max_tokens=12))
    stated = json.loads((other / "config.json").read_text())["vision_config"]
    change_config(other, vision_config=stated | {"vision_use_head": False})
    with pytest.raises(CheckpointError, match="states vision_use_head False, which is not computed"):
        read_model(other, task="image-embedding")
    write_json(other / "tokenizer_config.json", {"model_input_names": ["input_ids", "attention_mask"]})
    change_config(other, vision_config=stated)
    with pytest.raises(CheckpointError, match="states attention_mask among model_input_names; SigLIP is trained"):
        read_model(other, options=ImportOptions(labels=LABELS, prompt=PROMPT))


def test_every_field_that_transformers_writes_is_classified() -> None:
    written = json.loads(transformers.SiglipConfig().to_json_string(use_diff=False))
    ARCHITECTURES["siglip"].fields.check(written)
    assert ARCHITECTURES["siglip"].check_parts(written) == ("attention_dropout",)
