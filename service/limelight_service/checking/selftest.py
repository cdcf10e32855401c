"""Checks that a model answers as at its export: its samples are run by the code that serves, alone and in batches."""

import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from limelight_bundle.descriptions import ModelDescription
from limelight_bundle.errors import BundleError, InputError, path_text
from limelight_bundle.interventions import bound_interventions
from limelight_bundle.maps import VALUES, WEIGHTS, MapPart, MapWeights, map_key, map_quantities
from limelight_bundle.preprocess import Preprocessor
from limelight_bundle.reader import BundleFolder
from limelight_bundle.rows import Row, tensor_descriptions
from limelight_bundle.samples import Sample, read_samples
from limelight_bundle.tolerance import Tolerances
from limelight_bundle.values import Array
from limelight_bundle.wire import instance_from_wire
from limelight_service.engine.jobs import Job, detached_call
from limelight_service.engine.model import Model, Runner
from limelight_service.engine.runtime.description_checks import untrue
from limelight_service.engine.runtime.projected_weights import some_weights
from limelight_service.engine.runtime.warm_up import run_once
from limelight_service.engine.types import Answer, GenerationSettings, MapKey, Query
from limelight_service.errors import InferenceError


def check_samples(model: Model, folder: BundleFolder) -> None:
    """Answer every sample alone, all in one batch, and on every core, with every map, on the provider that will serve.

    Where parts of maps can be computed, the samples are answered again with some rows of each map, and with maps
    computed from projections; the first, where it takes interventions, with those that change nothing.

    Raises:
        BundleError: naming the sample, the difference and its size.
    """
    samples = read_samples(folder)
    tolerances = Tolerances(folder.bundle.tolerances, model.provider)
    rows = _rows(Preprocessor(folder), model.description, samples)
    if not rows:
        return
    maps = frozenset((each.name, quantity) for each, quantity in map_quantities(model.description.maps))
    # A sample may end before its text does.
    generation = GenerationSettings(max_new_tokens=max(len(each.token_ids) for each in samples))
    whole = Query(tuple(rows), maps, generation=generation)
    queries = {"": whole}
    if any(each.HasField("probe") for each in folder.bundle.maps):
        queries[" by parts"] = replace(whole, parts=tuple(_parts(model.description, row) for row in rows))
    if model.projected:
        projected: dict[MapKey, MapPart] = dict.fromkeys(maps, MapPart(projected=True))
        queries[" from projections"] = replace(whole, parts=(projected,) * len(rows))
    bound = bound_interventions(folder.bundle).values()
    if usual := {each.scales: each.usual_scales(rows[0]) for each in bound}:
        changed = replace(rows[0], tensors={**rows[0].tensors, **usual})
        queries[" by the graph for interventions"] = replace(whole, rows=(changed,))
    for how, query in queries.items():
        call = detached_call(model.seeded(query))
        jobs = model.jobs(call, itertools.count(), time.monotonic_ns())
        runner = model.runner.uncounted()
        alone = [[job] for job in jobs]
        ways = [("alone", alone, False)]
        if model.policy.max_rows > 1:
            ways.append(("in a batch", _groups(jobs), False))
        if model.wide:  # which also starts its threads, before anybody waits for them
            ways.append(("on every core", alone, True))
        for way, batches, wide in ways:
            for batch in batches:
                for job, answer in _answers(runner, batch, wide):
                    sample = samples[job.index]
                    difference = compare(answer, sample, tolerances)
                    difference = difference or untrue(answer, model.description, job.row)
                    if difference:
                        raise BundleError(
                            f"sample {job.index}, {way}{how}, is not answered as at its export: {difference}"
                        )


def check_ranges(model: Model, folder: BundleFolder) -> None:
    """Answer an example with the least and the largest entry that each tensor of whole numbers is described to take.

    The entry (of a vocabulary) takes the place of the tensor's first.

    Raises:
        BundleError: naming the tensor whose graph fails on such an entry.
    """
    row = _example(Preprocessor(folder), model.description)
    for tensor in tensor_descriptions(model.description.inputs):
        array = row.tensors.get(tensor.name)
        if array is None or not array.size or array.dtype.kind != "i":
            continue
        for limit, name in ((tensor.minimum, "minimum"), (tensor.maximum, "maximum")):
            if not tensor.HasField(name) or array.flat[0] == limit:
                continue
            changed = array.copy()
            changed.flat[0] = limit
            tried = replace(row, tensors={**row.tensors, tensor.name: changed})
            try:
                run_once(model, tried, wide=False)
            except InferenceError as error:
                raise BundleError(
                    f"the tensor {tensor.name!r} is described as taking {limit}, on which the graph fails"
                ) from error


