"""Consistency of a bundle's private part: graphs, tensor bindings, map bindings, generation.

The self-test on examples checks the graphs themselves.
"""

from limelight.v1 import model_pb2, values_pb2
from limelight_bundle.checks.description import all_tensors, check_axes, check_distinct
from limelight_bundle.errors import BundleError
from limelight_bundle.interventions import edge_tensors, intervened_graph
from limelight_bundle.maps import VALUE_AXES, VALUES, WEIGHTS, map_key
from limelight_bundle.v1 import bundle_pb2

_KINDS = [values_pb2.INTERVENTION_KIND_HEAD_SCALES, values_pb2.INTERVENTION_KIND_WEIGHTS]
_KINDS_OF_NORMALISED = [*_KINDS, values_pb2.INTERVENTION_KIND_KEY_FACTOR]


def check_bindings(bundle: bundle_pb2.Bundle) -> None:
    """Check the private part of a bundle. Raises BundleError for the first inconsistency."""
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
    _check_interventions(bundle)
    masks = {each.mask for each in bundle.tensors}
    for graph in bundle.graphs:
        taken = masks.intersection(graph.inputs)
        for name in graph.packed:
            if name not in taken:
                raise BundleError(
                    f"the graph {graph.name} packs tokens by {name!r}, which is not a mask among its inputs"
                )
    if bundle.HasField("generation"):
        _check_generation(bundle)


def _check_tensors(bundle: bundle_pb2.Bundle) -> None:
    tensors = [each.name for each in all_tensors(bundle.description)]
    check_distinct("binding of the tensor", [each.tensor for each in bundle.tensors])
    derived = [name for each in bundle.tensors for name in (each.mask, each.instance_index) if name]
    check_distinct("tensor", [*tensors, *derived, *(each.tensor.name for each in bundle.noise)])


def _check_noise(bundle: bundle_pb2.Bundle) -> None:
    axes = {axis.name for each in all_tensors(bundle.description) for axis in each.dimensions}
    taken = {name for graph in bundle.graphs for name in graph.inputs}
    for each in bundle.noise:
        subject = f"the noise input {each.tensor.name!r}"
        check_axes(subject, each.tensor.dimensions)
        if each.tensor.name not in taken:
            raise BundleError(f"{subject} is read by no graph")
        for axis in each.tensor.dimensions:
            if not axis.size and axis.name not in axes:
                raise BundleError(f"{subject} varies along {axis.name!r}, which no input determines")


def _check_optional(bundle: bundle_pb2.Bundle) -> None:
    """Check that no graph takes an optional input: a graph needs all of its inputs."""
    taken = {name for graph in bundle.graphs for name in graph.inputs}
    derived = {each.tensor: (each.mask, each.instance_index) for each in bundle.tensors}
    for each in bundle.description.inputs:
        for tensor in each.tensors:
            if each.optional and taken.intersection((tensor.name, *derived.get(tensor.name, ()))):
                raise BundleError(f"the input {each.name!r} is optional, but a graph needs {tensor.name!r}")
    if all(each.optional for each in bundle.description.inputs):
        raise BundleError("all of its inputs are optional")


def _check_map_bindings(bundle: bundle_pb2.Bundle) -> None:
    outputs = {graph.name: frozenset(graph.outputs) for graph in bundle.graphs}
    descriptions = {each.name: each for each in bundle.description.maps}
    described = {(each.name, quantity) for each in bundle.description.maps for quantity in (WEIGHTS, *each.quantities)}
    bound_maps: set[tuple[str, int]] = set()
    for binding in bundle.maps:
        key = binding.map, binding.quantity or WEIGHTS
        if key in bound_maps:
            raise BundleError(f"the map {binding.map} is bound twice")
        if key not in described:
            raise BundleError(f"an output is bound to {map_key(*key)}, which is not described")
        bound_maps.add(key)
        if binding.graph not in outputs:
            raise BundleError(f"the map {binding.map} is bound to no output of a graph")
        _check_axes(binding, descriptions[binding.map])
        for output in filter(None, (binding.output or "''", binding.query_index, binding.key_index)):
            if output not in outputs[binding.graph]:
                raise BundleError(
                    f"the map {binding.map} is bound to {output!r}, which {binding.graph} does not output"
                )
    for name, quantity in described - bound_maps:
        raise BundleError(f"the map {map_key(name, quantity)} is bound to no output of a graph")


