"""What PyTorch's exporter gives, put right."""

import gc

import numpy as np
import onnx_ir
import onnxruntime
import pytest
import torch
from torch import Tensor, nn
from torch.onnx._internal.exporter._registration import ONNXRegistry

from export.interface import TensorSpec
from export.tracing.trace import trace, without_needless_work


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


def test_an_export_that_fails_leaves_the_exporter_and_the_collector_as_they_were() -> None:
    def state() -> tuple[object, ...]:
        return ONNXRegistry.__dict__["from_torchlib"], torch._dynamo.config.fake_tensor_cache_enabled, gc.isenabled()

    before = state()
    with pytest.raises(ZeroDivisionError), without_needless_work():
        assert not set(state()) & set(before)
        raise ZeroDivisionError
    assert state() == before
