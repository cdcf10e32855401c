"""AST classifies a recording as transformers does, with maps over the bands and times of its spectrogram."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import limelight
from limelight_export.errors import CheckpointError
from limelight_export.importing.huggingface.architectures import ARCHITECTURES
from limelight_export.importing.huggingface.importer import import_checkpoint, read_model
from tests.bundle.recordings import RATE, tones, wav
from tests.importing.huggingface.checkpoints import change_config, write_json
from tests.kit.serving import serving

NAME, LIBRARY = "ast", "ASTForAudioClassification"
LABELS = {0: "speech", 1: "music", 2: "rain"}
FRAMES, MELS, PATCH, STRIDES = 64, 32, 8, (6, 5)
RECORDINGS = {"short": tones(4_000), "long": tones(400 + 160 * (FRAMES - 1), seed=1), "shortest": tones(300)}


def write(folder: Path, **changes: Any) -> Path:
    """Write a checkpoint with random weights."""
    torch.manual_seed(0)
    config = transformers.ASTConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        patch_size=PATCH,
        frequency_stride=STRIDES[0],
        time_stride=STRIDES[1],
        max_length=FRAMES,
        num_mel_bins=MELS,
        id2label=LABELS,
        **changes,
    )
    model = transformers.ASTForAudioClassification(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    transformers.ASTFeatureExtractor(num_mel_bins=MELS, max_length=FRAMES).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def client(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[limelight.Client]:
    repository = tmp_path_factory.mktemp("repository")
    import_checkpoint(folder, repository)
    with serving(repository) as running, limelight.Client(running.server.address) as caller:
        yield caller


def test_classes_maps_and_hidden_states_equal_transformers(
    folder: Path, client: limelight.Client, library: Any
) -> None:
    extractor = transformers.AutoFeatureExtractor.from_pretrained(folder)
    sent = [wav(RECORDINGS["short"]), *(limelight.Audio(each, RATE) for each in RECORDINGS.values())]
    answers = client.attend("ast", [{"audio": each} for each in sent], hidden=limelight.Hidden())
    for samples, answer in zip((RECORDINGS["short"], *RECORDINGS.values()), answers, strict=True):
        features = extractor([samples], sampling_rate=RATE, return_tensors="pt").input_values
        with torch.no_grad():
            output = library(features, output_attentions=True, output_hidden_states=True)
        probabilities = output.logits[0].softmax(-1).tolist()
        found = {each.label: each.probability for each in answer.prediction.classes}
        assert found == {LABELS[place]: pytest.approx(each, abs=1e-4) for place, each in enumerate(probabilities)}
        for layer, weights in enumerate(output.attentions):
            np.testing.assert_allclose(answer[f"encoder.{layer}.self"].weights, weights[0].numpy(), atol=1e-4)
        for layer, states in enumerate(output.hidden_states):
            hidden = answer.prediction.hidden[f"encoder.hidden.{layer}"].vectors
            np.testing.assert_allclose(hidden, states[0].numpy(), atol=1e-4 * float(states.abs().max()))
    key = answers[0]["encoder.1.self"].key
    rows, columns = ((size - PATCH) // stride + 1 for size, stride in zip((MELS, FRAMES), STRIDES, strict=True))
    assert key.grid is not None and (key.grid.rows, key.grid.columns) == (rows, columns)
    assert key.labels[:3] == ("class", "distillation", "r0c0")


def test_a_recording_is_as_long_as_its_frames(client: limelight.Client) -> None:
    assert client.model("ast").max_audio_seconds == pytest.approx(len(RECORDINGS["long"]) / RATE)
    with pytest.raises(limelight.InvalidArgument, match=r"lasts 0\.66 s; at most 0\.655 s are allowed"):
        client.predict("ast", {"audio": limelight.Audio(tones(len(RECORDINGS["long"]) + 80), RATE)})


def test_several_classes_are_those_of_sigmoids(tmp_path: Path) -> None:
    card = read_model(write(tmp_path / "ast", problem_type="multi_label_classification")).card.description
    assert card.results[0].classes.activation == limelight.v1.model_pb2.ACTIVATION_SIGMOID


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sampling_rate": 8000}, "states sampling_rate 8000; it can be 16000"),
        ({"do_normalize": False}, "states do_normalize False; it can be True"),
        ({"max_length": 65}, "makes spectrograms of 32 x 65 numbers; the model takes 32 x 64"),
        ({"std": 0}, "states the mean .* and the std 0; both are numbers"),
        ({"window_type": "povey"}, "states window_type 'povey', which is not classified"),
    ],
)
def test_a_feature_extractor_that_makes_another_spectrogram_is_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    made = write(tmp_path / "ast")
    stated = made / "preprocessor_config.json"
    write_json(stated, json.loads(stated.read_text()) | changes)
    with pytest.raises(CheckpointError, match=message):
        read_model(made)


def test_every_field_that_transformers_writes_is_classified(tmp_path: Path) -> None:
    written = json.loads(transformers.ASTConfig().to_json_string(use_diff=False))
    assert "hidden_dropout_prob" in ARCHITECTURES[written["model_type"]].fields.check(written)
    made = write(tmp_path / "ast")
    change_config(made, architectures=["ASTModel"])
    with pytest.raises(CheckpointError, match="name a task: --task audio-classification"):
        read_model(made)
