"""A text -> several results without maps, in a description with every part; two texts -> their class."""

from pathlib import Path

import numpy as np

from bundle.reader import BundleFolder
from bundle.samples import Sample
from bundle.values import Array, Pair, Text
from limelight.v1 import attention_pb2 as apb
from limelight.v1 import model_pb2 as mpb
from tests.kit.bundles import parts
from tests.kit.bundles.parts import CLASSES, EMBEDDING, LABELS, MOST_TOKENS, NUMBERS, QUERY, TARGETS, WIDTH, ids_of

_SOFTMAX = {"labels": LABELS, "activation": mpb.ACTIVATION_SOFTMAX}
_SUM = """
  words{n} = Gather(embedding, {ids})
  real{n} = Cast <to = 1> ({mask})
  wide{n} = Unsqueeze(real{n}, axis2)
  known{n} = Mul(words{n}, wide{n})
  {sum} = ReduceSum <keepdims = 0> (known{n}, axis1)
"""


def report(repository: Path, name: str = "report", *, max_tokens: int = MOST_TOKENS, version: int = 0) -> BundleFolder:
    """Write the model of several results: numbers, a class for each word, spans and a vector."""
    graph = parts.graph(
        f"""
agraph (int64[B, N] ids, bool[B, N] mask)
  => (float[B, 2] numbers, float[B, N, 3] tags, float[B, N] begins, float[B, N] ends, float[B, 4] vector)
{{
  {_SUM.format(n=0, ids="ids", mask="mask", sum="vector")}
  numbers = MatMul(vector, weights)
  tags = MatMul(known0, classes)
  scores = MatMul(known0, query)
  begins = Squeeze(scores, axis2)
  ends = Neg(begins)
}}
""",
        embedding=EMBEDDING,
        weights=NUMBERS,
        classes=CLASSES,
        query=QUERY,
    )
    bundle = parts.new_bundle(name, mpb.TASK_REGRESSION, parts.text_input(max_tokens))
    description, token = bundle.description, mpb.Dimension(name="token")
    description.title, description.precision = "A report", mpb.PRECISION_INT8
    description.limits.max_characters = 50_000
    description.metrics.add(
        name="accuracy",
        value=0.875,
        split="held-out",
        baseline=0.5,
        baseline_name="majority class",
        float32_value=0.9,
    )
    description.taxonomy.scoring.append("scaled multiplicative")
    description.citation.authors.append("Nobody")
    description.citation.title, description.citation.year = "Reports", 2021
    description.outputs.extend(
        [
            parts.output("numbers", mpb.Dimension(name="number", size=2)),
            parts.output("tags", token, mpb.Dimension(name="class", size=3)),
            parts.output("begins", token),
            parts.output("ends", token),
            parts.output("vector", mpb.Dimension(name="feature", size=WIDTH)),
        ]
    )
    targets = [mpb.Target(name=target, unit=unit) for target, unit in TARGETS]
    spans = mpb.SpansDescription(start_output="begins", end_output="ends", label_set="tokens")
    results = description.results
    results.add(name="size", regression=mpb.RegressionDescription(output="numbers", targets=targets))
    results.add(name="words", classes=mpb.ClassesDescription(output="tags", label_set="tokens", **_SOFTMAX))
    results.add(name="place", spans=spans)
    results.add(name="vector", embedding=mpb.EmbeddingDescription(output="vector"))
    description.label_sets.append(
        parts.labels("tokens", apb.LABEL_KIND_TOKENS, input="text", tensor="ids", dimension="token")
    )
    outputs = "numbers tags begins ends vector".split()
    bundle.graphs.append(parts.onnx_graph("main", "model.onnx", ["ids", "mask"], outputs))
    bundle.preprocessing.append(parts.tokenized("text"))
    bundle.tensors.add(tensor="ids", mask="mask")
    example = "the cat sat"
    sample = report_answer(ids_of(example))
    return parts.write(repository, bundle, {"model.onnx": graph}, [{"text": Text(example)}], [sample], version)


def report_answer(ids: Array) -> Sample:
    """Answer as the model of several results does."""
    words = EMBEDDING[ids].astype(np.float64)
    vector, begins = words.sum(0), (words @ QUERY)[:, 0]
    outputs = {"numbers": vector @ NUMBERS, "tags": words @ CLASSES, "begins": begins, "ends": -begins}
    found = {name: parts.float32(each) for name, each in {**outputs, "vector": vector}.items()}
    return Sample({"ids": ids}, found, {})


def pair(repository: Path, name: str = "pair", *, version: int = 0) -> BundleFolder:
    """Write the classifier of two texts."""
    graph = parts.graph(
        f"""
agraph (int64[B, N] first, bool[B, N] first_mask, int64[B, M] second, bool[B, M] second_mask) => (float[B, 3] logits)
{{
  {_SUM.format(n=0, ids="first", mask="first_mask", sum="one")}
  {_SUM.format(n=1, ids="second", mask="second_mask", sum="other")}
  difference = Sub(one, other)
  logits = MatMul(difference, classes)
}}
""",
        embedding=EMBEDDING,
        classes=CLASSES,
    )
    sides = ("first", "second")
    tensors = [parts.ids_tensor(side, f"{side}_token", 200) for side in sides]
    taken = mpb.InputDescription(name="pair", kind=mpb.INPUT_KIND_PAIR, tensors=tensors)
    bundle = parts.new_bundle(name, mpb.TASK_CLASSIFICATION, taken)
    bundle.description.limits.max_characters = 500
    bundle.description.outputs.append(parts.output("logits", mpb.Dimension(name="class", size=3)))
    bundle.description.results.add(name="mood", classes=mpb.ClassesDescription(output="logits", **_SOFTMAX))
    for side in sides:
        bundle.tensors.add(tensor=side, mask=f"{side}_mask")
    inputs = [f"{side}{each}" for side in sides for each in ("", "_mask")]
    bundle.graphs.append(parts.onnx_graph("main", "model.onnx", inputs, ["logits"]))
    bundle.preprocessing.append(parts.tokenized("pair", *sides))
    example, sample = Pair("the cat sat", "a dog"), pair_answer("the cat sat", "a dog")
    return parts.write(repository, bundle, {"model.onnx": graph}, [{"pair": example}], [sample], version)


def pair_answer(first: str, second: str) -> Sample:
    """Answer as the classifier of two texts does."""
    ids = {"first": ids_of(first), "second": ids_of(second)}
    one, other = (EMBEDDING[each].astype(np.float64).sum(0) for each in ids.values())
    return Sample(ids, {"logits": parts.float32((one - other) @ CLASSES)}, {})
