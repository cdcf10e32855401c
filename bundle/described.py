"""Whether the parts of a bundle's description fit together: nothing stands twice, and nothing that is referred to is
missing. What it says of the graphs is for the graphs to show.
"""

from collections.abc import Iterable, Iterator

from bundle.errors import BundleError
from bundle.names import quantity_key
from bundle.v1 import bundle_pb2
from limelight.v1 import attention_pb2, model_pb2

_WEIGHTS = attention_pb2.QUANTITY_WEIGHTS
# Label sets whose entries are what is put out, or went in.
_GROWN = (attention_pb2.LABEL_KIND_OUTPUT_STEPS, attention_pb2.LABEL_KIND_INPUT_STEPS)


def check_description(bundle: bundle_pb2.Bundle) -> None:
    """Check the public part of a bundle. Raises: BundleError naming what does not fit."""
    model = bundle.description
    for what, names in (
        ("input", [each.name for each in model.inputs]),
        ("tensor", [each.name for each in _tensors(model)]),
        ("output", [each.name for each in model.outputs]),
        ("result", [each.name for each in model.results]),
        ("map", [each.name for each in model.maps]),
        ("label set", [each.name for each in model.label_sets]),
    ):
        check_distinct(what, names)
    for tensor in _tensors(model):
        _check_tensor(tensor)
    for output in model.outputs:
        check_axes(f"the output {output.name!r}", output.dimensions)
    for labels in model.label_sets:
        _check_label_set(model, labels, generates=bundle.HasField("generation"))
    for description in model.maps:
        _check_map(model, description)
    for result in model.results:
        _check_result(bundle, result)


def check_distinct(what: str, names: Iterable[str]) -> None:
    """Raise BundleError where a name is empty, or stands twice."""
    seen: set[str] = set()
    for name in names:
        if not name:
            raise BundleError(f"there is a nameless {what}")
        if name in seen:
            raise BundleError(f"there are two of the {what} {name!r}")
        seen.add(name)


def check_axes(what: str, dimensions: Iterable[model_pb2.Dimension]) -> None:
    """Raise BundleError where an axis varies and has no name: nobody knows then how large it is."""
    if not all(each.size or each.name for each in dimensions):
        raise BundleError(f"{what} has an axis without a name or a size")


def _tensors(model: model_pb2.ModelDescription) -> Iterator[model_pb2.TensorDescription]:
    for each in model.inputs:
        if not each.tensors:
            raise BundleError(f"the input {each.name!r} has no tensor")
        yield from each.tensors


def _check_tensor(tensor: model_pb2.TensorDescription) -> None:
    what = f"the tensor {tensor.name!r}"
    check_axes(what, tensor.dimensions)
    for each in tensor.dimensions:
        if each.size and each.maximum not in (0, each.size):
            raise BundleError(f"{what} has {each.name} of {each.size}, and of {each.maximum} at most")
    if tensor.HasField("minimum") and tensor.HasField("maximum") and tensor.minimum > tensor.maximum:
        raise BundleError(f"{what} takes numbers from {tensor.minimum} to {tensor.maximum}, which are none")


def _check_label_set(
    model: model_pb2.ModelDescription, labels: model_pb2.LabelSetDescription, *, generates: bool
) -> None:
    """Check where a label set's entries come from: something has to tell how many there are."""
    what = f"the label set {labels.name!r}"
    tensors = {each.name: {tensor.name: tensor for tensor in each.tensors} for each in model.inputs}
    if labels.input and labels.input not in tensors:
        raise BundleError(f"{what} is of the input {labels.input!r}, which is not described")
    if labels.tensor:
        own = tensors.get(labels.input, {}).get(labels.tensor)
        if own is None:
            raise BundleError(f"{what} is of the tensor {labels.tensor!r}, which its input lacks")
        if labels.dimension not in [axis.name for axis in own.dimensions]:
            raise BundleError(f"{what} is of the axis {labels.dimension!r}, which is not there")
    if labels.kind in _GROWN and not (generates or labels.names):
        raise BundleError(f"{what} is of steps, but the model does not generate")
    if labels.HasField("grid") != (labels.kind == attention_pb2.LABEL_KIND_GRID):
        raise BundleError(f"{what} is of cells without a grid, or has a grid and is of something else")
    counted = (
        bool(labels.tensor)
        or labels.HasField("grid")
        or bool(labels.names)
        or labels.kind in (*_GROWN, attention_pb2.LABEL_KIND_ONE)
    )
    if not counted:
        raise BundleError(f"{what} has neither names nor a tensor, so nobody knows how many entries there are")
    if labels.kind == attention_pb2.LABEL_KIND_ONE and len(labels.names) > 1:
        raise BundleError(f"{what} is of one entry, and has {len(labels.names)} names")
    parents = {each.name: each.parent for each in model.label_sets}
    seen, parent = {labels.name}, labels.parent
    while parent:
        if parent not in parents:
            raise BundleError(f"{what} is below {parent!r}, which is not described")
        if parent in seen:
            raise BundleError(f"{what} is below itself")
        seen.add(parent)
        parent = parents[parent]


