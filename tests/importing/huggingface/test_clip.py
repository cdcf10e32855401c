"""Both encoders of CLIP, and classes of pictures that are texts, answer as transformers does."""

import json
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from PIL import Image as Pillow
from tokenizers import Tokenizer, processors
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

import limelight
from limelight_bundle.values import Image, Text
from limelight_export.errors import CheckpointError
from limelight_export.importing.huggingface.architectures import ARCHITECTURES
from limelight_export.importing.huggingface.architectures.pictures import TwoTowerArchitecture
from limelight_export.importing.huggingface.importer import import_checkpoint, read_model
from limelight_export.importing.huggingface.tasks.task import ImportOptions
from tests.importing.huggingface.checkpoints import change_config, write_json
from tests.importing.huggingface.decoders import BEGIN, VOCABULARY, tokenizer
from tests.importing.huggingface.test_vision import picture
from tests.importing.huggingface.test_vision import write as write_vision
from tests.kit.serving import serving

NAME, LIBRARY = "clip", "CLIPModel"
SIZE, PATCH, POSITIONS, FEATURES = 32, 8, 24, 20
END = VOCABULARY  # the largest id, as CLIP's own
LABELS = ("cat", "dog on a mat", "model")
PROMPT = "a picture of {}"
TEXTS = ("a", "the cat sat on the mat", "a picture of words")
SIZES = ((SIZE, SIZE), (70, 45), (45, 71), (33, 97))
PROCESSOR = {
    "image_processor_type": "CLIPImageProcessor",
    "do_resize": True,
    "size": {"shortest_edge": SIZE},
    "resample": 3,
    "do_center_crop": True,
    "crop_size": {"height": SIZE, "width": SIZE},
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
    "do_convert_rgb": True,
}


def write(folder: Path, **changes: Any) -> Path:
    """Write a checkpoint with random weights."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    text = {"vocab_size": END + 1, "max_position_embeddings": POSITIONS, "bos_token_id": BEGIN, "eos_token_id": END}
    config = transformers.CLIPConfig(
        text_config={**sizes, **text, "pad_token_id": END, "projection_dim": FEATURES},
        vision_config={**sizes, "image_size": SIZE, "patch_size": PATCH, "projection_dim": FEATURES},
        projection_dim=FEATURES,
    )
    model = transformers.CLIPModel(config).eval()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    made = Tokenizer.from_str(tokenizer(begins=True))
    made.add_special_tokens(["<|endoftext|>"])
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A <|endoftext|>", special_tokens=[("<s>", BEGIN), ("<|endoftext|>", END)]
    )
    (folder / "tokenizer.json").write_text(made.to_str())
    write_json(folder / "tokenizer_config.json", {"model_max_length": POSITIONS})
    write_json(folder / "preprocessor_config.json", PROCESSOR | changes)
    return folder


def pixels(data: bytes) -> torch.Tensor:
    """The pixels that transformers' own processor makes of a picture, [1, channel, row, column]."""
    processor = CLIPImageProcessorPil(**{name: value for name, value in PROCESSOR.items() if "type" not in name})
    return processor(Pillow.open(BytesIO(data)), return_tensors="pt").pixel_values


