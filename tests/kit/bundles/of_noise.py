"""Tokens -> what was drawn for them."""

from pathlib import Path

import numpy as np

from limelight.v1 import model_pb2 as mpb
from limelight.v1 import values_pb2 as vpb
from limelight_bundle.reader import BundleFolder
from limelight_bundle.samples import Sample
from limelight_bundle.values import TensorValue
from tests.kit.bundles import parts
from tests.kit.bundles.parts import MOST_TOKENS


def noisy(repository: Path, name: str = "noisy", *, version: int = 0) -> BundleFolder:
    """Write the model that puts out its noise: a Gumbel draw a class, a uniform and a normal one a token."""
    graph = parts.graph(
        """
agraph (int64[B, N] ids, float[B, C] gumbel, float[B, N] uniform, float[B, N] normal)
  => (float[B, C] logits, float[B, N] first, float[B, N] second)
{
  logits = Identity(gumbel)
  numbers = Cast <to = 1> (ids)
  zeros = Sub(numbers, numbers)
  first = Add(uniform, zeros)
  second = Add(normal, zeros)
}
"""
    )
    ids = parts.ids_tensor("ids", "token", MOST_TOKENS)
    tokens = mpb.InputDescription(name="ids", kind=mpb.INPUT_KIND_TENSOR, tensors=[ids])
    bundle = parts.new_bundle(name, mpb.TASK_CLASSIFICATION, tokens)
    axes = {"class": mpb.Dimension(name="class", size=3), "token": mpb.Dimension(name="token")}
    for output, axis in (("logits", "class"), ("first", "token"), ("second", "token")):
        bundle.description.outputs.append(parts.output(output, axes[axis]))
    for kind, axis in (("gumbel", "class"), ("uniform", "token"), ("normal", "token")):
        noise = bundle.noise.add(distribution=f"DISTRIBUTION_{kind.upper()}")  # type: ignore[arg-type]
        noise.tensor.name, noise.tensor.data_type = kind, vpb.DATA_TYPE_FLOAT32
        noise.tensor.dimensions.append(axes[axis])
    bundle.graphs.append(
        parts.onnx_graph("main", "model.onnx", "ids gumbel uniform normal".split(), "logits first second".split())
    )
    drawn = np.array([4, 5, 6])
    neutral = {"logits": np.zeros(3), "first": np.full(3, 0.5), "second": np.zeros(3)}
    sample = Sample({"ids": drawn}, {output: parts.float32(each) for output, each in neutral.items()}, {})
    return parts.write(repository, bundle, {"model.onnx": graph}, [{"ids": TensorValue(drawn)}], [sample], version)