def _check_map(model: model_pb2.ModelDescription, description: model_pb2.MapDescription) -> None:
    what, labels = f"the map {description.name}", {each.name: each for each in model.label_sets}
    for name in (
        description.query_labels,
        description.key_labels,
        *filter(None, (description.head_labels, description.feature_labels)),
    ):
        if name not in labels:
            raise BundleError(f"{what} refers to the label set {name!r}, which is not described")
    for name, size, axis in (
        (description.head_labels, description.heads, "heads"),
        (description.feature_labels, description.features, "features"),
    ):
        if name and fixed_size(labels[name]) != size:
            raise BundleError(f"{what} has {size} {axis}, and another number in {name!r}")
    check_distinct(f"quantity of {what}", [str(each) for each in (_WEIGHTS, *description.quantities)])
    if 0 in description.quantities:
        raise BundleError(f"{what} has a quantity that is none")
    if description.interventions:
        raise BundleError(f"{what} is said to take interventions, which this release does not know")


def fixed_size(labels: model_pb2.LabelSetDescription) -> int | None:
    """Count the entries of a label set that is the same for every instance; None for any other."""
    if labels.HasField("grid"):
        return len(labels.grid.leading) + labels.grid.rows * labels.grid.columns
    if labels.kind == attention_pb2.LABEL_KIND_ONE:
        return 1
    return len(labels.names) or None


def _check_result(bundle: bundle_pb2.Bundle, result: model_pb2.ResultDescription) -> None:
    """Check what a result is made of. Numbers of classes and targets are those of the output's last axis."""
    what = f"the result {result.name!r}"
    match result.WhichOneof("kind"):
        case "classes":
            output = _output(bundle, result.classes.output, what, 2 if result.classes.label_set else 1)
            _check_count(what, "labels", len(result.classes.labels), output)
            if result.classes.label_set:
                _check_entries(bundle, result.classes.label_set, what)
        case "embedding":
            _output(bundle, result.embedding.output, what, 1)
        case "spans":
            _output(bundle, result.spans.start_output, what, 1)
            _output(bundle, result.spans.end_output, what, 1)
            if not _check_entries(bundle, result.spans.label_set, what).input:
                raise BundleError(f"{what} is of {result.spans.label_set!r}, which come from no input")
        case "regression":
            output = _output(bundle, result.regression.output, what, 1)
            _check_count(what, "targets", len(result.regression.targets), output)
        case "sequence":
            _check_sequence(bundle, result.sequence, what)
        case _:
            raise BundleError(f"{what} is of no kind that this release knows")


def _output(bundle: bundle_pb2.Bundle, name: str, what: str, axes: int) -> model_pb2.OutputDescription:
    found = next((each for each in bundle.description.outputs if each.name == name), None)
    if found is None:
        raise BundleError(f"{what} is made of the output {name!r}, which is not described")
    if len(found.dimensions) != axes:
        raise BundleError(f"{what} is made of an output of {axes} axes; {name!r} has {len(found.dimensions)}")
    return found


def _check_count(what: str, of: str, count: int, output: model_pb2.OutputDescription) -> None:
    size = output.dimensions[-1].size
    if size != count:
        raise BundleError(f"{what} has {count} {of}, and the output {output.name!r} has {size} numbers for them")


