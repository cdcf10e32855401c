"""A server of small models behind people's other doors: random weights, one of each task, imported once."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from limelight_export.importing.huggingface.importer import import_checkpoint
from limelight_export.importing.huggingface.tasks.task import ImportOptions
from limelight_service.security.tokens import entry, new_token
from tests.importing.huggingface.checkpoints import change_config, stated_pooling
from tests.importing.huggingface.decoders import DECODERS
from tests.importing.huggingface.encoders import ENCODERS
from tests.kit.serving import Running, free_port, serving

SENTIMENT = {0: "negative", 1: "neutral", 2: "positive"}


@pytest.fixture(scope="package")
def doors_repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Bundles of an embedder, a reranker, a classifier and a small Llama."""
    root = tmp_path_factory.mktemp("checkpoints")
    repository = tmp_path_factory.mktemp("doors")
    small = {"num_hidden_layers": 1}
    bert = ENCODERS["bert"]
    embedder = bert.write(root / "embedder", "Model", **small)
    stated_pooling(embedder)
    reranker = bert.write(root / "reranker", **small, num_labels=1)
    change_config(reranker, sentence_transformers={"activation_fn": "torch.nn.modules.activation.Sigmoid"})
    classifier = bert.write(root / "classifier", **small, id2label=SENTIMENT)
    for folder in (embedder, reranker, classifier):
        import_checkpoint(folder, repository)
    writer = DECODERS["llama"].write(root / "writer", num_hidden_layers=1)
    import_checkpoint(writer, repository, options=ImportOptions(name="writer"))
    return repository


@pytest.fixture(scope="package")
def doors(doors_repository: Path) -> Iterator[Running]:
    """A server of all of them."""
    with serving(doors_repository, http_port=free_port(), metrics_port=free_port(), max_instances=64) as running:
        yield running


@pytest.fixture(scope="package")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A token that knows the embedder alone, two with few rows a second, one for lists, one for all; and `file`."""
    rights = {
        "own": {"models": ["embedder"]},
        "slow": {"models": ["embedder"], "rows_per_second": 20},
        "slow-too": {"models": ["embedder"], "rows_per_second": 20},
        "lists": {"methods": ["ListModels"]},
        "any": {},
        "without": {"methods": ["Predict"]},
    }
    tokens = {name: new_token() for name in rights}
    file = tmp_path_factory.mktemp("tokens") / "tokens.toml"
    file.write_text("".join(entry(name, token, rights[name]) for name, token in tokens.items()))
    return {**tokens, "file": str(file)}


@pytest.fixture(scope="package")
def guarded(doors_repository: Path, keys: dict[str, str]) -> Iterator[Running]:
    """A server with the limits that servers have, which asks for tokens."""
    with serving(doors_repository, http_port=free_port(), tokens=keys["file"]) as running:
        yield running


@pytest.fixture(scope="package")
def by_tokens(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server of a model with a vector for each token, as ColBERT has it."""
    folder, repository = tmp_path_factory.mktemp("colbert"), tmp_path_factory.mktemp("models")
    ENCODERS["bert"].write(folder, "Model", num_hidden_layers=1)
    weights = load_file(folder / "model.safetensors")
    weights["linear.weight"] = torch.randn(8, 32, generator=torch.Generator().manual_seed(1))
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    change_config(folder, architectures=["HF_ColBERT"])
    import_checkpoint(folder, repository)
    with serving(repository, http_port=free_port()) as running:
        yield running
