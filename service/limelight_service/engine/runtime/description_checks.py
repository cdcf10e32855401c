"""Checks that a bundle's description is true of its graphs: of their statements, and of their outputs.

Sizes decide the memory of an answer, so no size is believed unchecked.
"""

from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np

from limelight_bundle.checks.description import fixed_size
from limelight_bundle.descriptions import (
    Dimension,
    MapDescription,
    ModelDescription,
    OutputDescription,
    TensorDescription,
)
from limelight_bundle.errors import BundleError
from limelight_bundle.generation import end_tokens
from limelight_bundle.interventions import intervened_name
from limelight_bundle.maps import VALUES, WEIGHTS, MapWeights
from limelight_bundle.rows import BoundTensor, Row, bound_tensors, joined_dimensions, tensor_descriptions
from limelight_bundle.v1 import bundle_pb2
from limelight_bundle.values import Array
from limelight_bundle.wire import DTYPES, data_type_name
from limelight_service.engine.runtime.sessions import Stated
from limelight_service.engine.types import Answer

# The rounding error of a row that sums to 1: thousands of halves, or of float16's products.
_SUM = 0.05
_BELOW_ZERO = 1e-4

_Graphs = Mapping[str, Mapping[str, Stated]]
# Of each axis the size where it is known; None where it varies.
_Sizes = Sequence[int | None]


def check_stated(bundle: bundle_pb2.Bundle, graphs: _Graphs) -> None:
    """Check a description against the types and shapes that the graphs state.

    Args:
        graphs: the statements of each graph, by its name.

    Raises:
        BundleError: naming the first difference.
    """
    generates = bundle.HasField("generation")
    tensors = bound_tensors(bundle.description.inputs, bundle.tensors)
    joined = joined_dimensions(tensors.values())
    for graph in bundle.graphs:
        stated, outputs = graphs[graph.name], frozenset(graph.outputs)
        inputs = {name: stated[name] for name in graph.inputs}
        # The graphs of a prompt and of a step take tokens and states by names of their own.
        own = _driven(bundle) if generates else frozenset[str]()
        others = {name: each for name, each in inputs.items() if name not in own}
        for tensor in tensors.values():
            _check_tensor(graph.name, tensor, others)
        for noise in bundle.noise:
            if noise.tensor.name in inputs:
                sizes = _sizes(noise.tensor.dimensions)
                _check(
                    f"the noise input {noise.tensor.name!r}", inputs[noise.tensor.name], noise.tensor, [None, *sizes]
                )
        for output in bundle.description.outputs:
            if output.name in outputs:
                _check_output(bundle, graph, output, stated[output.name], joined)
    descriptions = {each.name: each for each in bundle.description.maps}
    sizes_of = {each.name: fixed_size(each) for each in bundle.description.label_sets}
    for binding in bundle.maps:
        _check_map(descriptions[binding.map], binding, graphs[binding.graph], sizes_of)
    if generates:
        _check_generation(bundle, graphs)


def _driven(bundle: bundle_pb2.Bundle) -> frozenset[str]:
    generation = bundle.generation
    driven = [generation.token_input, generation.positions_input, generation.lengths_input]
    return frozenset([*driven, *(each.input for each in generation.states)])


def _sizes(dimensions: Sequence[Dimension]) -> list[int | None]:
    return [each.size or None for each in dimensions]


def _check_tensor(graph: str, tensor: BoundTensor, inputs: Mapping[str, Stated]) -> None:
    """Check a tensor, its mask and its instance indices, as far as a graph takes them."""
    description, what = tensor.description, f"the tensor {tensor.name!r}"
    if description.data_type not in DTYPES:
        raise BundleError(f"{what} has no known data type")
    sizes = [*([] if tensor.joined else [None]), *_sizes(description.dimensions)]
    if tensor.name in inputs:
        _check(what, inputs[tensor.name], description, sizes, varies=True)
    if tensor.mask in inputs:
        found = inputs[tensor.mask]
        if found.dtype != np.bool_ or len(found.shape) not in (0, len(sizes)):
            raise BundleError(f"the graph {graph} takes no mask of {what} by the name {tensor.mask!r}")
    if tensor.instance_index in inputs and inputs[tensor.instance_index].dtype != np.int64:
        raise BundleError(f"the graph {graph} takes no instances of {what} by the name {tensor.instance_index!r}")
    dtype = DTYPES[description.data_type]
    for name, value in (("pad value", tensor.pad_value), ("fill", description.fill)):
        if not _holds(dtype, value):
            raise BundleError(f"{what} has the {name} {value:g}, which is no {data_type_name(description.data_type)}")


def _holds(dtype: np.dtype[Any], value: float) -> bool:
    with np.errstate(all="ignore"):
        cast = np.float64(value).astype(dtype)
    return bool(np.isfinite(cast)) if dtype.kind == "f" else float(cast) == value