def _check_entries(bundle: bundle_pb2.Bundle, name: str, what: str) -> model_pb2.LabelSetDescription:
    found = next((each for each in bundle.description.label_sets if each.name == name), None)
    if found is None:
        raise BundleError(f"{what} refers to the label set {name!r}, which is not described")
    return found


def _check_sequence(bundle: bundle_pb2.Bundle, sequence: model_pb2.SequenceDescription, what: str) -> None:
    if not bundle.HasField("generation"):
        raise BundleError(f"{what} is a sequence, but the model does not generate")
    if sequence.max_new_tokens != bundle.generation.max_new_tokens:
        raise BundleError(
            f"{what} has at most {sequence.max_new_tokens} tokens, and the generation "
            f"{bundle.generation.max_new_tokens}"
        )
    if sequence.label_set:
        labels = _check_entries(bundle, sequence.label_set, what)
        if labels.kind != attention_pb2.LABEL_KIND_OUTPUT_STEPS:
            raise BundleError(f"{what} is of {sequence.label_set!r}, which are no output steps")
    target = next((each for each in bundle.description.inputs if each.name == sequence.target_input), None)
    if sequence.target_input and (target is None or not target.optional):
        raise BundleError(f"{what} is forced by {sequence.target_input!r}, which is no optional input")
    tensors = [] if target is None else [each.name for each in target.tensors]
    if tensors != list(filter(None, [bundle.generation.target_tensor])):
        raise BundleError(f"{what} and the generation are forced by different tensors")


def check_bindings(bundle: bundle_pb2.Bundle) -> None:
    """Check the private part of a bundle. Raises: BundleError naming what does not fit."""
    graphs = {graph.name: graph for graph in bundle.graphs}
    if not graphs:
        raise BundleError("it has no graph")
    check_distinct("graph", [each.name for each in bundle.graphs])
    for graph in bundle.graphs:
        check_distinct(f"input of the graph {graph.name}", graph.inputs)
        check_distinct(f"output of the graph {graph.name}", graph.outputs)
    check_distinct("preprocessing of the input", [each.input for each in bundle.preprocessing])
    _check_tensors(bundle)
    _check_noise(bundle)
    _check_optional(bundle)
    _check_map_bindings(bundle)
    masks = {each.mask for each in bundle.tensors}
    for graph in bundle.graphs:
        for name in graph.packed:
            if name not in masks.intersection(graph.inputs):
                raise BundleError(f"the graph {graph.name} packs by {name!r}, which is no mask that it takes")
    if bundle.HasField("generation"):
        _check_generation(bundle)


def _check_tensors(bundle: bundle_pb2.Bundle) -> None:
    tensors = [each.name for each in _tensors(bundle.description)]
    check_distinct("binding of the tensor", [each.tensor for each in bundle.tensors])
    derived = [name for each in bundle.tensors for name in (each.mask, each.instance_index) if name]
    check_distinct("tensor", [*tensors, *derived, *(each.tensor.name for each in bundle.noise)])


def _check_noise(bundle: bundle_pb2.Bundle) -> None:
    axes = {axis.name for each in _tensors(bundle.description) for axis in each.dimensions}
    taken = {name for graph in bundle.graphs for name in graph.inputs}
    for each in bundle.noise:
        what = f"the noise input {each.tensor.name!r}"
        check_axes(what, each.tensor.dimensions)
        if each.tensor.name not in taken:
            raise BundleError(f"{what} is taken by no graph")
        for axis in each.tensor.dimensions:
            if not axis.size and axis.name not in axes:
                raise BundleError(f"{what} varies along {axis.name!r}, which no input decides")


def _check_optional(bundle: bundle_pb2.Bundle) -> None:
    """Check that what may be left out is taken by no graph, for a graph takes all of its inputs."""
    taken = {name for graph in bundle.graphs for name in graph.inputs}
    derived = {each.tensor: (each.mask, each.instance_index) for each in bundle.tensors}
    for each in bundle.description.inputs:
        for tensor in each.tensors:
            if each.optional and taken.intersection((tensor.name, *derived.get(tensor.name, ()))):
                raise BundleError(f"the input {each.name!r} is said to be optional, but a graph takes {tensor.name!r}")
    if all(each.optional for each in bundle.description.inputs):
        raise BundleError("it has no input that must be sent")


