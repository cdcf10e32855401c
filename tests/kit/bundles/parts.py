"""Shared parts of the small bundles: words, weights drawn from a fixed seed, and pieces of descriptions."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from google.protobuf import json_format
from numpy.typing import NDArray
from onnx import numpy_helper, parser
from tokenizers import Tokenizer, models, pre_tokenizers

from limelight.v1 import attention_pb2 as apb
from limelight.v1 import model_pb2 as mpb
from limelight.v1 import values_pb2 as vpb
from limelight_bundle.attention_drift import FEWEST_INPUTS
from limelight_bundle.attention_signals import references
from limelight_bundle.names import BUNDLE_FILE
from limelight_bundle.preprocess import Preprocessor
from limelight_bundle.reader import BundleFolder
from limelight_bundle.rows import Row
from limelight_bundle.samples import Sample, read_samples, samples_file
from limelight_bundle.tolerance import default_tolerances
from limelight_bundle.v1 import bundle_pb2 as bpb
from limelight_bundle.values import Array, Instance, TensorValue
from limelight_bundle.wire import instance_from_wire, instance_to_wire
from limelight_bundle.writer import write_bundle

WORDS = ("[PAD]", "[UNK]", "[BEGIN]", "[END]", "the", "cat", "sat", "on", "a", "mat", ".", "dog", "ran", "far")


PAD, BEGIN, END, FIRST_WORD = 0, 2, 3, 4
VOCABULARY = len(WORDS)
WIDTH = 4
MOST_TOKENS = 32
MOST_NEW_TOKENS = 12
LABELS = ("calm", "lively", "neither")
TARGETS = (("width", "px"), ("weight", ""))
NEVER = -1e9
LOWEST = np.finfo(np.float32).min


Floats = NDArray[np.float32]


def drawn(random: np.random.Generator, *shape: int, scale: float = 1.0) -> Floats:
    return (scale * random.normal(size=shape)).astype(np.float32)


_ANY = np.random.default_rng(7)
EMBEDDING = drawn(_ANY, VOCABULARY, WIDTH)
QUERY, CLASSES = drawn(_ANY, WIDTH, 1), drawn(_ANY, WIDTH, len(LABELS))
NUMBERS = drawn(_ANY, WIDTH, len(TARGETS))
OF_SOURCE, OF_TARGET = drawn(_ANY, WIDTH, 2), drawn(_ANY, WIDTH, 2)
# With these some sequences end by themselves and some do not.
_APT = np.random.default_rng(878)
CARRY, MIX, CHOICES = drawn(_APT, WIDTH, WIDTH), drawn(_APT, WIDTH, WIDTH), drawn(_APT, WIDTH, VOCABULARY, scale=2.0)


def softmax(scores: Array, mask: Array | None = None) -> Array:
    """Softmax over the last axis where the mask is true, zeros elsewhere."""
    mask = np.ones(scores.shape, bool) if mask is None else mask
    scores = np.where(mask, scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


# Self attention of two heads: the weights, scores and norms of layer {n}, and {y}, what it makes of {x}.
SELF = """
  qh{n} = Reshape({x}, heads)
  q{n} = Transpose <perm = [0, 2, 1, 3]> (qh{n})
  kt{n} = Transpose <perm = [0, 2, 3, 1]> (qh{n})
  s{n} = MatMul(q{n}, kt{n})
  scores{n} = Where(wide_mask, s{n}, low)
  attention{n} = Softmax <axis = -1> (scores{n})
  length{n} = ReduceL2 <keepdims = 0> (q{n}, last)
  lengths{n} = Unsqueeze(length{n}, axis2)
  norms{n} = Mul(attention{n}, lengths{n})
  c{n} = MatMul(attention{n}, q{n})
  t{n} = Transpose <perm = [0, 2, 1, 3]> (c{n})
  r{n} = Reshape(t{n}, joined)
  {y} = Add({x}, r{n})
"""


SELF_SIZES = {"heads": np.array([0, 0, 2, 2]), "joined": np.array([0, 0, 4])}


def self_layers(x: Array) -> tuple[Array, list[dict[str, Array]]]:
    """Give what two layers of self attention make of [entry, WIDTH], and each layer's weights, scores and norms."""
    x, layers = x.astype(np.float64), []
    for _ in range(2):
        heads = x.reshape(len(x), 2, 2).transpose(1, 0, 2)
        scores = heads @ heads.transpose(0, 2, 1)
        weights = softmax(scores)
        norms = weights * np.linalg.norm(heads, axis=-1)[:, np.newaxis]
        x = x + (weights @ heads).transpose(1, 0, 2).reshape(len(x), WIDTH)
        layers.append({"attention": weights, "scores": scores, "norms": norms})
    return x, layers


def ids_of(words: str) -> NDArray[np.int64]:
    """The token ids of a text."""
    return np.array([WORDS.index(word) if word in WORDS else 1 for word in words.split()], np.int64)


def row(folder: BundleFolder, **tensors: Sequence[int] | Array) -> Row:
    """Prepare a row from tensors of INT64."""
    values = {name: TensorValue(np.asarray(value, np.int64)) for name, value in tensors.items()}
    return Preprocessor(folder).row(values, field=("instances", 0))