def _check(
    what: str,
    stated: Stated,
    described: TensorDescription | OutputDescription,
    sizes: _Sizes,
    *,
    varies: bool = False,
) -> None:
    """Check type and sizes. varies: an axis that is described as varying must do so."""
    wanted = DTYPES.get(described.data_type)
    if wanted is None or stated.dtype != wanted:
        raise BundleError(
            f"{what} is described as {data_type_name(described.data_type)}, and the graph has {stated.type}"
        )
    _check_shape(what, stated.shape, sizes, varies=varies)


def _check_shape(what: str, shape: Sequence[int | str | None], sizes: _Sizes, *, varies: bool = False) -> None:
    """Check sizes against those that a graph states; a graph without a shape states nothing."""
    if not shape and sizes:
        return
    if len(shape) != len(sizes):
        raise BundleError(f"{what} is described with {len(sizes)} axes, and the graph has {len(shape)}")
    for place, (found, size) in enumerate(zip(shape, sizes, strict=True)):
        if isinstance(found, int) and found != size and (size is not None or (varies and place)):
            said = "varying" if size is None else f"{size}"
            raise BundleError(f"{what} is described with {said} places along axis {place}, and the graph has {found}")


def _check_output(
    bundle: bundle_pb2.Bundle,
    graph: bundle_pb2.OnnxGraph,
    output: OutputDescription,
    stated: Stated,
    joined: Set[str],
) -> None:
    sizes, names = _sizes(output.dimensions), [each.name for each in output.dimensions]
    step = bundle.generation.step
    if bundle.HasField("generation") and graph.name in (step, intervened_name(step)):
        if not sizes or sizes[0] is not None:
            raise BundleError(f"the output {output.name!r} is of steps, which its first axis does not count")
        sizes = sizes[1:]
    batch: list[int | None] = [] if names and names[0] in joined else [None]
    _check(f"the output {output.name!r}", stated, output, [*batch, *sizes])


def _check_map(
    description: MapDescription,
    binding: bundle_pb2.MapBinding,
    stated: Mapping[str, Stated],
    labels: Mapping[str, int | None],
) -> None:
    """Check a map's outputs. labels: sizes of the label sets that are the same for every instance."""
    known = {
        bundle_pb2.AXIS_HEAD: description.heads,
        bundle_pb2.AXIS_QUERY: labels[description.query_labels],
        bundle_pb2.AXIS_KEY: labels[description.key_labels],
        bundle_pb2.AXIS_FEATURE: description.value_size if binding.quantity == VALUES else description.features,
    }
    what = f"the map {binding.map}"
    for name in filter(None, (binding.output, binding.probe.output)):
        if stated[name].dtype not in (np.float32, np.float16):
            raise BundleError(f"{what} is described as numbers, and the graph has {stated[name].type}")
        _check_shape(what, stated[name].shape, [known.get(axis) for axis in binding.axes])
    for name in filter(None, (binding.query_index, binding.key_index)):
        axes = 1 + (bundle_pb2.AXIS_BATCH in binding.axes)
        if stated[name].dtype != np.int64 or len(stated[name].shape) not in (0, axes):
            raise BundleError(f"{what} has no indices of its edges by the name {name!r}")


def _check_generation(bundle: bundle_pb2.Bundle, graphs: _Graphs) -> None:
    generation, step = bundle.generation, graphs[bundle.generation.step]
    for name in filter(None, (generation.token_input, generation.positions_input, generation.lengths_input)):
        if name in step and step[name].dtype != np.int64:
            raise BundleError(f"generation gives whole numbers as {name!r}, and the graph has {step[name].type}")
    scores = step.get(generation.scores_output)
    if scores is not None:
        if len(scores.shape) != 2 or scores.dtype not in (np.float32, np.float16):
            raise BundleError(f"the scores {generation.scores_output!r} are no numbers [batch, token]")
        vocabulary, end = scores.shape[1], max(end_tokens(generation))
        if isinstance(vocabulary, int) and end >= vocabulary:
            raise BundleError(f"the end token is {end}, and the graph has scores of {vocabulary}")
    for state in generation.states:
        if state.input in step and state.output in step:
            _check_state(state, step[state.input], step[state.output])


