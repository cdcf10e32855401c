"""Imported encoders answer as transformers does with eager attention: outputs, maps, rows of them, hidden states."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSequenceClassification

from limelight_bundle.tolerance import Tolerances, default_tolerances
from limelight_bundle.values import Array
from limelight_export.execution.onnx_runner import GraphSession
from limelight_export.execution.pytorch_runner import copy_for_export, run_model
from limelight_export.exported_graph import ExportedGraph
from limelight_export.importing.huggingface.importer import read_model
from limelight_export.tracing.build import build_graphs
from tests.importing.huggingface.checkpoints import HEADS, TOKENS
from tests.importing.huggingface.encoders import ENCODERS, eager_maps

pytestmark = pytest.mark.slow
# Lengths of the rows of a batch: alone, alike, and mixed with padding.
BATCHES = ([1], [7], [TOKENS], [5, 5], [12, 1, 31], [3, TOKENS, 64])
NOT_PACKED = {"deberta", "deberta-absolute", "deberta-v2", "deberta-v2-conv", "luke", "squeezebert"}
# Their graphs are those of others: they have RoBERTa's modules, or other weights of DistilBERT's.
GRAPHS = [each for each in ENCODERS if each not in ("xlm-roberta", "camembert", "distilbert-sinusoidal")]


Built = Callable[[str], tuple[Path, ExportedGraph]]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Write an encoder's checkpoint and build its graph, the first time that it is asked for."""

    @cache
    def build(name: str) -> tuple[Path, ExportedGraph]:
        folder = ENCODERS[name].write(tmp_path_factory.mktemp("checkpoint") / name)
        trained = read_model(folder)
        (graph,) = build_graphs(copy_for_export(trained.model), trained.card)
        return folder, graph

    return build


def rows(lengths: list[int], vocabulary: int) -> tuple[Array, Array]:
    """Draw token ids and their mask, both [row, token]."""
    random = np.random.default_rng(sum(lengths))
    mask = np.arange(max(lengths)) < np.array(lengths)[:, None]
    return random.integers(5, vocabulary, mask.shape) * mask, mask


def eager(folder: Path, ids: Array, mask: Array) -> tuple[Array, list[Array], list[Array]]:
    """Answer by transformers, with the model's own padding id: logits, maps, hidden states."""
    model = AutoModelForSequenceClassification.from_pretrained(folder, attn_implementation="eager").eval()
    with torch.no_grad():
        output = model(
            input_ids=torch.from_numpy(np.where(mask, ids, model.config.pad_token_id)),
            attention_mask=torch.from_numpy(mask.astype(np.int64)),
            output_attentions=True,
            output_hidden_states=True,
        )
    of_layers = ([each.numpy() for each in some] for some in (eager_maps(model, output), output.hidden_states))
    return output.logits.numpy(), *of_layers


def check(name: str, found: Array, expected: Array, *, is_map: bool = False) -> None:
    allowed = Tolerances(default_tolerances([name] if is_map else []), "CPUExecutionProvider")
    problem = allowed.difference(name, found, expected, is_map=is_map)
    assert not problem, problem


@pytest.mark.parametrize("name", GRAPHS)
def test_outputs_and_maps_equal_transformers(name: str, built: Built) -> None:
    folder, graph = built(name)
    session, sharpest = GraphSession(graph), 0.0
    for lengths in BATCHES:
        ids, mask = rows(lengths, 60)
        found = session.run({"token_ids": ids, "token_mask": mask})
        logits, maps, states = eager(folder, ids, mask)
        check("logits", found["logits"], logits)
        assert len(states) == len(graph.gated) == len(maps) + 1
        for layer, expected in enumerate(states):
            for row, length in enumerate(lengths):
                own, most = found[f"encoder.hidden.{layer}"][row, :length], np.abs(expected[row, :length]).max()
                # Weights of ModernBERT are so large here that the residual stream reaches 300.
                exact = 5e-5 if name.startswith("modernbert") else 1e-5
                np.testing.assert_allclose(own / most, expected[row, :length] / most, atol=exact)
        assert len(maps) == sum(each.endswith(".self") for each in found)
        for layer, expected in enumerate(maps):
            for row, length in enumerate(lengths):
                own = found[f"encoder.{layer}.self"][row, :, :length, :length]
                check("map", own, expected[row, :, :length, :length], is_map=True)
                sharpest = max(sharpest, float(own.max()) if length == TOKENS else 0.0)
    assert sharpest > 4 / TOKENS  # nearly uniform weights would show little


@pytest.mark.parametrize("name", GRAPHS)
def test_single_rows_of_maps_are_computed_without_the_rest(name: str, built: Built) -> None:
    _, graph = built(name)
    assert graph.packing_masks == (() if name in NOT_PACKED else ("token_mask",))
    assert set(graph.optional_maps) == {each.name for each in graph.outputs if each.name.endswith(".self")}
    session = GraphSession(graph)
    ids, mask = rows([9, 20], 60)
    whole = session.run({"token_ids": ids, "token_mask": mask})
    heads, queries = np.array([HEADS - 1, 1]), np.array([0, 8])
    for key, optional_map in graph.optional_maps.items():
        found = session.run({"token_ids": ids, "token_mask": mask}, optional_map.request_rows(heads, queries))
        check("logits", found["logits"], whole["logits"])
        assert not found[key].size
        check("map", found[optional_map.rows], whole[key][:, heads[:, None], queries], is_map=True)


def test_sparse_attention_is_imported_up_to_the_length_from_which_it_is_sparse(tmp_path: Path) -> None:
    """BigBird's, which transformers computes in full for shorter texts."""
    sparse = {"attention_type": "block_sparse", "block_size": 8, "num_random_blocks": 2}
    folder = ENCODERS["big_bird"].write(tmp_path / "sparse", **sparse)
    trained = read_model(folder)
    limit = trained.card.description.inputs[0].tensors[0].dimensions[0].maximum
    assert limit == (5 + 2 * 2) * 8
    ids, mask = rows([limit, 3], 60)
    found = run_model(trained.model, trained.card, {"token_ids": ids, "token_mask": mask})
    model = AutoModelForSequenceClassification.from_pretrained(folder, attn_implementation="eager").eval()
    with torch.no_grad():
        expected = model(torch.from_numpy(ids), attention_mask=torch.from_numpy(mask.astype(np.int64)))
    check("logits", found["logits"], expected.logits.numpy())


def test_padding_is_no_neighbour_of_a_token(tmp_path: Path) -> None:
    """MobileBERT embeds each token with its neighbours; transformers takes the padding of a batch for one."""
    folder = ENCODERS["mobilebert"].write(tmp_path / "small")
    weights = load_file(folder / "model.safetensors")
    weights["mobilebert.embeddings.word_embeddings.weight"][0] = 1.0
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    trained = read_model(folder)
    (graph,) = build_graphs(copy_for_export(trained.model), trained.card)
    ids, mask = rows([9, 20], 60)
    found = GraphSession(graph).run({"token_ids": ids, "token_mask": mask})
    for row, length in enumerate((9, 20)):
        alone = (ids[[row], :length], mask[[row], :length])
        check("logits", found["logits"][[row]], eager(folder, *alone)[0])
