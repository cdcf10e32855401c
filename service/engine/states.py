"""What a generating model carries from step to step: zeros or encoder outputs, gathered and grown as the bundle
states.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from bundle.errors import BundleError
from bundle.v1 import bundle_pb2
from bundle.values import Array
from bundle.wire import DTYPES
from service.errors import InferenceError


class States:
    """The states of one batch, by name of the step graph's input; the same contract for a GRU's state and a key/value
    cache.
    """

    def __init__(
        self,
        descriptions: Sequence[bundle_pb2.State],
        encoded: Mapping[str, Array],
        rows: int,
        sizes: Mapping[str, int],
    ) -> None:
        """Begin: `encoded` are the encoder's outputs, `sizes` those of the batch's named axes, padding included."""
        self._descriptions = descriptions
        self.arrays = {each.input: _initial(each, encoded, rows, sizes) for each in descriptions}

    def advance(self, outputs: Mapping[str, Array]) -> None:
        """Take over what a step put out."""
        for each in self._descriptions:
            array = outputs[each.output]
            if each.HasField("growing_axis"):
                array = _grown(self.arrays[each.input], array, each.growing_axis)
            self.arrays[each.input] = array

    def gather(self, places: Array) -> None:
        """Keep these rows, in this order; one may come several times (beams) or not at all (ended)."""
        for each in self._descriptions:
            self.arrays[each.input] = np.take(self.arrays[each.input], places, axis=each.batch_axis)


def check_states(
    generation: bundle_pb2.Generation, step: bundle_pb2.OnnxGraph, encoder: bundle_pb2.OnnxGraph | None
) -> None:
    """Raise BundleError where a state refers to an input or output that the graphs lack, or has no known type."""
    encoded = set(encoder.outputs) if encoder else set()
    for each in generation.states:
        if each.input not in step.inputs or each.output not in step.outputs:
            raise BundleError(f"the state {each.input!r} is no input and output of the graph {step.name}")
        kind = each.WhichOneof("initial")
        if kind == "encoder_output" and each.encoder_output not in encoded:
            raise BundleError(f"the state {each.input!r} begins as {each.encoder_output!r}, which no graph puts out")
        if kind is None or (kind == "zeros" and each.zeros.data_type not in DTYPES):
            raise BundleError(f"the state {each.input!r} does not say how it begins")


def _initial(state: bundle_pb2.State, encoded: Mapping[str, Array], rows: int, sizes: Mapping[str, int]) -> Array:
    if state.WhichOneof("initial") == "encoder_output":
        return encoded[state.encoder_output]
    shape = [dimension.size or sizes.get(dimension.name, 0) for dimension in state.zeros.dimensions]
    shape.insert(state.batch_axis, rows)
    if state.HasField("growing_axis"):
        shape[state.growing_axis] = 0
    return np.zeros(shape, DTYPES[state.zeros.data_type])


def _grown(before: Array, output: Array, axis: int) -> Array:
    """Give the grown cache: a step graph may put out the whole of it, or only the new entry."""
    if output.shape[axis] == before.shape[axis] + 1:
        return output
    if output.shape[axis] == 1:
        return np.concatenate([before, output], axis=axis)
    raise InferenceError("the model's state did not grow by one")
