"""A graph -> the classes of its nodes and its own; nodes attend to their neighbours (edges), with two heads."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from limelight.v1 import attention_pb2 as apb
from limelight.v1 import model_pb2 as mpb
from limelight.v1 import values_pb2 as vpb
from limelight_bundle.maps import MapWeights
from limelight_bundle.reader import BundleFolder
from limelight_bundle.samples import Sample
from limelight_bundle.v1 import bundle_pb2 as bpb
from limelight_bundle.values import Graph
from tests.kit.bundles import parts
from tests.kit.bundles.parts import CLASSES, LABELS, OF_SOURCE, OF_TARGET, WIDTH, softmax


def web(repository: Path, name: str = "web", *, version: int = 0) -> BundleFolder:
    """Write the classifier of nodes, and of the graphs that they make up."""
    graph = parts.graph(
        """
agraph (float[N, 4] nodes, int64[E] sources, int64[E] targets, int64[N] graph_of_node)
  => (float[N, 3] tags, float[G, 3] logits, float[E, 2] attention, int64[E] queries, int64[E] keys)
{
  s = MatMul(nodes, of_source)
  t = MatMul(nodes, of_target)
  se = Gather(s, sources)
  te = Gather(t, targets)
  added = Add(se, te)
  scores = LeakyRelu <alpha = 0.2> (added)
  raised = Exp(scores)
  places = Unsqueeze(targets, axis1)
  count = Shape <start = 0, end = 1> (nodes)
  of_heads = Concat <axis = 0> (count, two)
  nothing = Expand(zero, of_heads)
  of_scores = Shape(raised)
  head_places = Expand(places, of_scores)
  totals = ScatterElements <axis = 0, reduction = "add"> (nothing, head_places, raised)
  total = Gather(totals, targets)
  attention = Div(raised, total)
  wide = Unsqueeze(attention, axis2)
  taken = Gather(nodes, sources)
  values = Reshape(taken, heads)
  weighted = Mul(wide, values)
  flat = Reshape(weighted, joined)
  size = Shape(nodes)
  empty = Expand(zero, size)
  of_values = Shape(flat)
  value_places = Expand(places, of_values)
  context = ScatterElements <axis = 0, reduction = "add"> (empty, value_places, flat)
  tags = MatMul(context, classes)
  largest = ReduceMax <keepdims = 1> (graph_of_node)
  graphs = Add(largest, one)
  of_graphs = Concat <axis = 0> (graphs, three)
  none = Expand(zero, of_graphs)
  owners = Unsqueeze(graph_of_node, axis1)
  of_tags = Shape(tags)
  tag_owners = Expand(owners, of_tags)
  logits = ScatterElements <axis = 0, reduction = "add"> (none, tag_owners, tags)
  queries = Identity(targets)
  keys = Identity(sources)
}
""",
        of_source=OF_SOURCE,
        of_target=OF_TARGET,
        classes=CLASSES,
        heads=np.array([0, 2, 2]),
        joined=np.array([0, 4]),
        one=np.array([1]),
        two=np.array([2]),
        three=np.array([3]),
    )
    node, edge = mpb.Dimension(name="node", maximum=100), mpb.Dimension(name="edge", maximum=1000)
    tensors = [
        mpb.TensorDescription(
            name="nodes",
            data_type=vpb.DATA_TYPE_FLOAT32,
            dimensions=[node, mpb.Dimension(name="feature", size=WIDTH)],
        ),
        mpb.TensorDescription(name="sources", data_type=vpb.DATA_TYPE_INT64, dimensions=[edge]),
        mpb.TensorDescription(name="targets", data_type=vpb.DATA_TYPE_INT64, dimensions=[edge]),
    ]
    bundle = parts.new_bundle(
        name, mpb.TASK_TAGGING, mpb.InputDescription(name="graph", kind=mpb.INPUT_KIND_GRAPH, tensors=tensors)
    )
    description = bundle.description
    classes = mpb.Dimension(name="class", size=3)
    description.outputs.extend(
        [parts.output("tags", mpb.Dimension(name="node"), classes), parts.output("logits", classes)]
    )
    result = {"labels": LABELS, "activation": mpb.ACTIVATION_SOFTMAX}
    description.results.add(name="nodes", classes=mpb.ClassesDescription(output="tags", label_set="nodes", **result))
    description.results.add(name="graph", classes=mpb.ClassesDescription(output="logits", **result))
    description.label_sets.append(
        parts.labels("nodes", apb.LABEL_KIND_NODES, input="graph", tensor="nodes", dimension="node")
    )
    parts.add_map(bundle, "layer.0", apb.MAP_KIND_GRAPH, "nodes", "nodes", heads=2, form=mpb.MAP_FORM_EDGES)
    parts.bind(bundle, "layer.0", "main", "attention", "EDGE HEAD")
    bundle.maps[0].query_index, bundle.maps[0].key_index = "queries", "keys"
    bundle.graphs.append(
        parts.onnx_graph(
            "main",
            "model.onnx",
            "nodes sources targets graph_of_node".split(),
            "tags logits attention queries keys".split(),
        )
    )
    step = bpb.ReadGraph(nodes_tensor="nodes", sources_tensor="sources", targets_tensor="targets", self_loops=True)
    bundle.preprocessing.add(input="graph", steps=[bpb.PreprocessingStep(read_graph=step)])
    join = bpb.COLLATION_JOIN
    bundle.tensors.add(tensor="nodes", collation=join, instance_index="graph_of_node")
    bundle.tensors.add(tensor="sources", collation=join, indexes="node")
    bundle.tensors.add(tensor="targets", collation=join, indexes="node")
    graphs = [drawn_graph(3, [(0, 1), (2, 1)], seed=1), drawn_graph(1, [], seed=2)]
    return parts.write(
        repository,
        bundle,
        {"model.onnx": graph},
        [{"graph": each} for each in graphs],
        [web_answer(each) for each in graphs],
        version,
    )


def drawn_graph(nodes: int, edges: Sequence[tuple[int, int]], *, seed: int) -> Graph:
    """Draw the features of a graph with these edges, (source, target) each."""
    features = parts.drawn(np.random.default_rng(seed), nodes, WIDTH)
    index = np.array(edges, np.int64).reshape(-1, 2).T.copy()
    return Graph(features, index, None, tuple(f"node {number}" for number in range(nodes)))


def web_answer(graph: Graph) -> Sample:
    """Answer as the classifier of nodes does, node by node."""
    count, features = len(graph.nodes), graph.nodes.astype(np.float64)
    sent = [tuple(edge) for edge in graph.edges.T.tolist()]
    edges = sent + [(node, node) for node in range(count) if (node, node) not in sent]
    order = sorted(range(len(edges)), key=lambda place: edges[place][::-1])
    weights, context = np.zeros((2, len(edges))), np.zeros((count, 2, WIDTH // 2))
    for node in range(count):
        own = [place for place in order if edges[place][1] == node]
        scores = np.array([features[edges[place][0]] @ OF_SOURCE + features[node] @ OF_TARGET for place in own])
        weights[:, own] = softmax(np.where(scores > 0, scores, 0.2 * scores).T)
        for place in own:
            values = features[edges[place][0]].reshape(2, WIDTH // 2)
            context[node] += weights[:, place, np.newaxis] * values
    tags = context.reshape(count, WIDTH) @ CLASSES
    sources, targets = np.array(edges, np.int64).T.copy()
    found = MapWeights(
        parts.float32(weights[:, order]), targets[order].astype(np.int32), sources[order].astype(np.int32)
    )
    tensors = {"nodes": graph.nodes, "sources": sources, "targets": targets}
    return Sample(tensors, {"tags": parts.float32(tags), "logits": parts.float32(tags.sum(0))}, {"layer.0": found})
