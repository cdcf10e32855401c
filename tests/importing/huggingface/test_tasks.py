"""Every task of every architecture answers in PyTorch as transformers does, before anything is exported."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file

from limelight_export.errors import CheckpointError
from limelight_export.execution.pytorch_runner import run_model
from limelight_export.importing.huggingface.convert_weights import convert_weights
from limelight_export.importing.huggingface.importer import import_checkpoint, read_model
from limelight_export.importing.huggingface.tasks.task import ImportOptions
from limelight_export.verification.samples import example_rows
from tests.importing.huggingface.checkpoints import sizes, stated_pooling, write_checkpoint, write_json
from tests.importing.huggingface.decoders import DECODERS
from tests.importing.huggingface.encoders import ENCODERS, eager_maps

# Ending of the class, the class that loads it, and where it has each output of the card.
TASKS = {
    "classification": ("ForSequenceClassification", "AutoModelForSequenceClassification", {"logits": "logits"}),
    "token-classification": ("ForTokenClassification", "AutoModelForTokenClassification", {"logits": "logits"}),
    "question-answering": (
        "ForQuestionAnswering",
        "AutoModelForQuestionAnswering",
        {"start_scores": "start_logits", "end_scores": "end_logits"},
    ),
    "masked-words": ("ForMaskedLM", "AutoModelForMaskedLM", {"logits": "logits"}),
    "embedding": ("Model", "AutoModel", {}),
}


# They have no class that answers questions.
WITHOUT_ANSWERS = {"nomic_bert", "gte", "eurobert"}


def eager(folder: Path, auto_class: str, arguments: dict[str, torch.Tensor]) -> tuple[Any, list[torch.Tensor]]:
    """Answer by transformers: its output, and its maps."""
    model = getattr(transformers, auto_class).from_pretrained(folder, attn_implementation="eager").eval()
    with torch.no_grad():
        output = model(**arguments, output_attentions=True)
    return output, eager_maps(model, output)


@pytest.mark.parametrize(
    ("name", "task"),
    [
        (name, task)
        for name in ENCODERS
        for task in TASKS
        if task != "question-answering" or name not in WITHOUT_ANSWERS
    ],
)
def test_a_task_answers_as_transformers_does(name: str, task: str, tmp_path: Path) -> None:
    ending, auto_class, outputs = TASKS[task]
    changes = {"num_labels": 2} if task == "question-answering" else {}
    folder = ENCODERS[name].write(tmp_path / "small", ending, **changes)
    trained = read_model(folder, options=ImportOptions(pooling="mean" if task == "embedding" else ""))
    for row in example_rows(trained.card, trained.examples):
        found = run_model(trained.model, trained.card, trained.card.collate([row]))
        arguments = {"input_ids": torch.from_numpy(row.tensors["token_ids"])[None]}
        if "segment_ids" in row.tensors:
            arguments["token_type_ids"] = torch.from_numpy(row.tensors["segment_ids"])[None]
        expected, maps = eager(folder, auto_class, arguments)
        for output, attribute in outputs.items():
            np.testing.assert_allclose(found[output], expected[attribute].numpy(), atol=1e-5)
        if task == "embedding":
            np.testing.assert_allclose(found["vector"][0], expected.last_hidden_state[0].mean(0).numpy(), atol=1e-5)
        for layer, weights in enumerate(maps):
            np.testing.assert_allclose(found[f"encoder.{layer}.self"], weights.numpy(), atol=1e-6)


def pooled(kind: str, vectors: np.ndarray) -> np.ndarray:
    """Pool the vectors [token, feature] of a text, by sentence-transformers' documentation."""
    count = len(vectors)
    places = np.arange(1, count + 1)[:, None]
    return {
        "cls": vectors[0],
        "max": vectors.max(0),
        "mean": vectors.sum(0) / count,
        "mean_sqrt_len": vectors.sum(0) / np.sqrt(count),
        "weightedmean": (vectors * places).sum(0) / places.sum(),
        "lasttoken": vectors[-1],
    }[kind]


SWITCHES = {
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
    "mean": "pooling_mode_mean_tokens",
    "mean_sqrt_len": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}
EMBEDDERS = {
    "bert": lambda folder: ENCODERS["bert"].write(folder, "Model"),
    "qwen3": DECODERS["qwen3"].write,
    "gpt2": DECODERS["gpt2"].write,
    # EmbeddingGemma, whose tokens see each other: all of them, or those in a window.
    "gemma3": partial(DECODERS["gemma3"].write, use_bidirectional_attention=True, sliding_window=8),
}


