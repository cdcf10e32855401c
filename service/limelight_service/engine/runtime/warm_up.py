"""First runs of a model, before callers wait for them."""

import itertools
import time
from collections.abc import Mapping

from limelight_bundle.descriptions import ModelDescription
from limelight_bundle.reader import BundleFolder
from limelight_bundle.rows import Row, bound_tensors, tensor_descriptions
from limelight_bundle.samples import read_samples
from limelight_bundle.values import Array
from limelight_bundle.wire import instance_from_wire
from limelight_service.engine.jobs import detached_call
from limelight_service.engine.model import Model
from limelight_service.engine.shapes import places
from limelight_service.engine.types import GenerationSettings, Query
from limelight_service.errors import InferenceError

_TOKENS = 2
_SLOW = 0.25  # seconds of a first run


def warm_up(model: Model, folder: BundleFolder) -> None:
    """Answer the first sample, alone and on every core: sessions start their threads before anybody waits for them.

    What it takes alone, once the threads are there, is the model's first cost: a guess would refuse the first callers,
    or take too many. A slow one is not run again for that.

    Raises: InferenceError, or InputError, where it cannot be answered.
    """
    row = _first_row(folder)
    took = _timed(model, row)
    if model.wide:
        run_once(model, row, wide=True)
    if took < _SLOW:
        took = min(took, _timed(model, row))
    parts = 1 + _TOKENS if model.generates else 1  # a prefill counts as a step here
    first = model.first_run
    first.place = took / parts / max(1, places(model.shape(row.sizes)))
    first.step = took / parts if model.generates else 0.0


def _timed(model: Model, row: Row) -> float:
    began = time.monotonic()
    run_once(model, row, wide=False)
    return time.monotonic() - began


def _first_row(folder: BundleFolder) -> Row:
    """Give the row of the first sample, whose tensors are taken as they are where they are all there."""
    bundle, tensors = folder.bundle, read_samples(folder)[0].tensors
    bound = bound_tensors(bundle.description.inputs, bundle.tensors)
    required = {
        name
        for each in bundle.description.inputs
        if not each.optional
        for tensor in each.tensors
        for name in (tensor.name, bound[tensor.name].mask)
        if name
    }
    if required <= tensors.keys():
        return Row(tensors, _sizes(bundle.description, tensors))
    from limelight_bundle.preprocess import Preprocessor  # an engine that has all tensors does without its libraries

    example = instance_from_wire(bundle.description.examples[0], ("examples", 0))
    return Preprocessor(folder).row(example, field=("examples", 0))


def _sizes(description: ModelDescription, tensors: Mapping[str, Array]) -> dict[str, int]:
    """Read the sizes of named dimensions off the tensors of one instance."""
    return {
        dimension.name: size
        for each in tensor_descriptions(description.inputs)
        if each.name in tensors
        for dimension, size in zip(each.dimensions, tensors[each.name].shape, strict=True)
        if dimension.name
    }


def run_once(model: Model, row: Row, *, wide: bool) -> None:
    """Answer a row, with the first tokens of what it generates. Raises: InferenceError where it cannot be."""
    query = Query((row,), generation=GenerationSettings(max_new_tokens=_TOKENS))
    jobs = model.jobs(detached_call(model.seeded(query)), itertools.count(), time.monotonic_ns())
    for events in model.runner.uncounted().run(jobs, wide):
        for _, event in events:
            if isinstance(event, InferenceError):
                raise event
