"""Consistency of a bundle's public description: unique names, and references that exist.

The self-test on examples checks the graphs themselves.
"""

from collections.abc import Iterable, Iterator, Mapping

from limelight.v1 import attention_pb2, model_pb2
from limelight_bundle.attention_drift import ROWS
from limelight_bundle.attention_signals import BINS, SIGNALS
from limelight_bundle.errors import BundleError
from limelight_bundle.maps import VALUES, WEIGHTS
from limelight_bundle.v1 import bundle_pb2

_MAX_SECONDS = 24 * 60 * 60
# Label sets of generated and of read tokens.
_STEP_KINDS = (attention_pb2.LABEL_KIND_OUTPUT_STEPS, attention_pb2.LABEL_KIND_INPUT_STEPS)


def check_description(bundle: bundle_pb2.Bundle) -> None:
    """Check the public part of a bundle. Raises BundleError for the first inconsistency."""
    model = bundle.description
    for subject, names in (
        ("input", [each.name for each in model.inputs]),
        ("tensor", [each.name for each in all_tensors(model)]),
        ("output", [each.name for each in model.outputs]),
        ("result", [each.name for each in model.results]),
        ("map", [each.name for each in model.maps]),
        ("label set", [each.name for each in model.label_sets]),
    ):
        check_distinct(subject, names)
    for tensor in all_tensors(model):
        _check_tensor(tensor)
    for output in model.outputs:
        check_axes(f"the output {output.name!r}", output.dimensions)
    tensors = {each.name: {tensor.name: tensor for tensor in each.tensors} for each in model.inputs}
    for labels in model.label_sets:
        _check_label_set(tensors, labels, generates=bundle.HasField("generation"))
    _check_parents(model)
    label_sets = {each.name: each for each in model.label_sets}
    for description in model.maps:
        _check_map(label_sets, description)
    for result in model.results:
        _check_result(bundle, result)
    _check_references(bundle)


def _check_references(bundle: bundle_pb2.Bundle) -> None:
    maps = {each.name for each in bundle.description.maps}
    check_distinct("reference", [f"{each.map}:{each.signal}" for each in bundle.attention_references])
    for each in bundle.attention_references:
        subject = f"the reference of {each.signal!r} of the map {each.map!r}"
        if each.map not in maps:
            raise BundleError(f"{subject} is of a map that is not described")
        if each.signal not in SIGNALS:
            raise BundleError(f"{subject} is of none of the signals {', '.join(SIGNALS)}")
        if len(each.bins) != BINS or not any(each.bins):
            raise BundleError(f"{subject} does not have {BINS} counts, some of them above 0")
        if each.thresholds and (len(each.thresholds) != len(ROWS) or not min(each.thresholds) > 0):
            raise BundleError(f"{subject} does not have {len(ROWS)} thresholds above 0")


def check_distinct(subject: str, names: Iterable[str]) -> None:
    """Check that names are unique and not empty. Raises BundleError."""
    seen: set[str] = set()
    for name in names:
        if not name:
            raise BundleError(f"a {subject} has no name")
        if name in seen:
            raise BundleError(f"the name {name!r} is used for more than one {subject}")
        seen.add(name)


def check_axes(subject: str, dimensions: Iterable[model_pb2.Dimension]) -> None:
    """Check that every axis that varies has a name. Raises BundleError."""
    if not all(each.size or each.name for each in dimensions):
        raise BundleError(f"{subject} has an axis without a name or a size")


def all_tensors(model: model_pb2.ModelDescription) -> Iterator[model_pb2.TensorDescription]:
    """Yield the tensors of all inputs. Raises BundleError for an input without a tensor."""
    for each in model.inputs:
        if not each.tensors:
            raise BundleError(f"the input {each.name!r} has no tensor")
        yield from each.tensors


def _check_tensor(tensor: model_pb2.TensorDescription) -> None:
    subject = f"the tensor {tensor.name!r}"
    check_axes(subject, tensor.dimensions)
    for each in tensor.dimensions:
        if each.size and each.maximum not in (0, each.size):
            raise BundleError(
                f"{subject} has an axis {each.name} of size {each.size}, above its maximum {each.maximum}"
            )
    if tensor.HasField("minimum") and tensor.HasField("maximum") and tensor.minimum > tensor.maximum:
        raise BundleError(f"{subject} has the minimum {tensor.minimum} above its maximum {tensor.maximum}")


