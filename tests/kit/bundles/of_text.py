"""A text -> its class and the classes of its tokens; two layers of self attention with two heads, a pooled map."""

from pathlib import Path

import numpy as np

from limelight.v1 import attention_pb2 as apb
from limelight.v1 import model_pb2 as mpb
from limelight_bundle.maps import MapWeights
from limelight_bundle.reader import BundleFolder
from limelight_bundle.samples import Sample
from limelight_bundle.values import Array, Instance, Pair, Text
from tests.kit.bundles import parts
from tests.kit.bundles.parts import (
    CLASSES,
    EMBEDDING,
    LABELS,
    MOST_TOKENS,
    QUERY,
    SELF,
    SELF_SIZES,
    TARGETS,
    WIDTH,
    ids_of,
    self_layers,
    softmax,
)

TINY_EXAMPLES = ("a", "the cat sat", "the dog ran far on a mat .")


def tiny(
    repository: Path,
    name: str = "tiny",
    *,
    max_tokens: int = MOST_TOKENS,
    max_characters: int = 500,
    pair: bool = False,
    every_result: bool = False,
    version: int = 0,
) -> BundleFolder:
    """Write the classifier of texts, or of two texts as one; or with results of other kinds and a full description."""
    of_layer = "float[B, 2, N, N] attention{0}, float[B, 2, N, N] scores{0}, float[B, 2, N, N] norms{0}"
    graph = parts.graph(
        f"""
agraph (int64[B, N] ids, bool[B, N] mask)
  => (float[B, 3] logits, float[B, N, 4] features, float[B, N, 3] tags, float[B, N] pooled,
      {of_layer.format(0)}, {of_layer.format(1)})
{{
  x = Gather(embedding, ids)
  wide_mask = Unsqueeze(mask, axes12)
  {SELF.format(n=0, x="x", y="y")}
  {SELF.format(n=1, x="y", y="features")}
  ps = MatMul(features, query)
  flat = Squeeze(ps, axis2)
  pm = Where(mask, flat, low)
  pooled = Softmax <axis = -1> (pm)
  row = Unsqueeze(pooled, axis1)
  context = MatMul(row, features)
  vector = Squeeze(context, axis1)
  logits = MatMul(vector, classes)
  tags = MatMul(features, classes)
}}
""",
        embedding=EMBEDDING,
        query=QUERY,
        classes=CLASSES,
        **SELF_SIZES,
        axes12=np.array([1, 2]),
    )
    taken = parts.text_input(max_tokens, "pair" if pair else "text")
    bundle = parts.new_bundle(name, mpb.TASK_CLASSIFICATION, taken)
    description = bundle.description
    if pair:
        description.inputs[0].kind = mpb.INPUT_KIND_PAIR
    description.title = "A tiny text model"
    description.limits.max_characters = max_characters
    token, of_class = mpb.Dimension(name="token"), mpb.Dimension(name="class", size=3)
    description.outputs.append(parts.output("logits", of_class))
    description.outputs.append(parts.output("features", token, mpb.Dimension(name="feature", size=WIDTH)))
    description.outputs.append(parts.output("tags", token, of_class))
    classes = {"labels": LABELS, "activation": mpb.ACTIVATION_SOFTMAX}
    description.results.add(name="mood", classes=mpb.ClassesDescription(output="logits", **classes))
    description.results.add(name="words", classes=mpb.ClassesDescription(output="tags", label_set="tokens", **classes))
    description.label_sets.extend(
        [
            parts.labels("tokens", apb.LABEL_KIND_TOKENS, input=taken.name, tensor="ids", dimension="token"),
            parts.labels("one", apb.LABEL_KIND_ONE),
            parts.labels("sides", apb.LABEL_KIND_HEADS, names=["left", "right"]),
        ]
    )
    graph_outputs = "logits features tags pooled".split()
    for layer in (0, 1):
        self_map = f"encoder.{layer}.self"
        quantities = [apb.QUANTITY_SCORES, apb.QUANTITY_NORMS]
        parts.add_map(
            bundle, self_map, apb.MAP_KIND_SELF, "tokens", "tokens", heads=2, head_labels="sides", quantities=quantities
        )
        for quantity, output in zip([0, *quantities], ("attention", "scores", "norms"), strict=True):
            parts.bind(bundle, self_map, "main", f"{output}{layer}", "BATCH HEAD QUERY KEY", quantity)
            graph_outputs.append(f"{output}{layer}")
    parts.add_map(bundle, "pool", apb.MAP_KIND_POOL, "one", "tokens")
    parts.bind(bundle, "pool", "main", "pooled", "BATCH KEY")
    bundle.graphs.append(parts.onnx_graph("main", "model.onnx", "ids mask".split(), graph_outputs))
    bundle.preprocessing.append(parts.tokenized(taken.name))
    bundle.tensors.add(tensor="ids", mask="mask")
    shown = TINY_EXAMPLES[1:] if pair else TINY_EXAMPLES
    examples: list[Instance] = [{taken.name: Pair(*each.split(" ", 1)) if pair else Text(each)} for each in shown]
    samples = [tiny_answer(ids_of(each)) for each in shown]
    if every_result:
        _describe(description)
        for each in samples:
            each.outputs["pooled"] = each.maps["pool"].weights[0, 0]  # type: ignore[index]
    return parts.write(repository, bundle, {"model.onnx": graph}, examples, samples, version)


def _describe(description: mpb.ModelDescription) -> None:
    """Take the scores of classes for numbers and a vector, and the pooled map for the ends of spans."""
    description.outputs.append(parts.output("pooled", mpb.Dimension(name="token")))
    targets = [*(mpb.Target(name=target, unit=unit) for target, unit in TARGETS), mpb.Target(name="height")]
    spans = mpb.SpansDescription(start_output="pooled", end_output="pooled", label_set="tokens")
    del description.results[0]
    description.results.add(name="size", regression=mpb.RegressionDescription(output="logits", targets=targets))
    description.results.add(name="place", spans=spans)
    description.results.add(name="vector", embedding=mpb.EmbeddingDescription(output="logits"))
    description.metrics.add(
        name="accuracy", value=0.875, split="held-out", baseline=0.5, baseline_name="majority class", float32_value=0.9
    )
    description.precision = mpb.PRECISION_INT8
    description.taxonomy.scoring.append("scaled multiplicative")
    description.citation.authors.append("Nobody")
    description.citation.title, description.citation.year = "Reports", 2021


def tiny_layers(ids: Array) -> tuple[Array, list[dict[str, Array]]]:
    """Give the classifier's features, and each layer's weights, scores and norms."""
    return self_layers(EMBEDDING[ids])


def tiny_answer(ids: Array) -> Sample:
    """Answer as the classifier of texts does."""
    features, layers = tiny_layers(ids)
    pool = softmax((features @ QUERY)[:, 0])
    maps = {
        f"encoder.{layer}.self{quantity}": MapWeights(parts.float32(each[output]))
        for layer, each in enumerate(layers)
        for quantity, output in (("", "attention"), (":scores", "scores"), (":norms", "norms"))
    }
    maps["pool"] = MapWeights(parts.float32(pool[np.newaxis, np.newaxis]))
    outputs = {"logits": pool @ features @ CLASSES, "features": features, "tags": features @ CLASSES}
    return Sample({"ids": ids}, {name: parts.float32(each) for name, each in outputs.items()}, maps)
