"""Every task of every architecture answers in PyTorch as transformers does, before anything is exported."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from export.execution.pytorch_runner import run_model
from export.importing.huggingface.importer import read_model
from export.importing.huggingface.tasks.task import ImportOptions
from export.writing.samples import example_rows
from tests.importing.huggingface.checkpoints import sizes, write_checkpoint
from tests.importing.huggingface.encoders import ENCODERS

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


def eager(folder: Path, auto_class: str, arguments: dict[str, torch.Tensor]) -> Any:
    model = getattr(transformers, auto_class).from_pretrained(folder, attn_implementation="eager").eval()
    with torch.no_grad():
        return model(**arguments, output_attentions=True)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", ENCODERS)
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
        expected = eager(folder, auto_class, arguments)
        for output, attribute in outputs.items():
            np.testing.assert_allclose(found[output], expected[attribute].numpy(), atol=1e-5)
        if task == "embedding":
            np.testing.assert_allclose(found["vector"][0], expected.last_hidden_state[0].mean(0).numpy(), atol=1e-5)
        for layer, weights in enumerate(expected.attentions):
            np.testing.assert_allclose(found[f"encoder.{layer}.self"], weights.numpy(), atol=1e-6)


def test_segments_are_made_where_the_model_and_its_tokenizer_have_them(tmp_path: Path) -> None:
    for name, expected in (("bert", True), ("roberta", False), ("distilbert", False), ("deberta-v2-conv", True)):
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