def _check_label_set(
    tensors: Mapping[str, Mapping[str, model_pb2.TensorDescription]],
    labels: model_pb2.LabelSetDescription,
    *,
    generates: bool,
) -> None:
    """Check that the number of a label set's entries is defined. tensors: of each input, by name."""
    subject = f"the label set {labels.name!r}"
    if labels.input and labels.input not in tensors:
        raise BundleError(f"{subject} refers to the input {labels.input!r}, which is not described")
    if labels.tensor:
        own = tensors.get(labels.input, {}).get(labels.tensor)
        if own is None:
            raise BundleError(f"{subject} refers to the tensor {labels.tensor!r}, which its input does not have")
        if labels.dimension not in [axis.name for axis in own.dimensions]:
            raise BundleError(f"{subject} refers to the axis {labels.dimension!r}, which its tensor does not have")
    if labels.kind in _STEP_KINDS and not (generates or labels.names):
        raise BundleError(f"{subject} has steps, but the model does not generate")
    if labels.HasField("grid") != (labels.kind == attention_pb2.LABEL_KIND_GRID):
        raise BundleError(f"{subject} must have a grid exactly if its kind is GRID")
    if labels.HasField("frames"):
        _check_frames(labels, subject)
    counted = (
        bool(labels.tensor)
        or labels.HasField("grid")
        or labels.HasField("frames")
        or bool(labels.names)
        or labels.kind in (*_STEP_KINDS, attention_pb2.LABEL_KIND_ONE)
    )
    if not counted:
        raise BundleError(f"{subject} has neither names nor a tensor to count its entries")
    if labels.kind == attention_pb2.LABEL_KIND_ONE and len(labels.names) > 1:
        raise BundleError(f"{subject} has one entry, but {len(labels.names)} names")


def _check_parents(model: model_pb2.ModelDescription) -> None:
    """Check that the parents of label sets are described, and that none is its own ancestor."""
    parents = {each.name: each.parent for each in model.label_sets}
    rooted = {""}  # whose ancestors end
    for name in parents:
        line: dict[str, None] = {}
        while name not in rooted:
            if name in line:
                raise BundleError(f"the label set {name!r} is its own ancestor")
            line[name] = None
            if parents[name] and parents[name] not in parents:
                raise BundleError(f"the label set {name!r} has the parent {parents[name]!r}, which is not described")
            name = parents[name]
        rooted.update(line)


def _check_frames(labels: model_pb2.LabelSetDescription, subject: str) -> None:
    if labels.kind != attention_pb2.LABEL_KIND_FRAMES or not labels.input:
        raise BundleError(f"{subject} has frames, so its kind must be FRAMES, and it must name an input")
    if not labels.frames.seconds or labels.frames.count * labels.frames.seconds > _MAX_SECONDS:
        raise BundleError(f"{subject} has frames of {labels.frames.seconds:g} s; they must last up to a day together")


def _check_map(labels: Mapping[str, model_pb2.LabelSetDescription], description: model_pb2.MapDescription) -> None:
    subject = f"the map {description.name}"
    for name in (
        description.query_labels,
        description.key_labels,
        *filter(None, (description.head_labels, description.feature_labels)),
    ):
        if name not in labels:
            raise BundleError(f"{subject} refers to the label set {name!r}, which is not described")
    for name, size, axis in (
        (description.head_labels, description.heads, "heads"),
        (description.feature_labels, description.features, "features"),
    ):
        if name and fixed_size(labels[name]) != size:
            raise BundleError(f"{subject} has {size} {axis}, but {name!r} has another number of entries")
    check_distinct(f"quantity of {subject}", [str(each) for each in (WEIGHTS, *description.quantities)])
    if 0 in description.quantities:
        raise BundleError(f"{subject} has an unspecified quantity")
    if (VALUES in description.quantities) != bool(description.value_size):
        raise BundleError(f"{subject} has values of no size, or a size and no values")


def fixed_size(labels: model_pb2.LabelSetDescription) -> int | None:
    """Return the number of entries of a label set that is equal for all instances; None for others."""
    if labels.HasField("grid"):
        return len(labels.grid.leading) + labels.grid.rows * labels.grid.columns
    if labels.HasField("frames"):
        return labels.frames.count
    if labels.kind == attention_pb2.LABEL_KIND_ONE:
        return 1
    return len(labels.names) or None


def _check_result(bundle: bundle_pb2.Bundle, result: model_pb2.ResultDescription) -> None:
    """Check the outputs and label sets of a result. Classes and targets count the output's last axis."""
    subject = f"the result {result.name!r}"
    match result.WhichOneof("kind"):
        case "classes":
            output = _output(bundle, result.classes.output, subject, 2 if result.classes.label_set else 1)
            if result.classes.class_label_set:
                _check_pointers(bundle, result.classes, output, subject)
            else:
                _check_count(subject, "labels", len(result.classes.labels), output)
            if result.classes.label_set:
                _check_selection(_check_entries(bundle, result.classes.label_set, subject), result.classes, subject)
        case "embedding":
            _output(bundle, result.embedding.output, subject, 1)
        case "token_vectors":
            _output(bundle, result.token_vectors.output, subject, 2)
            _check_entries(bundle, result.token_vectors.label_set, subject)
        case "spans":
            _output(bundle, result.spans.start_output, subject, 1)
            _output(bundle, result.spans.end_output, subject, 1)
            if not _check_entries(bundle, result.spans.label_set, subject).input:
                raise BundleError(f"{subject} refers to {result.spans.label_set!r}, which has no input")
            if result.spans.part not in ("", "first", "second"):
                raise BundleError(f"{subject} is of the part {result.spans.part!r}; a pair has first and second")
        case "regression":
            output = _output(bundle, result.regression.output, subject, 1)
            _check_count(subject, "targets", len(result.regression.targets), output)
        case "boxes":
            _check_boxes(bundle, result.boxes, subject)
        case "sequence":
            _check_sequence(bundle, result.sequence, subject)
        case _:
            raise BundleError(f"{subject} is of a kind unknown to this release")