@pytest.mark.parametrize("kinds", [("cls", "max"), ("mean", "mean_sqrt_len"), ("weightedmean", "lasttoken")])
@pytest.mark.parametrize("name", EMBEDDERS)
def test_a_text_has_the_vector_that_the_modules_of_sentence_transformers_make(
    name: str, kinds: tuple[str, ...], tmp_path: Path
) -> None:
    """Poolings joined, a layer with an activation, and the norm; of texts alone and in a batch."""
    folder = EMBEDDERS[name](tmp_path / "embedder")
    names = ("Transformer", "Pooling", "Dense", "Normalize")
    modules = [
        {"type": f"sentence_transformers.models.{kind}", "path": f"{number}_{kind}" if number else ""}
        for number, kind in enumerate(names)
    ]
    write_json(folder / "modules.json", modules)
    write_json(folder / "1_Pooling" / "config.json", dict.fromkeys((SWITCHES[kind] for kind in kinds), True))
    activation = {"activation_function": "torch.nn.modules.activation.Tanh", "bias": True}
    write_json(folder / "2_Dense" / "config.json", {"in_features": 64, "out_features": 5} | activation)
    weight, bias = torch.randn(5, 64) / 8, torch.randn(5)
    torch.save({"linear.weight": weight, "linear.bias": bias}, folder / "2_Dense" / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="limelight import convert-weights "):
        read_model(folder)
    (folder / "model.safetensors").rename(folder / "pickled.bin")
    torch.save(load_file(folder / "pickled.bin"), folder / "pytorch_model.bin")
    (folder / "pickled.bin").unlink()
    folder = convert_weights(folder, tmp_path / "converted")

    trained = read_model(folder)
    rows = example_rows(trained.card, trained.examples)
    assert len({len(row.tensors["token_ids"]) for row in rows}) == 2
    library = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    together = run_model(trained.model, trained.card, trained.card.collate(rows))
    for number, row in enumerate(rows):
        ids = torch.from_numpy(row.tensors["token_ids"])[None]
        with torch.no_grad():
            output = library(ids, output_attentions=True)
        vectors = output.last_hidden_state[0].numpy()
        joined = np.concatenate([pooled(kind, vectors) for kind in kinds])
        expected = np.tanh(weight.numpy() @ joined + bias.numpy())
        expected /= np.linalg.norm(expected)
        alone = run_model(trained.model, trained.card, trained.card.collate([row]))
        np.testing.assert_allclose(alone["vector"][0], expected, atol=1e-5)
        np.testing.assert_allclose(together["vector"][number], expected, atol=1e-5)
        for layer, weights in enumerate(output.attentions):
            np.testing.assert_allclose(alone[f"encoder.{layer}.self"], weights.numpy(), atol=1e-6)


def test_the_length_of_older_sentence_transformers_is_read(tmp_path: Path) -> None:
    folder = ENCODERS["roberta"].write(tmp_path / "embedder", "Model")
    stated_pooling(folder)
    write_json(folder / "sentence_roberta_config.json", {"max_seq_length": 16})
    found = read_model(folder).card.description.inputs[0].tensors[0].dimensions[0].maximum
    assert found == 16


# GPT-Neo, BLOOM and MPT compute attention by themselves: with a window, and with biases.
@pytest.mark.parametrize("name", ["qwen3", "gemma3", "gpt-neo", "bloom", "mpt"])
def test_an_embedding_of_a_decoder_is_verified_against_the_library(name: str, tmp_path: Path) -> None:
    folder = EMBEDDERS.get(name, DECODERS[name].write)(tmp_path / "embedder")
    stated_pooling(folder)
    write_json(folder / "1_Pooling" / "config.json", {"pooling_mode_lasttoken": True})
    written = import_checkpoint(folder, tmp_path / "repository")
    states = {f"encoder.hidden.{layer}" for layer in range(3)}
    assert {each.name for each in written.bundle.parity} == {"vector", "encoder.0.self", "encoder.1.self", *states}


def test_segments_are_made_where_the_model_and_its_tokenizer_have_them(tmp_path: Path) -> None:
    for name, expected in (
        ("bert", True),
        ("roberta", False),
        ("distilbert", False),
        ("deberta-v2-conv", True),
        ("big_bird", False),
    ):
        trained = read_model(ENCODERS[name].write(tmp_path / name), task="cross-encoder")
        assert ("segment_ids" in example_rows(trained.card, trained.examples)[0].tensors) is expected


def test_weights_in_parts_are_read(tmp_path: Path) -> None:
    torch.manual_seed(0)
    whole = write_checkpoint(
        tmp_path / "whole", transformers.BertForSequenceClassification, transformers.BertConfig(**sizes())
    )
    model = transformers.BertForSequenceClassification.from_pretrained(whole)
    model.save_pretrained(tmp_path / "parts", max_shard_size="20KB")
    for file in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "parts" / file).write_text((whole / file).read_text())
    assert not (tmp_path / "parts" / "model.safetensors").exists()
    for one, other in zip(
        read_model(whole).model.parameters(), read_model(tmp_path / "parts").model.parameters(), strict=True
    ):
        assert torch.equal(one, other)
