"""Programs of PyTorch's exporter, put right."""

import gc

import numpy as np
import onnx_ir
import onnxruntime
import pytest
import torch
from onnxscript.optimizer._constant_folding import FoldConstantsPass
from onnxscript.rewriter import RewriteRule
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.fx.experimental import proxy_tensor
from torch.onnx._internal.exporter import _fx_passes
from torch.onnx._internal.exporter._registration import ONNXRegistry
from torch.onnx._internal.fx.passes.type_promotion import _TypePromotionInterpreter

from limelight_export.conversion.float16 import convert_to_float16
from limelight_export.interface import TensorSpec
from limelight_export.tracing.trace import trace, without_needless_work
from limelight_models.blocks.transformer import places


class Looked(nn.Module):
    """Puts an embedding out, under the name that the exporter gives such values, and something made of it."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(7, 4)

    def forward(self, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        found = self.words(*inputs)
        return found.softmax(-1), found.sum(-1)


def test_an_output_may_have_the_name_of_what_is_inside() -> None:
    module, ids = Looked(), torch.tensor([[1, 2, 3], [4, 5, 6]])
    port = TensorSpec(name="ids", axes=("batch", "word"), dtype=np.dtype(np.int64))
    model = trace(module, [ids], [port], ["embedding", "sum"], {})
    session = onnxruntime.InferenceSession(onnx_ir.to_proto(model).SerializeToString())
    embedding, total = session.run(["embedding", "sum"], {"ids": ids.numpy()})
    wanted, wanted_total = module(ids)
    np.testing.assert_allclose(embedding, wanted.detach().numpy(), atol=1e-6)
    np.testing.assert_allclose(total, wanted_total.detach().numpy(), atol=1e-6)


class NearlyNothing(nn.Module):
    """Sums, products and shares with numbers that are nearly 0 or 1."""

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        (x,) = inputs
        shares = x / (x.sum(-1, keepdim=True) + 1e-12)
        return (x + 1e-20).log(), shares, x - 1e-9, x * (1 + 2e-6), x / (1 + 2e-6), x * 1 + 0


def test_numbers_near_to_nothing_are_kept() -> None:
    module, x = NearlyNothing(), torch.tensor([[0.0, 0.0, 0.0], [0.0, 1.0, 1e-9]])
    port = TensorSpec(name="x", axes=("batch", "word"), dtype=np.dtype(np.float32))
    model = trace(module, [x], [port], names := [f"y{number}" for number in range(6)], {})
    session = onnxruntime.InferenceSession(onnx_ir.to_proto(model).SerializeToString())
    for found, wanted in zip(session.run(names, {"x": x.numpy()}), module(x), strict=True):
        np.testing.assert_array_max_ulp(found, wanted.numpy(), 2)
    assert sum(each.op_type in ("Add", "Mul", "Sub", "Div") for each in model.graph) == 6, "x * 1 + 0 is none"


def test_an_export_that_fails_leaves_the_exporter_and_the_collector_as_they_were() -> None:
    def state() -> tuple[object, ...]:
        patched = ONNXRegistry.__dict__["from_torchlib"], _TypePromotionInterpreter.run_node
        patched += _fx_passes.decompose_with_registry, RewriteRule.try_rewrite, FoldConstantsPass._do_inference
        patched += (proxy_tensor._extract_tensor_metadata,)
        return *patched, torch._dynamo.config.fake_tensor_cache_enabled, gc.isenabled()

    before = state()
    with pytest.raises(ZeroDivisionError), without_needless_work():
        assert not set(state()) & set(before)
        raise ZeroDivisionError
    assert state() == before


class Recurrent(nn.Module):
    """Reads with a recurrent layer, and adds what is of another type: the number of each step."""

    def __init__(self, layer: nn.GRU | nn.LSTM) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        outputs, states = self.layer(*inputs)
        last = states if isinstance(states, Tensor) else torch.cat([each.flatten() for each in states])
        return outputs + torch.arange(outputs.shape[1])[:, None], last * 1


@pytest.mark.parametrize(
    "layer",
    [
        nn.GRU(3, 4, num_layers=2, bidirectional=True, batch_first=True),
        nn.LSTM(3, 4, num_layers=2, bidirectional=True, batch_first=True),
    ],
    ids=["gru", "lstm"],
)
def test_recurrent_layers_are_traced_for_any_length(layer: nn.GRU | nn.LSTM) -> None:
    module = Recurrent(layer).eval()
    port = TensorSpec(name="steps", axes=("batch", "step", 3), dtype=np.dtype(np.float32))
    model = onnx_ir.to_proto(trace(module, [torch.rand(2, 5, 3)], [port], ["outputs", "last"], {}))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for batch, length in ((1, 1), (3, 8)):
        steps = torch.rand(batch, length, 3)
        found = session.run(["outputs", "last"], {"steps": steps.numpy()})
        for one, wanted in zip(found, module(steps), strict=True):
            np.testing.assert_allclose(one, wanted.detach().numpy(), atol=1e-5)


class Parted(nn.Module):
    """Nodes without an operator in ONNX: a cell, parts of a list, sizes that are products, a type that is the same."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(4, 4)

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        steps = inputs[0].to(torch.float32)
        flat = steps.flatten(0, 1)
        first, second = self.cell(flat, flat.square()).chunk(2, dim=1)
        return first.unflatten(0, (steps.shape[0], steps.shape[1])), second + flat.new_ones(flat.shape[0], 2)