def float32(array: Array) -> Floats:
    return np.asarray(array, np.float32)


def graph(body: str, **initializers: Array) -> bytes:
    shared = {f"axis{axis}": np.array([axis]) for axis in (1, 2, 3)}
    shared |= {
        "count_from": np.array(0),
        "count_by": np.array(1),
        "last": np.array([-1]),
        "low": np.array(LOWEST),
        "zero": np.array(0, np.float32),
    }
    model = parser.parse_model(f'<ir_version: 9, opset_import: ["" : 18]>\n{body}')
    used = {name for node in model.graph.node for name in node.input}
    model.graph.initializer.extend(
        numpy_helper.from_array(array, name) for name, array in (shared | initializers).items() if name in used
    )
    onnx.checker.check_model(model)
    return model.SerializeToString()


def onnx_graph(name: str, file: str, inputs: Sequence[str], outputs: Sequence[str]) -> bpb.OnnxGraph:
    return bpb.OnnxGraph(name=name, file=file, inputs=inputs, outputs=outputs)


def new_bundle(name: str, task: mpb.Task, taken: mpb.InputDescription) -> bpb.Bundle:
    return bpb.Bundle(description=mpb.ModelDescription(name=name, task=task, inputs=[taken]))


def write(
    repository: Path,
    bundle: bpb.Bundle,
    files: dict[str, bytes],
    examples: Sequence[Instance],
    samples: Sequence[Sample],
    version: int,
) -> BundleFolder:
    if any(step.HasField("tokenize") for each in bundle.preprocessing for step in each.steps):
        tokenizer = Tokenizer(models.WordLevel({word: place for place, word in enumerate(WORDS)}, unk_token="[UNK]"))
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()  # type: ignore[assignment]
        tokenizer.add_special_tokens(["[PAD]", "[BEGIN]", "[END]"])
        files["tokenizer.json"] = tokenizer.to_str().encode()
    bundle.description.examples.extend(map(instance_to_wire, examples))
    bundle.tolerances.extend(default_tolerances([each.name for each in bundle.description.maps]))
    return write_bundle(repository, bundle, files | {"samples.npz": samples_file(samples)}, version=version)


def add_references(folder: BundleFolder) -> None:
    """Write into a bundle how its attention looks over its examples, as an export does over held-out inputs."""
    preprocessor = Preprocessor(folder)
    rows = [preprocessor.row(instance_from_wire(each, "")) for each in folder.bundle.description.examples]
    observed = [(sample.maps, row.labels) for sample, row in zip(read_samples(folder), rows, strict=True)]
    bundle = bpb.Bundle()
    bundle.CopyFrom(folder.bundle)
    bundle.attention_references.extend(references(bundle.description.maps, observed * FEWEST_INPUTS))
    (folder.path / BUNDLE_FILE).write_text(json_format.MessageToJson(bundle), encoding="utf-8")


def ids_tensor(name: str, dimension: str, maximum: int) -> mpb.TensorDescription:
    return mpb.TensorDescription(
        name=name,
        data_type=vpb.DATA_TYPE_INT64,
        dimensions=[mpb.Dimension(name=dimension, maximum=maximum)],
        minimum=0,
        maximum=VOCABULARY - 1,
    )


def text_input(max_tokens: int, name: str = "text") -> mpb.InputDescription:
    ids = ids_tensor("ids", "token", max_tokens)
    return mpb.InputDescription(name=name, kind=mpb.INPUT_KIND_TEXT, tensors=[ids])


def tokenized(name: str, tensor: str = "ids") -> bpb.Preprocessing:
    step = bpb.Tokenize(tokenizer="tokenizer.json", tensor=tensor)
    return bpb.Preprocessing(input=name, steps=[bpb.PreprocessingStep(tokenize=step)])


def output(name: str, *dimensions: mpb.Dimension) -> mpb.OutputDescription:
    return mpb.OutputDescription(name=name, data_type=vpb.DATA_TYPE_FLOAT32, dimensions=dimensions)


def add_map(bundle: bpb.Bundle, name: str, kind: apb.MapKind, queries: str, keys: str, **fields: object) -> None:
    """Describe a map; `encoder.0.self` is of layer 0 of the stack `encoder`."""
    stack, _, rest = name.partition(".")
    layer = rest.split(".")[0]
    values = {"heads": 1, "form": mpb.MAP_FORM_DENSE, "normalised": True} | fields
    if layer.isdigit():
        values |= {"stack": stack, "layer": int(layer)}
    bundle.description.maps.add(name=name, kind=kind, query_labels=queries, key_labels=keys, **values)  # type: ignore[arg-type]


def bind(bundle: bpb.Bundle, name: str, graph: str, output: str, axes: str, quantity: int = 0) -> None:
    bundle.maps.add(
        map=name,
        quantity=quantity,  # type: ignore[arg-type]
        graph=graph,
        output=output,
        axes=[bpb.Axis.Value(f"AXIS_{axis}") for axis in axes.split()],
    )


def labels(name: str, kind: apb.LabelKind, **fields: object) -> mpb.LabelSetDescription:
    return mpb.LabelSetDescription(name=name, kind=kind, **fields)  # type: ignore[arg-type]