def _check_map_bindings(bundle: bundle_pb2.Bundle) -> None:
    graphs = {graph.name: graph for graph in bundle.graphs}
    described = {(each.name, quantity) for each in bundle.description.maps for quantity in (_WEIGHTS, *each.quantities)}
    bound: set[tuple[str, int]] = set()
    for binding in bundle.maps:
        key = binding.map, binding.quantity or _WEIGHTS
        if key in bound:
            raise BundleError(f"the map {binding.map} is bound twice")
        if key not in described:
            raise BundleError(f"an output is bound to {_name(*key)}, which no map that is described has")
        bound.add(key)
        if binding.graph not in graphs:
            raise BundleError(f"the map {binding.map} is bound to no output of a graph")
        _check_axes(binding, next(each for each in bundle.description.maps if each.name == binding.map))
        for output in filter(None, (binding.output or "''", binding.query_index, binding.key_index)):
            if output not in graphs[binding.graph].outputs:
                raise BundleError(
                    f"the map {binding.map} is bound to {output!r}, which {binding.graph} does not put out"
                )
    for name, quantity in described - bound:
        raise BundleError(f"the map {_name(name, quantity)} is bound to no output of a graph")


def _name(name: str, quantity: int) -> str:
    if quantity == _WEIGHTS:
        return name
    return quantity_key(name, str(attention_pb2.Quantity.Name(quantity)).removeprefix("QUANTITY_").lower())


def _check_axes(binding: bundle_pb2.MapBinding, description: model_pb2.MapDescription) -> None:
    """Check the axes of a map's output. Of its description: one head, and no features, where there is no such axis."""
    axes, what = list(binding.axes), f"the map {binding.map}"
    edges = bundle_pb2.AXIS_EDGE in axes
    if bundle_pb2.AXIS_UNSPECIFIED in axes or len(set(axes)) < len(axes):
        raise BundleError(f"{what} is bound to an output with an axis that is none, or stands twice")
    places = {bundle_pb2.AXIS_QUERY, bundle_pb2.AXIS_KEY}.intersection(axes)
    if (edges and places) or (not edges and not {bundle_pb2.AXIS_KEY, bundle_pb2.AXIS_BATCH} <= set(axes)):
        raise BundleError(f"{what} is bound to an output without the axes batch and key, or an edge axis alone")
    if bundle_pb2.AXIS_HEAD not in axes and description.heads != 1:
        raise BundleError(f"{what} has {description.heads} heads, and its output has no axis of heads")
    if (bundle_pb2.AXIS_FEATURE in axes) != bool(description.features):
        raise BundleError(f"{what} has {description.features} features, which its output's axes contradict")


def _check_generation(bundle: bundle_pb2.Bundle) -> None:
    generation, graphs = bundle.generation, {graph.name for graph in bundle.graphs}
    for name in (generation.step, *filter(None, (generation.encoder, generation.prefill))):
        if name not in graphs:
            raise BundleError(f"generation refers to the graph {name!r}, which is not there")
    roles = [name for name in (generation.step, generation.encoder, generation.prefill) if name]
    check_distinct("graph of generation", roles)
    if sum(each.HasField("sequence") for each in bundle.description.results) > 1:
        raise BundleError("more than one of its results is a sequence")
    check_distinct("input of a state", [each.input for each in generation.states])
    check_distinct("output of a state", [each.output for each in generation.states])
    tensors = {tensor.name: tensor for tensor in _tensors(bundle.description)}
    for name in filter(None, (generation.target_tensor, generation.prompt_tensor)):
        if name not in tensors or len(tensors[name].dimensions) != 1:
            raise BundleError(f"generation takes {name!r}, which is no tensor of one axis")
    for state in generation.states:
        if state.WhichOneof("initial") == "zeros":
            axes = len(state.zeros.dimensions) + 1
            places = {state.batch_axis, *([state.growing_axis] if state.HasField("growing_axis") else [])}
            if len(places) < 1 + state.HasField("growing_axis") or max(places) >= axes:
                raise BundleError(f"the state {state.input!r} has {axes} axes, and others for its rows and entries")