class Written(nn.Module):
    """Writes into what it has computed."""

    def forward(self, *inputs: Tensor) -> tuple[Tensor]:
        doubled = inputs[0] * 2
        doubled[:, 0] = 0
        return (doubled.flatten(1).relu_(),)


class Learning(nn.Module):
    """Keeps gradients of a part, which is an operator with a graph of its own."""

    def forward(self, *inputs: Tensor) -> tuple[Tensor]:
        with torch.enable_grad():
            flat = inputs[0].flatten(0, 1).square()
        return (flat * 2,)


class Passed(nn.Module):
    """Puts its input out, beside its sum."""

    def forward(self, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        return inputs[0].to(torch.float32), inputs[0].flatten(1).sum(1)


@pytest.mark.parametrize(
    ("kind", "outputs", "alone"), [(Parted, 2, True), (Written, 1, False), (Learning, 1, False), (Passed, 2, False)]
)
def test_operators_that_onnx_lacks_are_decomposed_for_any_size(
    kind: type[nn.Module], outputs: int, alone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole: list[object] = []
    run = ExportedProgram.run_decompositions

    def counted(program: ExportedProgram, *arguments: object) -> ExportedProgram:
        whole.append(program)
        return run(program, *arguments)

    monkeypatch.setattr(ExportedProgram, "run_decompositions", counted)
    module = kind().eval()
    port = TensorSpec(name="steps", axes=("batch", "step", 4), dtype=np.dtype(np.float32))
    names = [f"output_{place}" for place in range(outputs)]
    model = onnx_ir.to_proto(trace(module, [torch.rand(3, 5, 4)], [port], names, {}))
    assert bool(whole) != alone
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for batch, length in ((1, 1), (2, 7)):
        steps = torch.randn(batch, length, 4)
        for one, wanted in zip(session.run(names, {"steps": steps.numpy()}), module(steps), strict=True):
            np.testing.assert_allclose(one, wanted.detach().numpy(), atol=1e-5)


class Placed(nn.Module):
    """Adds to each token what says where it stands."""

    def forward(self, *inputs: Tensor) -> tuple[Tensor]:
        (features,) = inputs
        return (features + places(torch.arange(features.shape[1]), features),)


@pytest.mark.parametrize("half", [False, True])
def test_places_are_as_exact_in_a_graph_as_the_numbers_of_its_outputs(half: bool) -> None:
    """At any length, far places too: with angles in float32 sines at 20,000 are off by 0.0015, in float16 by 2."""
    port = TensorSpec(name="features", axes=("batch", "token", 128), dtype=np.dtype(np.float32))
    model = onnx_ir.to_proto(trace(Placed(), [torch.zeros(2, 5, 128)], [port], ["placed"], {}))
    graph = convert_to_float16(model) if half else model
    session = onnxruntime.InferenceSession(graph.SerializeToString())
    (found,) = session.run(["placed"], {"features": np.zeros((1, 20_000, 128), np.float32)})
    angles = np.arange(20_000)[:, None] / 10_000 ** (np.arange(0, 128, 2) / 128)
    wanted = np.concatenate([np.sin(angles), np.cos(angles)], -1)
    np.testing.assert_allclose(found[0], wanted, rtol=0, atol=5e-4 if half else 1e-7)
