"""Images of 4 x 4 pixels -> numbers, by one query over a grid of patches; of 8 x 8, with or without a question -> their
class, by self attention of a class token and a grid.
"""

from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Picture

from limelight.v1 import attention_pb2 as apb
from limelight.v1 import model_pb2 as mpb
from limelight.v1 import values_pb2 as vpb
from limelight_bundle.maps import MapWeights
from limelight_bundle.reader import BundleFolder
from limelight_bundle.samples import Sample
from limelight_bundle.v1 import bundle_pb2 as bpb
from limelight_bundle.values import Array, Image, Text
from tests.kit.bundles import parts
from tests.kit.bundles.parts import (
    CLASSES,
    EMBEDDING,
    LABELS,
    NUMBERS,
    QUERY,
    SELF,
    SELF_SIZES,
    TARGETS,
    ids_of,
    self_layers,
    softmax,
)


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
    bundle = _bundle(name, mpb.TASK_REGRESSION, 4)
    description = bundle.description
    description.outputs.append(parts.output("numbers", mpb.Dimension(name="number", size=2)))
    targets = [mpb.Target(name=target, unit=unit) for target, unit in TARGETS]
    description.results.add(name="size", regression=mpb.RegressionDescription(output="numbers", targets=targets))
    grid = apb.Grid(rows=2, columns=2)
    description.label_sets.append(parts.labels("patches", apb.LABEL_KIND_GRID, grid=grid, input="image"))
    description.label_sets.append(parts.labels("one", apb.LABEL_KIND_ONE))
    parts.add_map(bundle, "patch", apb.MAP_KIND_POOL, "one", "patches")
    parts.bind(bundle, "patch", "main", "attention", "BATCH HEAD QUERY KEY")
    bundle.graphs.append(parts.onnx_graph("main", "model.onnx", ["pixels"], ["numbers", "attention"]))
    grey = (np.arange(16).reshape(4, 4) * 15).astype(np.uint8)
    example, sample = {"image": Image(png(grey))}, picture_answer(_normalised(grey))
    return parts.write(repository, bundle, {"model.onnx": graph}, [example], [sample], version)


def _bundle(name: str, task: mpb.Task, size: int, fit: bpb.Fit = bpb.FIT_STRETCH) -> bpb.Bundle:
    """Begin a bundle of a model of the whole of grey images, or of the middle."""
    axes = [mpb.Dimension(name=axis, size=size) for axis in ("row", "column")]
    pixels = mpb.TensorDescription(
        name="pixels", data_type=vpb.DATA_TYPE_FLOAT32, dimensions=[mpb.Dimension(name="channel", size=1), *axes]
    )
    bundle = parts.new_bundle(
        name, task, mpb.InputDescription(name="image", kind=mpb.INPUT_KIND_IMAGE, tensors=[pixels])
    )
    bundle.description.limits.max_pixels = 1_000_000
    normalise = bpb.NormaliseImage(scale=1 / 255, mean=[0.5], deviation=[0.5], tensor="pixels")
    steps = [
        bpb.PreprocessingStep(decode_image=bpb.DecodeImage(channels=1)),
        bpb.PreprocessingStep(resize_image=bpb.ResizeImage(rows=size, columns=size, fit=fit)),
        bpb.PreprocessingStep(crop_image=bpb.CropImage(rows=size, columns=size)),
        bpb.PreprocessingStep(normalise_image=normalise),
    ]
    bundle.preprocessing.add(input="image", steps=steps)
    return bundle


def _normalised(grey: NDArray[np.uint8]) -> Array:
    """Scale grey pixels as the server does: [1, row, column], from -1 to 1."""
    pixels = (grey * np.float32(1 / 255) - np.float32(0.5)) / np.float32(0.5)
    return pixels.astype(np.float32)[np.newaxis]


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


_ASKED = """
  words = Gather(embedding, ids)
  real = Cast <to = 1> (mask)
  real3 = Unsqueeze(real, axis2)
  known = Mul(words, real3)
  sum = ReduceSum <keepdims = 1> (known, axis1)
  count = ReduceSum <keepdims = 1> (real3, axis1)
  said = Div(sum, count)
  first = Add(mean, said)
"""


