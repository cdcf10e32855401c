"""Hidden states of a bundle: outputs of its graphs that hold values only on request."""

from limelight.v1 import attention_pb2, model_pb2, values_pb2
from limelight_bundle.checks.description import fixed_size
from limelight_bundle.errors import BundleError
from limelight_bundle.interventions import intervened_graph
from limelight_bundle.v1 import bundle_pb2


def hidden_outputs(description: model_pb2.ModelDescription) -> list[model_pb2.OutputDescription]:
    """Describe the outputs that hold hidden states, FLOAT32 [entry, feature], in the description's order."""
    labels = {each.name: each for each in description.label_sets}
    return [
        model_pb2.OutputDescription(
            name=each.name,
            data_type=values_pb2.DATA_TYPE_FLOAT32,
            dimensions=(_entries(labels[each.label_set]), model_pb2.Dimension(name="feature", size=each.size)),
        )
        for each in description.hidden
    ]


def hidden_gates(bundle: bundle_pb2.Bundle, graph: str) -> dict[str, str]:
    """Return the gate of each hidden state that a graph, or the one that it stands in for, puts out; empty for none."""
    return {
        each.name: each.gate for each in bundle.hidden if graph in (each.graph, intervened_graph(bundle, each.graph))
    }


def check_hidden(bundle: bundle_pb2.Bundle) -> None:
    """Check hidden states: each is of a described label set and an output of its graph. Raises BundleError."""
    label_sets = {each.name for each in bundle.description.label_sets}
    graphs = {each.name: frozenset(each.outputs) for each in bundle.graphs}
    described = [each.name for each in bundle.description.hidden]
    if sorted(described) != sorted(each.name for each in bundle.hidden) or len(set(described)) < len(described):
        raise BundleError("its hidden states are not each described once and bound once to a graph")
    others = {each.name for each in bundle.description.outputs} | {each.name for each in bundle.description.maps}
    if clash := others.intersection(described):
        raise BundleError(f"{sorted(clash)} are names of hidden states, and of outputs or maps")
    for each in bundle.description.hidden:
        subject = f"the hidden state {each.name!r}"
        if each.label_set not in label_sets:
            raise BundleError(f"{subject} refers to the label set {each.label_set!r}, which is not described")
        if each.size < 1 or each.layer < 0:
            raise BundleError(f"{subject} has no size, or a negative layer")
        if each.max_top_tokens and bundle.generation.lens not in graphs:
            raise BundleError(f"{subject} has tokens that no graph reads from it")
    for binding in bundle.hidden:
        for graph in (binding.graph, intervened_graph(bundle, binding.graph)):
            if binding.name not in graphs.get(graph, () if graph == binding.graph else {binding.name}):
                raise BundleError(f"the hidden state {binding.name!r} is no output of the graph {graph!r}")


def _entries(labels: model_pb2.LabelSetDescription) -> model_pb2.Dimension:
    """Describe the axis whose entries a label set names."""
    if labels.kind == attention_pb2.LABEL_KIND_OUTPUT_STEPS:
        return model_pb2.Dimension(name=labels.name)
    size = fixed_size(labels)
    return model_pb2.Dimension(name=labels.dimension or labels.name, size=size or 0)