def _output(bundle: bundle_pb2.Bundle, name: str, subject: str, axes: int) -> model_pb2.OutputDescription:
    found = next((each for each in bundle.description.outputs if each.name == name), None)
    if found is None:
        raise BundleError(f"{subject} refers to the output {name!r}, which is not described")
    if len(found.dimensions) != axes:
        raise BundleError(f"{subject} needs an output with {axes} axes; {name!r} has {len(found.dimensions)}")
    return found


def _check_count(subject: str, of: str, count: int, output: model_pb2.OutputDescription) -> None:
    size = output.dimensions[-1].size
    if size != count:
        raise BundleError(f"{subject} has {count} {of}, but the output {output.name!r} has size {size}")


def _check_pointers(
    bundle: bundle_pb2.Bundle,
    classes: model_pb2.ClassesDescription,
    output: model_pb2.OutputDescription,
    subject: str,
) -> None:
    """Check that the classes are the entries of a label set."""
    entries, axis = _check_entries(bundle, classes.class_label_set, subject), output.dimensions[-1]
    if classes.labels:
        raise BundleError(f"{subject} has labels, though its classes are the entries of {entries.name!r}")
    if axis.size != (fixed_size(entries) or 0) or (not axis.size and axis.name != entries.dimension):
        raise BundleError(f"{subject} points at {entries.name!r}, which the last axis of {output.name!r} does not have")
    if classes.distinct and not classes.label_set:
        raise BundleError(f"{subject} is distinct, but has a single row")


def _check_selection(
    entries: model_pb2.LabelSetDescription, classes: model_pb2.ClassesDescription, subject: str
) -> None:
    """Check which entries of a label set have classes."""
    if not (classes.words or classes.HasField("token_id")):
        return
    if classes.words and classes.HasField("token_id"):
        raise BundleError(f"{subject} is of words and of tokens with one id; it can be of one of them")
    if entries.kind != attention_pb2.LABEL_KIND_TOKENS or (classes.words and not entries.words):
        raise BundleError(f"{subject} refers to {entries.name!r}, which does not state the words of tokens")


def _check_entries(bundle: bundle_pb2.Bundle, name: str, subject: str) -> model_pb2.LabelSetDescription:
    found = next((each for each in bundle.description.label_sets if each.name == name), None)
    if found is None:
        raise BundleError(f"{subject} refers to the label set {name!r}, which is not described")
    return found


def _check_boxes(bundle: bundle_pb2.Bundle, boxes: model_pb2.BoxesDescription, subject: str) -> None:
    if not boxes.labels:
        raise BundleError(f"{subject} names no class")
    scores = _output(bundle, boxes.scores_output, subject, 2)
    # The last class stands for "no object".
    _check_count(subject, "classes with that of no object", len(boxes.labels) + 1, scores)
    edges = _output(bundle, boxes.boxes_output, subject, 2)
    _check_count(subject, "numbers for each box", 4, edges)
    queries = fixed_size(_check_entries(bundle, boxes.label_set, subject))
    for output in (scores, edges):
        if output.dimensions[0].size != queries:
            raise BundleError(f"{subject} refers to {boxes.label_set!r}, which does not count {output.name!r}")
    if not _check_entries(bundle, boxes.grid, subject).HasField("grid"):
        raise BundleError(f"{subject} refers to {boxes.grid!r}, which is not a grid")
    if not 0 <= boxes.threshold <= 1:
        raise BundleError(f"{subject} has the threshold {boxes.threshold:g}; it is from 0 to 1")


def _check_sequence(bundle: bundle_pb2.Bundle, sequence: model_pb2.SequenceDescription, subject: str) -> None:
    if not bundle.HasField("generation"):
        raise BundleError(f"{subject} is a sequence, but the model does not generate")
    if sequence.max_new_tokens != bundle.generation.max_new_tokens:
        raise BundleError(
            f"{subject} has max_new_tokens {sequence.max_new_tokens}, but the generation has "
            f"{bundle.generation.max_new_tokens}"
        )
    if sequence.label_set:
        labels = _check_entries(bundle, sequence.label_set, subject)
        if labels.kind != attention_pb2.LABEL_KIND_OUTPUT_STEPS:
            raise BundleError(f"{subject} refers to {sequence.label_set!r}, which is not a set of output steps")
    target = next((each for each in bundle.description.inputs if each.name == sequence.target_input), None)
    if sequence.target_input and (target is None or not target.optional):
        raise BundleError(f"{subject} is forced by {sequence.target_input!r}, which is not an optional input")
    tensors = [] if target is None else [each.name for each in target.tensors]
    if tensors != list(filter(None, [bundle.generation.target_tensor])):
        raise BundleError(f"{subject} and the generation are forced by different tensors")
