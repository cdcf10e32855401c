"""Step-by-step generation, the same for PyTorch and for exported graphs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from limelight_bundle.generation import leading_tokens
from limelight_bundle.maps import canonical
from limelight_bundle.v1 import bundle_pb2
from limelight_bundle.values import Array
from limelight_bundle.wire import DTYPES
from limelight_export.errors import ExportError
from limelight_export.interface import BATCH, hidden_names, map_axes
from limelight_models.cards.card import Card

# The axis of a cache's entries; spare entries of a cache; the value of unwritten entries.
ENTRIES = "entries"
_UNUSED_ENTRIES, _UNUSED_VALUE = 2, 3.0
# Most tokens of a sample: a server generates each of them several times before it is ready.
_SAMPLE_STEPS = 32

# From the step number and the scores [batch, token] to the tokens [batch], and whether they are the last.
TokenChooser = Callable[[int, Array], tuple[Array, bool]]


class GenerationRunner(Protocol):
    """Runs the parts of a generating model. Tensors go by name, batch first."""

    def encode(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """Return the encoder's outputs: constant inputs of the steps, and initial states."""

    def prefill(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """Return the states after a prompt, by state output, and maps over it; called only where the card has a
        prompt.
        """

    def step(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """Return the scores, states and maps of one decode step."""


class LensRunner(Protocol):
    """Reads tokens from hidden states; what runs a network of a card with a lens is one."""

    def lens(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """Return tokens and their log-probabilities, by the names of the graph's outputs."""


@dataclass(frozen=True)
class GenerationTrace:
    """Everything that a generation computed.

    Attributes:
        encoded: outputs of the encoder, by name.
        prefilled: states after the prompt, by state output, and maps over the prompt, by name.
        tokens: [batch, step].
        of_steps: outputs and hidden states of the steps, [batch, step, …] each, by name.
        maps: [batch, head, 1, key] (+ feature) for each step.
        states: for each step, by state output.
    """

    encoded: Mapping[str, Array]
    prefilled: Mapping[str, Array]
    tokens: Array
    of_steps: Mapping[str, Array]
    maps: Mapping[str, Sequence[Array]]
    states: Mapping[str, Sequence[Array]]

    def stacked_map(self, name: str) -> Array:
        """Return a map of all steps, [batch, head, step, key] (+ feature)."""
        return np.concatenate(self.maps[name], axis=2)


def run_generation(
    runner: GenerationRunner,
    card: Card,
    tensors: Mapping[str, Array],
    sizes: Mapping[str, int],
    choose: TokenChooser,
    encoded: Mapping[str, Array] | None = None,
) -> GenerationTrace:
    """Encode a batch, then step until `choose` ends it.

    Args:
        sizes: sizes of the batch and of every axis that varies, padding included.
        encoded: outputs of the encoder, which does not run then.
    """
    generation = card.generation
    assert generation is not None
    if encoded is None:
        encoded = runner.encode(tensors) if generation.encoder else {}
    constant = {**tensors, **encoded}
    prompt, entries, token = _prompt(card, tensors, sizes)
    # The last token is the input of the first step; a whole prompt is read for the maps over it.
    capacity = prompt.shape[1] + generation.max_new_tokens + _UNUSED_ENTRIES
    if not generation.starts_with_prompt:
        prompt = prompt[:, :-1]
    prefilled: dict[str, Array] = {}
    if prompt.size:
        places = np.broadcast_to(np.arange(prompt.shape[1]), prompt.shape)
        prefilled = runner.prefill({generation.token_input: prompt, generation.positions_input: places})
    states = {each.input: initial_state(each, encoded, {**sizes, ENTRIES: capacity}) for each in generation.states}
    for each in generation.states:
        if each.output in prefilled:
            entry = np.moveaxis(states[each.input], each.growing_axis, 1)
            entry[:, : prompt.shape[1]] = np.moveaxis(prefilled[each.output], each.growing_axis, 1)
    tokens: list[Array] = []
    answers: list[dict[str, Array]] = []
    for step in range(generation.max_new_tokens + 1):
        counters = dict.fromkeys({generation.positions_input, generation.lengths_input} - {""}, entries)
        answers.append(runner.step({**constant, **states, **counters, generation.token_input: token}))
        states = {
            each.input: next_state(each, states[each.input], answers[-1][each.output], entries)
            for each in generation.states
        }
        entries = entries + 1
        chosen, last = choose(step, answers[-1][generation.scores_output])
        if step == generation.max_new_tokens and not last:  # after the last step, only an end token counts
            answers.pop()
            break
        token = chosen.astype(np.int64)
        tokens.append(token)
        if last:
            break
    names = [each.name for each in card.description.maps if each.name in answers[0]]
    stacked = [name for name in (generation.scores_output, *hidden_names(card)) if name in answers[0]]
    return GenerationTrace(
        encoded,
        prefilled,
        np.stack(tokens, axis=1),
        {name: np.stack([each[name] for each in answers], axis=1) for name in stacked},
        {name: [canonical(each[name], map_axes(card, name)) for each in answers] for name in names},
        {state.output: [each[state.output] for each in answers] for state in generation.states},
    )


def encode_alone(runner: GenerationRunner, rows: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """Encode rows one at a time, and stack what comes out, padded with zeros as a server pads it.

    Args:
        rows: the tensors of each row, as a batch of one.
    """
    encoded = [runner.encode(tensors) for tensors in rows]
    stacked = {}
    for name in encoded[0]:
        arrays = [each[name][0] for each in encoded]
        shape = tuple(max(sizes) for sizes in zip(*(array.shape for array in arrays), strict=True))
        stacked[name] = np.zeros((len(arrays), *shape), arrays[0].dtype)
        for place, array in zip(stacked[name], arrays, strict=True):
            place[tuple(slice(size) for size in array.shape)] = array
    return stacked


def greedy_chooser(end_tokens: frozenset[int]) -> TokenChooser:
    """Return a chooser of the best token, until an end token or enough for a sample, for a batch of one."""

    def choose(step: int, scores: Array) -> tuple[Array, bool]:
        best: Array = scores.argmax(axis=-1)
        return best, int(best[0]) in end_tokens or step + 1 == _SAMPLE_STEPS

    return choose


def forced_chooser(tokens: Array) -> TokenChooser:
    """Return a chooser of the given tokens [batch, step], whatever the scores."""

    def choose(step: int, scores: Array) -> tuple[Array, bool]:
        return tokens[:, step], step + 1 == tokens.shape[1]

    return choose


def initial_state(state: bundle_pb2.State, encoded: Mapping[str, Array], sizes: Mapping[str, int]) -> Array:
    """Return a state before the first step; a read of unwritten cache entries would show."""
    if state.WhichOneof("initial") == "encoder_output":
        return encoded[state.encoder_output]
    shape = [dimension.size or sizes.get(dimension.name, 0) for dimension in state.zeros.dimensions]
    shape.insert(state.batch_axis, sizes[BATCH])
    if not state.HasField("growing_axis"):
        return np.zeros(shape, DTYPES[state.zeros.data_type])
    shape[state.growing_axis] = sizes[ENTRIES]
    return np.full(shape, _UNUSED_VALUE, DTYPES[state.zeros.data_type])


def next_state(state: bundle_pb2.State, before: Array, after: Array, entries: Array) -> Array:
    """Return a state after a step; the new entry of a cache goes behind the row's own entries.

    Raises:
        ExportError: a cache grew by more than one entry.
    """
    if not state.HasField("growing_axis"):
        return after
    if after.shape[state.growing_axis] != 1:
        more = after.shape[state.growing_axis]
        raise ExportError(f"the state {state.output!r} grows by {more} entries a step, not 1")
    grown = before.copy()
    axes = (state.batch_axis, state.growing_axis)
    np.moveaxis(grown, axes, (0, 1))[np.arange(len(entries)), entries] = np.moveaxis(after, axes, (0, 1))[:, 0]
    return grown


def _prompt(card: Card, tensors: Mapping[str, Array], sizes: Mapping[str, int]) -> tuple[Array, Array, Array]:
    """Split the prompts of a batch.

    Returns: the tokens that are there before the first step's output [batch, token], the number of a row's own among
        them but for the last [batch], the last [batch].
    """
    generation = card.generation
    assert generation is not None
    leading = np.tile(np.array(leading_tokens(generation), np.int64), (sizes[BATCH], 1))
    if not generation.prompt_tensor:
        return leading, np.zeros(sizes[BATCH], np.int64), leading[:, 0]
    prompt = np.concatenate([leading, tensors[generation.prompt_tensor]], axis=1)
    mask = tensors[card.bound()[generation.prompt_tensor].mask]
    entries = mask.sum(axis=1).astype(np.int64) + leading.shape[1] - 1
    return prompt, entries, prompt[np.arange(len(prompt)), entries]