def glance(repository: Path, name: str = "glance", *, asked: bool = False, version: int = 0) -> BundleFolder:
    """Write the classifier of the middle of images, as 8 x 8 grey pixels; with a question it looks otherwise."""
    graph = parts.graph(
        f"""
agraph (float[B, 1, 8, 8] pixels{", int64[B, N] ids, bool[B, N] mask" if asked else ""})
  => (float[B, 3] logits, float[B, 2, 17, 17] attention0, float[B, 2, 17, 17] attention1)
{{
  p = Reshape(pixels, split)
  t = Transpose <perm = [0, 1, 3, 2, 4]> (p)
  patches = Reshape(t, rows)
  mean = ReduceMean <keepdims = 1> (patches, axis1)
  {_ASKED if asked else "first = Identity(mean)"}
  x = Concat <axis = 1> (first, patches)
  {SELF.format(n=0, x="x", y="y")}
  {SELF.format(n=1, x="y", y="features")}
  vector = Gather <axis = 1> (features, count_from)
  logits = MatMul(vector, classes)
}}
""",
        embedding=EMBEDDING,
        classes=CLASSES,
        wide_mask=np.ones((1, 1, 1, 1), bool),
        split=np.array([0, 4, 2, 4, 2]),
        rows=np.array([0, 16, 4]),
        **SELF_SIZES,
    )
    bundle = _bundle(name, mpb.TASK_CLASSIFICATION, 8, bpb.FIT_COVER)
    description = bundle.description
    description.outputs.append(parts.output("logits", mpb.Dimension(name="class", size=3)))
    classes = mpb.ClassesDescription(output="logits", labels=LABELS, activation=mpb.ACTIVATION_SOFTMAX)
    description.results.add(name="mood", classes=classes)
    grid = apb.Grid(rows=4, columns=4, leading=["[class]"])
    description.label_sets.append(parts.labels("patches", apb.LABEL_KIND_GRID, grid=grid, input="image"))
    for layer in (0, 1):
        parts.add_map(bundle, f"encoder.{layer}.self", apb.MAP_KIND_SELF, "patches", "patches", heads=2)
        parts.bind(bundle, f"encoder.{layer}.self", "main", f"attention{layer}", "BATCH HEAD QUERY KEY")
    tensors = ["pixels", "ids", "mask"] if asked else ["pixels"]
    bundle.graphs.append(parts.onnx_graph("main", "model.onnx", tensors, ["logits", "attention0", "attention1"]))
    grey = (np.arange(64).reshape(8, 8) * 4).astype(np.uint8)
    example: dict[str, Image | Text] = {"image": Image(png(grey))}
    if asked:
        example["question"] = Text(QUESTION)
        description.inputs.append(parts.text_input(200, "question"))
        bundle.preprocessing.append(parts.tokenized("question"))
        bundle.tensors.add(tensor="ids", mask="mask")
    sample = glance_answer(grey, QUESTION if asked else "")
    return parts.write(repository, bundle, {"model.onnx": graph}, [example], [sample], version)


QUESTION = "is it\na mat ?"


def glance_answer(grey: NDArray[np.uint8], question: str = "") -> Sample:
    """Answer as the classifier of 8 x 8 grey pixels does."""
    pixels = _normalised(grey)
    patches = pixels.reshape(4, 2, 4, 2).transpose(0, 2, 1, 3).reshape(16, 4).astype(np.float64)
    ids = ids_of(question)
    first = patches.mean(0) + (EMBEDDING[ids].mean(0) if question else 0)
    features, layers = self_layers(np.vstack([first, patches]))
    maps = {f"encoder.{n}.self": MapWeights(parts.float32(each["attention"])) for n, each in enumerate(layers)}
    tensors = {"pixels": pixels, **({"ids": ids} if question else {})}
    return Sample(tensors, {"logits": parts.float32(features[0] @ CLASSES)}, maps)
