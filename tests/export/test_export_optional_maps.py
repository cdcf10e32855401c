"""Maps that are computed only where they are asked for, as an exported graph has them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from limelight_bundle.interventions import INTERVENED_GRAPH
from limelight_bundle.maps import VALUES
from limelight_bundle.reader import BundleFolder
from limelight_bundle.values import Array
from limelight_export.errors import ExportError
from limelight_export.pipeline import export_model
from limelight_export.surgery import attention
from limelight_export.surgery.node_builder import NodeBuilder
from limelight_export.surgery.subgraphs import all_nodes
from limelight_models.cards.card import TrainedModel
from limelight_models.export_names import DOMAIN
from limelight_service.checking.selftest import check_samples
from limelight_service.engine.opening import open_model
from limelight_service.engine.runtime.providers import Provider
from limelight_service.observability.observer import NullObserver
from limelight_service.settings import Settings
from tests.kit import tiny

Exported = Callable[[str], tuple[TrainedModel, BundleFolder]]
MAPS = ("encoder.0.self", "encoder.1.self")
LONG = attention.FUSED_FROM + 3


def batch(*lengths: int) -> dict[str, Array]:
    """Make rows of words of these lengths, padded."""
    mask = np.arange(max(lengths)) < np.array(lengths)[:, np.newaxis]
    ids = np.random.default_rng(0).integers(1, tiny.VOCABULARY, mask.shape) * mask
    return {"ids": ids, "ids_mask": mask}


@pytest.fixture(scope="module")
def session(exported: Exported) -> onnxruntime.InferenceSession:
    folder = exported("long_reader")[1]
    return onnxruntime.InferenceSession(folder.file("model.onnx"), providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("lengths", [(1,), (7,), (7, 1, 4), (LONG,), (LONG, 5)])
def test_the_answer_is_pytorchs_whatever_is_asked_for(
    lengths: tuple[int, ...], exported: Exported, session: onnxruntime.InferenceSession
) -> None:
    trained, folder = exported("long_reader")
    bindings = {each.map: each for each in folder.bundle.maps if each.quantity != VALUES}
    tensors = batch(*lengths)
    with torch.no_grad():
        expected = trained.model.eval()(**{name: torch.from_numpy(array) for name, array in tensors.items()})
    heads, queries = np.array([3, 1]), np.unique([0, max(lengths) - 1])
    first, second = (bindings[name] for name in MAPS)
    asked = {
        first.gate: np.array(True),
        second.probe.heads_input: heads,
        second.probe.queries_input: queries,
    }
    names = ["logits", first.output, second.output, first.probe.output, second.probe.output]
    logits, whole, nothing, no_rows, rows = session.run(names, tensors | asked)
    (alone,) = session.run(["logits"], tensors)
    for found in (logits, alone):
        np.testing.assert_allclose(found, expected.outputs["logits"], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(whole, expected.maps[MAPS[0]], atol=1e-5)
    np.testing.assert_allclose(rows, expected.maps[MAPS[1]].numpy()[:, heads][:, :, queries], atol=1e-5)
    assert nothing.size == no_rows.size == 0


def test_what_is_not_asked_for_need_not_be_fed(exported: Exported, session: onnxruntime.InferenceSession) -> None:
    folder = exported("long_reader")[1]
    assert [each.name for each in session.get_inputs()] == list(folder.bundle.graphs[0].inputs) == ["ids", "ids_mask"]
    assert list(folder.bundle.required_features) == [
        "gated-maps",
        "row-probes",
        "projections",
        "values",
        "interventions",
    ]


def test_a_map_that_can_never_be_large_is_a_plain_output(exported: Exported) -> None:
    folder = exported("reader")[1]
    assert not any(each.gate or each.HasField("probe") or each.HasField("projections") for each in folder.bundle.maps)
    assert list(folder.bundle.required_features) == ["values", "interventions"]


def test_no_marked_operator_is_left(exported: Exported) -> None:
    for name in ("long_reader", "reader", "writer"):
        folder = exported(name)[1]
        for graph in folder.bundle.graphs:
            model = onnx.load(folder.file(graph.file))
            assert DOMAIN not in {each.domain for each in model.opset_import}


def test_a_map_that_the_model_itself_reads_is_a_plain_output(tmp_path: Path) -> None:
    class Looking(tiny.LongReader):
        def forward(self, **tensors: torch.Tensor) -> tiny.Answer:
            answer = super().forward(**tensors)
            shown = answer.maps["encoder.0.self"].amax((1, 2, 3)).unsqueeze(-1)
            return tiny.Answer({"logits": answer.outputs["logits"] + shown}, answer.maps)

    folder = export_model(tiny.trained(Looking(), tiny.long_reader_card()), tmp_path)
    assert [bool(each.gate) for each in folder.bundle.maps if each.quantity != VALUES] == [False, True, False]


def wrong_rows(
    nodes: NodeBuilder, marker: attention._AttentionMarker, masking: attention._Masking, optional_map: object
) -> str:
    """Compute rows as if nothing were masked."""
    return ROWS(nodes, marker, attention._Masking("", "", ""), optional_map)  # type: ignore[arg-type]


def wrong_scale(nodes: NodeBuilder, marker: attention._AttentionMarker) -> str:
    """Fuse with another scale."""
    return FUSED(nodes, replace(marker, scale=marker.scale * np.float32(2)))


def wrong_projections(
    nodes: NodeBuilder, marker: attention._AttentionMarker, optional_map: attention.OptionalMap
) -> list[str]:
    """Put out queries that are not scaled."""
    return [nodes.add("Identity", marker.query), *PROJECTIONS(nodes, marker, optional_map)[1:]]


ROWS, FUSED, PROJECTIONS = attention._rows, attention._fused, attention._projections


@pytest.mark.parametrize(
    ("what", "instead", "case"),
    [
        ("_rows", wrong_rows, "maps not requested"),
        ("_fused", wrong_scale, "long enough to be fused, maps not requested"),
        ("_projections", wrong_projections, "maps from projections"),
    ],
)
def test_a_graph_that_is_wrong_only_where_little_is_asked_for_is_refused(
    what: str, instead: Callable[..., str], case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, what, instead)
    torch.manual_seed(0)
    with pytest.raises(ExportError, match=f"answer differs from PyTorch's: .* {case}"):
        export_model(tiny.trained(tiny.LongReader(), tiny.long_reader_card()), tmp_path)


def readers(file: Path) -> dict[str, int]:
    """Count the nodes that read each optional input."""
    graph = onnx.load(file).graph
    optional = {each.name for each in graph.input} & {each.name for each in graph.initializer}
    return {name: sum(name in node.input for node in all_nodes(graph)) for name in optional}


def test_an_optional_input_is_read_by_one_node(exported: Exported) -> None:
    found = readers(exported("long_reader")[1].file("model.onnx"))
    assert len(found) == 8 and set(found.values()) == {1}


def test_an_input_that_changes_attention_is_read_by_one_node(tmp_path: Path) -> None:
    folder = export_model(tiny.trained(tiny.Reader(), tiny.reader_card()), tmp_path)
    found = readers(folder.file(next(each.file for each in folder.bundle.graphs if each.name == INTERVENED_GRAPH)))
    assert found and set(found.values()) == {1}


def test_a_device_is_given_what_is_asked_for(exported: Exported) -> None:
    """The CPU stands for a device: inputs are bound there, optional ones too, and maps are cut there."""
    folder = exported("long_reader")[1]
    device = Provider("CPUExecutionProvider", 2, 2, staged=True, device=("cpu", 0))
    check_samples(open_model(folder, device, Settings(), NullObserver()), folder)
