"""Checks of an import: failures that would be silent are seen, and a graph that computes otherwise is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from torch import Tensor
from transformers import AutoModel, BertConfig, BertModel

from limelight_bundle.reader import BundleFolder
from limelight_export.errors import ExportError
from limelight_export.execution.pytorch_runner import PyTorchReference, copy_for_export
from limelight_export.importing.huggingface import attention, module_attention
from limelight_export.importing.huggingface.attention import run_with_maps
from limelight_export.importing.huggingface.importer import import_checkpoint, read_model
from limelight_export.surgery.fused_attention import is_fused
from limelight_export.tracing.build import build_graphs
from limelight_export.verification.verify import verify
from limelight_models.attention.export_markers import marked_attention, marking
from limelight_models.cards.card import TrainedModel
from limelight_models.network import Answer, Network
from tests.importing.huggingface.checkpoints import HEADS, TOKENS, sizes
from tests.importing.huggingface.encoders import ENCODERS
from tests.kit import exports


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ENCODERS["bert"].write(tmp_path_factory.mktemp("checkpoint") / "small", num_hidden_layers=1)


@pytest.fixture
def trained(folder: Path) -> TrainedModel:
    return read_model(folder)


def ids(*shape: int) -> Tensor:
    return torch.randint(5, 60, shape, generator=torch.Generator().manual_seed(0))


def test_a_model_that_would_return_no_maps_by_itself_returns_all(folder: Path) -> None:
    model = AutoModel.from_pretrained(folder, attn_implementation="sdpa").eval()
    with torch.no_grad():
        assert model(input_ids=ids(1, 5), output_attentions=True).attentions == ()
        _, maps = run_with_maps(model, input_ids=ids(1, 5), attention_mask=torch.ones(1, 5))
    assert [each.shape for each in maps] == [(1, HEADS, 5, 5)]
    assert model.config._attn_implementation == "sdpa"


def test_a_model_without_maps_is_refused() -> None:
    class Silent(torch.nn.Module):
        def forward(self, **arguments: Any) -> Any:
            return BertModel(BertConfig(**sizes(num_hidden_layers=0)))(input_ids=ids(1, 3))

    with pytest.raises(ExportError, match="Silent returns no attention weights"):
        run_with_maps(Silent())


def test_attention_that_a_marker_cannot_hold_is_refused() -> None:
    query = torch.zeros(1, HEADS, 3, 8)
    with marking(), pytest.raises(ExportError, match="Linear computes attention with softcap, which is not supported"):
        attention._attend(torch.nn.Linear(1, 1), query, query, query, None, softcap=50.0, dropout=0.0)


def test_axes_of_a_graph_vary_and_are_tied_by_name(trained: TrainedModel) -> None:
    graph, *_ = exports.build_graphs(copy_for_export(trained.model), trained.card)
    shapes = {
        each.name: [axis.dim_param or axis.dim_value for axis in each.type.tensor_type.shape.dim]
        for each in (*graph.model.graph.input, *graph.model.graph.output)
    }
    assert shapes["token_ids"] == shapes["token_mask"] == ["batch", "token"]
    assert shapes["encoder.0.self"] == ["batch", HEADS, "token", "token"]
    assert shapes["logits"] == ["batch", 3]


Marker = Callable[..., tuple[Tensor, Tensor]]
SABOTAGE: dict[str, Marker] = {
    "swapped heads": lambda query, key, value, mask, scale, *, bias: marked_attention(
        query.flip(1), key.flip(1), value, mask, scale, bias=bias
    ),
    "dropped mask": lambda query, key, value, mask, scale, *, bias: marked_attention(
        query, key, value, None, scale, bias=bias
    ),
    "wrong scale": lambda query, key, value, mask, scale, *, bias: marked_attention(
        query, key, value, mask, scale * 1.001, bias=bias
    ),
    "swapped queries and keys": lambda query, key, value, mask, scale, *, bias: marked_attention(
        key, query, value, mask, scale, bias=bias
    ),
}
# Of modules with a bias by relative position.
BIAS_SABOTAGE: dict[str, Marker] = {
    "dropped bias": lambda query, key, value, mask, scale, *, bias: marked_attention(query, key, value, mask, scale),
    "swapped bias": lambda query, key, value, mask, scale, *, bias: marked_attention(
        query, key, value, mask, scale, bias=bias.transpose(-1, -2)
    ),
}


@pytest.mark.parametrize("change", SABOTAGE)
def test_a_graph_that_attends_otherwise_is_refused(
    trained: TrainedModel, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "marked_attention", SABOTAGE[change])
    model = copy_for_export(trained.model)
    graphs = build_graphs(model, trained.card)
    with pytest.raises(ExportError, match="answer differs from PyTorch's"):
        verify(graphs, PyTorchReference(model, trained.card), trained.card)


@pytest.mark.parametrize(("name", "change"), [("mpnet", "dropped bias"), ("deberta-v2", "swapped bias")])
def test_a_graph_with_another_bias_is_refused(
    tmp_path: Path, name: str, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = read_model(ENCODERS[name].write(tmp_path / name, num_hidden_layers=1))
    monkeypatch.setattr(module_attention, "marked_attention", BIAS_SABOTAGE[change])
    model = copy_for_export(trained.model)
    graphs = build_graphs(model, trained.card)
    with pytest.raises(ExportError, match="answer differs from PyTorch's"):
        verify(graphs, PyTorchReference(model, trained.card), trained.card)


class DiffersFrom(Network):
    """A model whose maps are others from a length on, as where positions are put into wrong buckets."""

    def __init__(self, model: Network, length: int) -> None:
        super().__init__()
        self.model, self.length = model, length

    def forward(self, **tensors: Tensor) -> Answer:
        answer = self.model(**tensors)
        if tensors["token_ids"].shape[1] < self.length:
            return answer
        return Answer(answer.outputs, {name: each.flip(-1) for name, each in answer.maps.items()})


def test_a_graph_that_differs_at_long_distances_alone_is_refused(trained: TrainedModel) -> None:
    model = copy_for_export(trained.model)
    graphs = exports.build_graphs(model, trained.card)
    changed = PyTorchReference(DiffersFrom(model, TOKENS), trained.card)
    verify(graphs, changed, trained.card)
    with pytest.raises(ExportError, match=r"encoder\.0\.self .*a row of the largest size"):
        verify(graphs, changed, trained.card, largest_size=512)


@pytest.mark.parametrize(("name", "precision"), [("distilbert", "float16"), ("bert", "int8")])
def test_an_import_in_another_precision_stays_within_the_tolerances_that_it_states(
    tmp_path: Path, name: str, precision: str
) -> None:
    changes = (
        {"n_layers": 1}
        if name == "distilbert"
        else {"num_hidden_layers": 1, "hidden_size": 192, "intermediate_size": 256}
    )
    checkpoint = ENCODERS[name].write(tmp_path / "small", initializer_range=0.05, **changes)
    written = import_checkpoint(checkpoint, tmp_path / "repository", precision=precision)
    assert isinstance(written, BundleFolder)
    parity = {each.name: each.absolute for each in written.bundle.parity}
    assert set(parity) == {"logits", "encoder.0.self", "encoder.hidden.0", "encoder.hidden.1"}
    assert all(0 < parity[each] < 0.05 for each in ("logits", "encoder.0.self"))


def test_a_long_text_is_computed_by_the_fused_operator_with_the_same_numbers(tmp_path: Path) -> None:
    """Above 320 tokens context vectors come from the fused operator, and rows of maps from the probe."""
    checkpoint = ENCODERS["bert"].write(tmp_path / "small", num_hidden_layers=1, max_position_embeddings=400)
    (checkpoint / "tokenizer_config.json").write_text("{}")
    stages: list[str] = []
    written = import_checkpoint(checkpoint, tmp_path / "repository", report=stages.append)
    assert stages == [
        "files checked",
        "token ids compared with transformers'",
        "weights loaded",
        "graphs traced",
        "answers compared with PyTorch's",
        "bundle written and checked",
    ]
    assert written.bundle.description.inputs[0].tensors[0].dimensions[0].maximum == 400 > TOKENS
    assert is_fused(onnx.load(written.path / "model.onnx"))
    cases = {each.name: each.cases for each in written.bundle.parity}
    assert cases["encoder.0.self"] == cases["logits"] > 0