def _check_state(state: bundle_pb2.State, given: Stated, made: Stated) -> None:
    what, axes = f"the state {state.input!r}", len(given.shape)
    places = {state.batch_axis, *([state.growing_axis] if state.HasField("growing_axis") else [])}
    if len(places) < 1 + state.HasField("growing_axis") or max(places) >= axes:
        raise BundleError(f"{what} has {axes} axes, and others for its rows and entries")
    if given.type != made.type or len(made.shape) != axes:
        raise BundleError(f"{what} goes in as {given.type} of {axes} axes, and comes out as {made.type}")
    if state.WhichOneof("initial") != "zeros":
        return
    sizes: list[int | None] = _sizes(state.zeros.dimensions)
    sizes.insert(state.batch_axis, None)
    _check(what, given, state.zeros, sizes)
    if state.HasField("growing_axis"):
        if sizes[state.growing_axis] is not None:
            raise BundleError(f"{what} grows along an axis that is always {sizes[state.growing_axis]}")
        sizes[state.growing_axis] = 1  # a step puts out one entry more
    _check_shape(f"the new state {state.input!r}", made.shape, sizes)


def untrue(answer: Answer, description: ModelDescription, row: Row, *, complete: bool = True) -> str:
    """Name the first difference between an answer and its description; empty where there is none.

    An axis whose name no input has may have any size up to its maximum.

    Args:
        complete: every output is there.
    """
    for tensor in tensor_descriptions(description.inputs):
        if said := _untrue_tensor(tensor, row.tensors.get(tensor.name)):
            return said
    sizes = {**row.sizes, **{name: each.size for name, each in answer.labels.items()}}
    for each in description.outputs:
        array = answer.outputs.get(each.name)
        if array is None:
            if complete:
                return f"there is no output {each.name}"
            continue
        wanted = [dimension.size or sizes.get(dimension.name, 0) for dimension in each.dimensions]
        fits = len(wanted) == array.ndim and all(
            size in (0, found) for size, found in zip(wanted, array.shape, strict=True)
        )
        if not fits or array.dtype != DTYPES.get(each.data_type):
            return f"{each.name} is {array.dtype} of shape {list(array.shape)}, which is not as described"
        for dimension, size in zip(each.dimensions, array.shape, strict=True):
            if not dimension.size and dimension.name not in sizes and not size <= dimension.maximum:
                most = dimension.maximum
                return f"{each.name} has {size} for {dimension.name}, which no input decides, and {most} at most"
    maps = {each.name: each for each in description.maps}
    for (name, quantity), weights in answer.maps.items():
        if said := _untrue_map(maps[name], quantity, weights, answer, row):
            return f"{name} {said}"
    return ""


def _untrue_tensor(description: TensorDescription, array: Array | None) -> str:
    if array is None:
        return ""
    dimensions = description.dimensions
    fits = len(dimensions) == array.ndim and all(
        size == (each.size or size) and size <= (each.maximum or size)
        for each, size in zip(dimensions, array.shape, strict=True)
    )
    if not fits or array.dtype != DTYPES.get(description.data_type):
        return f"{description.name} is {array.dtype} of shape {list(array.shape)}, which is not as described"
    return ""


def _untrue_map(description: MapDescription, quantity: int, weights: MapWeights, answer: Answer, row: Row) -> str:
    labels = {**row.labels, **answer.labels}
    queries, keys = (labels.get(name) for name in (description.query_labels, description.key_labels))
    if queries is None or keys is None:
        return "is of labels that no answer has"
    size = description.value_size if quantity == VALUES else description.features
    array, features = weights.weights, [size] if size else []
    heads = description.heads if weights.heads is None else len(weights.heads)
    if weights.query_index is None or weights.key_index is None:
        of_queries = queries.size if weights.queries is None else len(weights.queries)
        of_queries = 1 if quantity == VALUES else of_queries
        wanted = [heads, of_queries, keys.size, *features]
    else:
        wanted = [heads, len(weights.query_index), *features]
        for index, size in ((weights.query_index, queries.size), (weights.key_index, keys.size)):
            if len(index) and not 0 <= index.min() <= index.max() < size:
                return f"has an edge to a place that is not among the {size} that are described"
    if list(array.shape) != wanted:
        return f"is of shape {list(array.shape)}, and {wanted} is described"
    if quantity != WEIGHTS or weights.heads is not None or weights.queries is not None:
        return ""
    if not description.signed and array.size and float(array.min()) < -_BELOW_ZERO:
        return f"has {float(array.min()):.3g}, and is not described as signed"
    if description.normalised and array.size:
        far = _far_from_1(weights, queries.size)
        if far > _SUM:
            return f"has a row whose weights are {far:.3g} from a sum of 1, and is described as normalised"
    return ""


def _far_from_1(weights: MapWeights, queries: int) -> float:
    """Tell how far the sums of rows are from 1, or from 0 where there is nothing to attend to."""
    array: Array = weights.weights.astype(np.float64)
    if weights.query_index is None:
        sums = array.sum(axis=2)
    else:
        sums = np.zeros((array.shape[0], queries, *array.shape[2:]))
        for head, row in zip(sums, array, strict=True):
            np.add.at(head, weights.query_index, row)
    return float(np.minimum(np.abs(sums - 1), np.abs(sums)).max(initial=0.0))
