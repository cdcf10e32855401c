"""An image of 4 x 4 pixels -> numbers; one query over a grid of 2 x 2 patches."""

from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Picture

from bundle.maps import MapWeights
from bundle.reader import BundleFolder
from bundle.samples import Sample
from bundle.v1 import bundle_pb2 as bpb
from bundle.values import Array, Image
from limelight.v1 import attention_pb2 as apb
from limelight.v1 import model_pb2 as mpb
from limelight.v1 import values_pb2 as vpb
from tests.kit.bundles import parts
from tests.kit.bundles.parts import NUMBERS, QUERY, TARGETS, softmax


def picture(repository: Path, name: str = "picture", *, version: int = 0) -> BundleFolder:
    """Write the regression on images of 4 x 4 grey pixels."""
    graph = parts.graph(
        """
agraph (float[B, 1, 4, 4] pixels) => (float[B, 2] numbers, float[B, 1, 1, 4] attention)
{
  p = Reshape(pixels, split)
  t = Transpose <perm = [0, 1, 3, 2, 4]> (p)
  patches = Reshape(t, rows)
  s = MatMul(patches, query)
  k = Transpose <perm = [0, 2, 1]> (s)
  a = Softmax <axis = -1> (k)
  attention = Unsqueeze(a, axis1)
  c = MatMul(a, patches)
  v = Squeeze(c, axis1)
  numbers = MatMul(v, weights)
}
""",
        query=QUERY,
        weights=NUMBERS,
        split=np.array([0, 2, 2, 2, 2]),
        rows=np.array([0, 4, 4]),
    )
    pixels = mpb.TensorDescription(
        name="pixels",
        data_type=vpb.DATA_TYPE_FLOAT32,
        dimensions=[
            mpb.Dimension(name="channel", size=1),
            mpb.Dimension(name="row", size=4),
            mpb.Dimension(name="column", size=4),
        ],
    )
    bundle = parts.new_bundle(
        name,
        mpb.TASK_REGRESSION,
        mpb.InputDescription(name="image", kind=mpb.INPUT_KIND_IMAGE, tensors=[pixels]),
    )
    description = bundle.description
    description.limits.max_pixels = 1_000_000
    description.outputs.append(parts.output("numbers", mpb.Dimension(name="number", size=2)))
    targets = [mpb.Target(name=target, unit=unit) for target, unit in TARGETS]
    description.results.add(name="size", regression=mpb.RegressionDescription(output="numbers", targets=targets))
    grid = apb.Grid(rows=2, columns=2)
    description.label_sets.extend(
        [
            parts.labels("patches", apb.LABEL_KIND_GRID, grid=grid, input="image"),
            parts.labels("one", apb.LABEL_KIND_ONE),
        ]
    )
    parts.add_map(bundle, "patch", apb.MAP_KIND_POOL, "one", "patches")
    parts.bind(bundle, "patch", "main", "attention", "BATCH HEAD QUERY KEY")
    bundle.graphs.append(parts.onnx_graph("main", "model.onnx", ["pixels"], ["numbers", "attention"]))
    steps = [
        bpb.PreprocessingStep(decode_image=bpb.DecodeImage(channels=1)),
        bpb.PreprocessingStep(resize_image=bpb.ResizeImage(rows=4, columns=4)),
        bpb.PreprocessingStep(
            normalise_image=bpb.NormaliseImage(scale=1 / 255, mean=[0.5], deviation=[0.5], tensor="pixels")
        ),
    ]
    bundle.preprocessing.add(input="image", steps=steps)
    grey = (np.arange(16).reshape(4, 4) * 15).astype(np.uint8)
    scaled = ((grey * np.float32(1 / 255) - np.float32(0.5)) / np.float32(0.5)).astype(np.float32)
    return parts.write(
        repository,
        bundle,
        {"model.onnx": graph},
        [{"image": Image(png(grey))}],
        [picture_answer(scaled[np.newaxis])],
        version,
    )


def png(grey: NDArray[np.uint8]) -> bytes:
    """Write grey pixels [row, column] as a PNG."""
    buffer = BytesIO()
    Picture.fromarray(grey).save(buffer, "PNG")
    return buffer.getvalue()


def picture_answer(pixels: Array) -> Sample:
    """Answer as the regression does; pixels: [1, 4, 4], normalised."""
    patches = pixels.reshape(2, 2, 2, 2).transpose(0, 2, 1, 3).reshape(4, 4).astype(np.float64)
    weights = softmax((patches @ QUERY)[:, 0])
    maps = {"patch": MapWeights(parts.float32(weights[np.newaxis, np.newaxis]))}
    return Sample({}, {"numbers": parts.float32(weights @ patches @ NUMBERS)}, maps)