@pytest.fixture(scope="module")
def client(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[limelight.Client]:
    repository = tmp_path_factory.mktemp("repository")
    import_checkpoint(folder, repository, options=ImportOptions(labels=LABELS, prompt=PROMPT))
    import_checkpoint(folder, repository, task="text-embedding", options=ImportOptions(name="texts"))
    with serving(repository) as running, limelight.Client(running.server.address) as caller:
        yield caller


def ids(folder: Path, text: str) -> torch.Tensor:
    return torch.tensor([Tokenizer.from_file(str(folder / "tokenizer.json")).encode(text).ids])


def test_pixels_are_those_of_the_processor(folder: Path) -> None:
    preprocessor = read_model(folder, task="image-embedding").card.preprocessor()
    for size in (*SIZES, (200, 333), (61, 32), (32, 61), (31, 30)):
        data = picture(*size)
        row = preprocessor.row({"image": Image(data)}, field=())
        np.testing.assert_allclose(row.tensors["pixels"], pixels(data)[0].numpy(), atol=1e-6)


def test_classes_and_maps_equal_transformers(folder: Path, client: limelight.Client, library: Any) -> None:
    files = [picture(*size) for size in SIZES]
    answers = client.attend("clip", [{"image": limelight.Image(each)} for each in files])
    for data, answer in zip(files, answers, strict=True):
        scores = []
        for label in LABELS:
            with torch.no_grad():
                compared = library(
                    input_ids=ids(folder, PROMPT.replace("{}", label)),
                    pixel_values=pixels(data),
                    output_attentions=True,
                )
            scores.append(compared.logits_per_image[0, 0])
        probabilities = torch.stack(scores).softmax(0).tolist()
        found = {each.label: each.probability for each in answer.prediction.classes}
        assert found == {
            label: pytest.approx(each, abs=1e-4) for label, each in zip(LABELS, probabilities, strict=True)
        }
        for layer, weights in enumerate(compared.vision_model_output.attentions):
            attention = answer[f"encoder.{layer}.self"]
            assert attention.key.labels[0] == "class"
            np.testing.assert_allclose(attention.weights, weights[0].numpy(), atol=1e-4)


def test_vectors_and_maps_of_texts_equal_transformers(folder: Path, client: limelight.Client, library: Any) -> None:
    for text, answer in zip(TEXTS, client.attend("texts", [{"text": each} for each in TEXTS]), strict=True):
        with torch.no_grad():
            output = library.text_model(input_ids=ids(folder, text), output_attentions=True)
            vector = library.text_projection(output.pooler_output)[0]
        assert answer.prediction.embedding is not None
        np.testing.assert_allclose(answer.prediction.embedding, (vector / vector.norm()).numpy(), atol=1e-5)
        for layer, weights in enumerate(output.attentions):
            found = answer[f"encoder.{layer}.self"].weights
            np.testing.assert_allclose(found, weights[0].numpy(), atol=1e-4)
            assert not np.triu(found, 1).any()


def test_the_end_of_a_text_is_found_by_the_older_rule(folder: Path, library: Any, tmp_path: Path) -> None:
    """Of checkpoints that state eos_token_id 2, it is the largest id."""
    older = write(tmp_path / "clip")
    stated = json.loads((older / "config.json").read_text())["text_config"]
    change_config(older, text_config=stated | {"eos_token_id": 2})
    trained = read_model(older, task="text-embedding")
    rows = [trained.card.preprocessor().row({"text": Text(text)}) for text in TEXTS]
    tensors = {name: torch.from_numpy(each) for name, each in trained.card.collate(rows).items()}
    with torch.no_grad():
        vectors = trained.model(**tensors).outputs["vector"]
        for text, vector in zip(TEXTS, vectors, strict=True):
            expected = library.text_projection(library.text_model(input_ids=ids(folder, text)).pooler_output)[0]
            assert torch.allclose(vector, expected / expected.norm(), atol=1e-5)


def test_vectors_of_pictures_equal_transformers(folder: Path, library: Any) -> None:
    trained = read_model(folder, task="image-embedding")
    data = pixels(picture(70, 45))
    with torch.no_grad():
        vector = library.visual_projection(library.vision_model(pixel_values=data).pooler_output)[0]
        found = trained.model(pixels=data).outputs["vector"][0]
    assert torch.allclose(found, vector / vector.norm(), atol=1e-6)


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        ("", {}, "classes are two or more distinct labels"),
        ("", {"labels": ("cat", "cat")}, "classes are two or more distinct labels"),
        ("", {"labels": LABELS, "prompt": "a picture"}, "the prompt 'a picture' has no {} in the place of the label"),
        ("", {"labels": ("cat", "xyz" * 30)}, r"has \d+ tokens; the model reads 24"),
        ("text-embedding", {"labels": LABELS}, "a vector has no classes: leave out --label"),
        ("embedding", {}, "cannot be imported for 'embedding'; it can be for zero-shot, image-class"),
    ],
)
def test_options_that_do_not_fit_are_refused(folder: Path, task: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        read_model(folder, task=task, options=ImportOptions(**options))


def test_labels_are_for_models_that_compare(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="ViT compares no pictures with texts; leave out --label and --labels"):
        read_model(write_vision(tmp_path / "vit", "ViT"), options=ImportOptions(labels=LABELS))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"do_center_crop": False}, "states the size of the shorter side without do_center_crop"),
        ({"size": {"shortest_edge": 24}}, "makes pictures of 24 x 24 pixels; the model takes 32 x 32"),
        ({"size": 24}, "makes pictures of 24 x 24 pixels; the model takes 32 x 32"),
        ({"size": {"longest_edge": 32}}, "it is a number, or height and width"),
    ],
)
def test_a_processor_that_makes_other_pixels_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        read_model(write(tmp_path / "clip", **changes), task="image-embedding")


def test_a_size_that_is_one_number_is_that_of_the_shorter_side(folder: Path, tmp_path: Path) -> None:
    older = write(tmp_path / "clip", size=SIZE, crop_size=SIZE)
    steps = [read_model(each, task="image-embedding").card.preprocessing for each in (folder, older)]
    assert steps[0] == steps[1]


def test_every_field_that_transformers_writes_is_classified() -> None:
    written = json.loads(transformers.CLIPConfig().to_json_string(use_diff=False))
    architecture = ARCHITECTURES["clip"]
    assert isinstance(architecture, TwoTowerArchitecture)
    architecture.fields.check(written)
    assert architecture.check_parts(written) == ("attention_dropout",)


@pytest.mark.parametrize(
    ("tower", "field", "message"),
    [
        ("text_config", {"sliding_window": 4}, "states sliding_window 4, which is not classified for clip_text_model"),
        ("vision_config", {"chunk_size_feed_forward": 2}, "states chunk_size_feed_forward 2, which is not computed"),
        ("vision_config_dict", {"use_mask": 2}, "states use_mask 2, which is not classified for clip_vision_model"),
    ],
)
def test_a_field_of_a_tower_that_is_not_known_is_refused(
    tmp_path: Path, tower: str, field: dict[str, Any], message: str
) -> None:
    folder = write(tmp_path / "clip")
    stated = json.loads((folder / "config.json").read_text()).get(tower) or {}
    change_config(folder, **{tower: stated | field})
    with pytest.raises(CheckpointError, match=message):
        read_model(folder, task="image-embedding")


def test_pictures_are_read_as_the_file_of_a_whole_processor_states(folder: Path, tmp_path: Path) -> None:
    """As transformers 5 saves it; another tool left fields of null."""
    made = write(tmp_path / "clip")
    options = ImportOptions(labels=("cat", "dog"))
    before = read_model(made, options=options).card.description
    library = transformers.PreTrainedTokenizerFast(tokenizer_file=str(made / "tokenizer.json"))
    image_processor = transformers.CLIPImageProcessor.from_pretrained(made)
    (made / "preprocessor_config.json").unlink()
    transformers.CLIPProcessor(image_processor, library).save_pretrained(made)
    stated = json.loads((made / "processor_config.json").read_text())
    stated["image_processor"] |= {"do_pad": None, "something_new": None, "do_center_crop": None, "resample": None}
    write_json(made / "processor_config.json", stated)
    assert read_model(made, options=options).card.description == before