def _example(preprocessor: Preprocessor, description: ModelDescription) -> Row:
    path = ("examples", 0)
    return preprocessor.row(instance_from_wire(description.examples[0], path), field=path)


def compare(answer: Answer, sample: Sample, tolerances: Tolerances) -> str:
    """Name the first difference beyond the tolerances; empty where there is none."""
    if sample.token_ids and answer.sequences[0].token_ids != sample.token_ids:
        return f"the tokens are {list(answer.sequences[0].token_ids)}, not {list(sample.token_ids)}"
    for name, expected in sample.outputs.items():
        if name not in answer.outputs:
            return f"there is no output {name}"
        if difference := tolerances.difference(name, answer.outputs[name], expected, is_map=False):
            return difference
    if unknown := answer.outputs.keys() - sample.outputs.keys():
        return f"nothing to compare {min(unknown)} with"
    computed = {**_computed(answer), **answer.maps}  # of values there are no samples: outputs would differ with them
    found = {map_key(*key): weights for key, weights in computed.items() if key[1] != VALUES}
    if missing := found.keys() - sample.maps.keys():
        return f"nothing to compare {min(missing)} with"
    for name, weights in sample.maps.items():
        actual = found.get(name)
        if actual is None:
            return f"there is no map {name}"
        if not actual.has_edges_of(weights):
            return f"the edges of {name} differ"
        if difference := tolerances.difference(name, actual.weights, _held(actual, weights.weights), is_map=True):
            return difference
    return ""


def _computed(answer: Answer) -> dict[MapKey, MapWeights]:
    """Compute the maps of which an answer has only the projections."""
    return {
        key: MapWeights(some_weights(each, *(np.arange(size) for size in each.query.shape[:2])))
        for key, each in answer.projected.items()
    }


def _held(actual: MapWeights, whole: Array) -> Array:
    """Cut a dense map to the part that an answer holds."""
    if actual.heads is None or actual.queries is None:
        return whole
    return whole[actual.heads][:, actual.queries]


def _parts(description: ModelDescription, row: Row) -> dict[MapKey, MapPart]:
    """Ask for the last query in the last head, of every map whose queries are known."""
    return {
        (each.name, WEIGHTS): MapPart(
            np.array([each.heads - 1]), np.array([row.labels[each.query_labels].size - 1], dtype=np.int64)
        )
        for each in description.maps
        if each.query_labels in row.labels
    }


def _rows(preprocessor: Preprocessor, description: ModelDescription, samples: Sequence[Sample]) -> list[Row]:
    rows = []
    for number, (example, sample) in enumerate(zip(description.examples, samples, strict=True)):
        path = ("examples", number)
        try:
            row = preprocessor.row(instance_from_wire(example, path), field=path)
        except InputError as error:
            raise BundleError(f"{error.field} {error.message}") from error
        for name, expected in sample.tensors.items():
            actual = row.tensors.get(name)
            if actual is None or actual.dtype != expected.dtype or not np.array_equal(actual, expected):
                raise BundleError(
                    f"{path_text(path)} is not turned into the tensor {name} that the model was exported with"
                )
        rows.append(row)
    return rows


def _groups(jobs: Sequence[Job]) -> list[list[Job]]:
    groups: dict[object, list[Job]] = {}
    for job in jobs:
        groups.setdefault(job.group, []).append(job)
    return list(groups.values())


def _answers(runner: Runner, jobs: Sequence[Job], wide: bool) -> Iterator[tuple[Job, Answer]]:
    for events in runner.run(jobs, wide):
        for job, event in events:
            if isinstance(event, InferenceError):
                raise BundleError(f"sample {job.index} cannot be answered: {event.message}")
            if isinstance(event, Answer):
                yield job, event