def _check_interventions(bundle: bundle_pb2.Bundle) -> None:
    """Check that a map supports interventions exactly if the graph for them takes those that its kind has."""
    graphs = {each.name: each for each in bundle.graphs}
    outputs = {each.name: frozenset(each.outputs) for each in bundle.graphs}
    bindings = {each.map: each for each in bundle.maps if (each.quantity or WEIGHTS) == WEIGHTS}
    for description in bundle.description.maps:
        binding, kinds = bindings[description.name], sorted(description.interventions)
        subject = f"the map {description.name}"
        stated = (binding.head_scales, *binding.weights_inputs, binding.key_factors, binding.masked_output)
        every = _KINDS_OF_NORMALISED if description.normalised else _KINDS
        if kinds not in ([], every) or bool(kinds) != any(stated):
            raise BundleError(f"{subject} supports interventions for which its binding has no inputs, or the opposite")
        if not kinds:
            continue
        if description.no_interventions:
            raise BundleError(f"{subject} supports interventions, and says why it does not")
        is_joined = bundle_pb2.AXIS_EDGE in binding.axes
        named = stated[:-1] if is_joined else stated
        if len(stated) != 6 or len({*named, ""}) != 1 + len(named):
            raise BundleError(f"{subject} has no name for some input or output of its interventions")
        name = intervened_graph(bundle, binding.graph)
        if name not in graphs:
            raise BundleError(f"{subject} supports interventions, and no graph {name} answers with them")
        if not set(filter(None, (binding.output, binding.masked_output))) <= outputs[name]:
            raise BundleError(f"{subject} supports interventions, but {name} does not put it out")
        if description.features or (is_joined and (bundle_pb2.AXIS_BATCH in binding.axes or not edge_tensors(bundle))):
            raise BundleError(f"{subject} supports interventions, but has features, or edges of no graph")
    generates = bundle.HasField("generation")
    for each in bundle.graphs if generates else bundle.graphs[:1]:
        changed = graphs.get(intervened_graph(bundle, each.name))
        if changed is not None and list(changed.inputs) != list(each.inputs):
            raise BundleError(f"the graph {changed.name} takes other inputs than {each.name}")


def _check_axes(binding: bundle_pb2.MapBinding, description: model_pb2.MapDescription) -> None:
    """Check the axes of a map's output against its description.

    An output without a head axis has one head; one without a feature axis has no features.
    """
    axes, subject = list(binding.axes), f"the map {binding.map}"
    if binding.quantity == VALUES:
        wanted = [axis for axis in VALUE_AXES if axis != bundle_pb2.AXIS_HEAD or axis in axes or description.heads != 1]
        if axes != wanted or description.form != model_pb2.MAP_FORM_DENSE:
            raise BundleError(f"{subject} has values, which need a dense map and the axes batch, head, key and feature")
        return
    edges = bundle_pb2.AXIS_EDGE in axes
    if bundle_pb2.AXIS_UNSPECIFIED in axes or len(set(axes)) < len(axes):
        raise BundleError(f"{subject} is bound to an output with an unspecified or repeated axis")
    places = {bundle_pb2.AXIS_QUERY, bundle_pb2.AXIS_KEY}.intersection(axes)
    if (edges and places) or (not edges and not {bundle_pb2.AXIS_KEY, bundle_pb2.AXIS_BATCH} <= set(axes)):
        raise BundleError(
            f"{subject} is bound to an output that needs the axes batch and key, or an edge axis without query and key"
        )
    if bundle_pb2.AXIS_HEAD not in axes and description.heads != 1:
        raise BundleError(f"{subject} has {description.heads} heads, but its output has no head axis")
    if (bundle_pb2.AXIS_FEATURE in axes) != bool(description.features):
        raise BundleError(f"{subject} has {description.features} features, which its output's axes contradict")


def _check_generation(bundle: bundle_pb2.Bundle) -> None:
    generation, graphs = bundle.generation, {graph.name for graph in bundle.graphs}
    for name in (generation.step, *filter(None, (generation.encoder, generation.prefill))):
        if name not in graphs:
            raise BundleError(f"generation refers to the graph {name!r}, which does not exist")
    roles = [name for name in (generation.step, generation.encoder, generation.prefill) if name]
    check_distinct("graph of generation", roles)
    if sum(each.HasField("sequence") for each in bundle.description.results) > 1:
        raise BundleError("more than one result is a sequence")
    check_distinct("input of a state", [each.input for each in generation.states])
    check_distinct("output of a state", [each.output for each in generation.states])
    tensors = {tensor.name: tensor for tensor in all_tensors(bundle.description)}
    for name in filter(None, (generation.target_tensor, generation.prompt_tensor)):
        if name not in tensors or len(tensors[name].dimensions) != 1:
            raise BundleError(f"generation refers to {name!r}, which is not a tensor of one axis")
    if generation.starts_with_prompt and not generation.prompt_tensor:
        raise BundleError("generation starts with the prompt, and states none")
    if generation.steps_before_target and not generation.target_tensor:
        raise BundleError("generation states steps before a target, and no target")
    if generation.chat_template and generation.chat_template not in {each.path for each in bundle.files}:
        raise BundleError(f"generation refers to the file {generation.chat_template!r}, which the bundle does not list")
    if any(each.sequence.chat for each in bundle.description.results) != bool(generation.chat_template):
        raise BundleError("its description says that it takes conversations without a chat template, or the opposite")
    of_prompt = sorted({each.map for each in bundle.maps if generation.prefill and each.graph == generation.prefill})
    if of_prompt and not generation.starts_with_prompt:
        raise BundleError(f"the map {of_prompt[0]} is over a prompt that has a begin token in front of it")
    for state in generation.states:
        if state.WhichOneof("initial") == "zeros":
            axes = len(state.zeros.dimensions) + 1
            places = {state.batch_axis, *([state.growing_axis] if state.HasField("growing_axis") else [])}
            if len(places) < 1 + state.HasField("growing_axis") or max(places) >= axes:
                raise BundleError(f"the state {state.input!r} has {axes} axes, which lack its batch or growing axis")
