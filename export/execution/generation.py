"""Generation step by step, the same for PyTorch and for the exported graphs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from bundle.maps import canonical
from bundle.v1 import bundle_pb2
from bundle.values import Array
from bundle.wire import DTYPES
from export.errors import ExportError
from export.interface import BATCH, map_axes
from models.cards.card import Card

# The axis of a cache's entries; how many places stay unused, and what stands where nothing was written.
ENTRIES = "entries"
_SPARE, _UNREAD = 2, 3.0

# From the number of the step and its scores [batch, token] to the tokens [batch], and whether they are the last.
Choose = Callable[[int, Array], tuple[Array, bool]]


class Parts(Protocol):
    """The parts of a generating model, wherever they run; tensors by name, the batch in front."""

    def encode(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """Give what the steps read, and the initial states."""

    def prefill(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """Give what is kept of a prompt, by the outputs of the states; asked only where the card has a prompt."""

    def step(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """Give scores, states and maps of one step."""


@dataclass(frozen=True)
class Unrolled:
    """What a generation gave.

    encoded: by name. tokens: [batch, step]. scores: [batch, step, token]. maps: for each step [batch, head, 1, key]
    (+ feature). states: for each step, by the names of outputs. read: what was kept of the prompt, by the same names.
    """

    encoded: Mapping[str, Array]
    read: Mapping[str, Array]
    tokens: Array
    scores: Array
    maps: Mapping[str, Sequence[Array]]
    states: Mapping[str, Sequence[Array]]

    def map(self, name: str) -> Array:
        """Give a map over all steps, [batch, head, step, key] (+ feature); keys that grow have a key a place."""
        return np.concatenate(self.maps[name], axis=2)


def unroll(
    parts: Parts, card: Card, tensors: Mapping[str, Array], sizes: Mapping[str, int], choose: Choose
) -> Unrolled:
    """Encode a batch, then step until `choose` ends it.

    sizes: of the batch and of every varying axis, padding included.
    """
    generation = card.generation
    assert generation is not None
    encoded = parts.encode(tensors) if generation.encoder else {}
    constant = {**tensors, **encoded}
    put_in, entries, token = _prompt(card, tensors, sizes)
    read: dict[str, Array] = {}
    if put_in.size:
        places = np.broadcast_to(np.arange(put_in.shape[1]), put_in.shape)
        read = parts.prefill({generation.token_input: put_in, generation.positions_input: places})
    spare = put_in.shape[1] + generation.max_new_tokens + _SPARE
    states = {each.input: initial_state(each, encoded, {**sizes, ENTRIES: spare}) for each in generation.states}
    for each in generation.states:
        if each.output in read:
            entry = np.moveaxis(states[each.input], each.growing_axis, 1)
            entry[:, : put_in.shape[1]] = np.moveaxis(read[each.output], each.growing_axis, 1)
    tokens: list[Array] = []
    answers: list[dict[str, Array]] = []
    for step in range(generation.max_new_tokens + 1):
        driven = dict.fromkeys({generation.positions_input, generation.lengths_input} - {""}, entries)
        answers.append(parts.step({**constant, **states, **driven, generation.token_input: token}))
        states = {
            each.input: next_state(each, states[each.input], answers[-1][each.output], entries)
            for each in generation.states
        }
        entries = entries + 1
        chosen, last = choose(step, answers[-1][generation.scores_output])
        if step == generation.max_new_tokens and not last:  # there only the end token counts
            answers.pop()
            break
        token = chosen.astype(np.int64)
        tokens.append(token)
        if last:
            break
    names = [each.name for each in card.description.maps if each.name in answers[0]]
    return Unrolled(
        encoded,
        read,
        np.stack(tokens, axis=1),
        np.stack([each[generation.scores_output] for each in answers], axis=1),
        {name: [canonical(each[name], map_axes(card, name)) for each in answers] for name in names},
        {state.output: [each[state.output] for each in answers] for state in generation.states},
    )


def greedy(end_token: int) -> Choose:
    """Choose the best token of a sequence that is alone in its batch, until the end token."""

    def choose(step: int, scores: Array) -> tuple[Array, bool]:
        best: Array = scores.argmax(axis=-1)
        return best, int(best[0]) == end_token

    return choose


def forced(tokens: Array) -> Choose:
    """Put out these tokens [batch, step], whatever the scores."""

    def choose(step: int, scores: Array) -> tuple[Array, bool]:
        return tokens[:, step], step + 1 == tokens.shape[1]

    return choose


def initial_state(state: bundle_pb2.State, encoded: Mapping[str, Array], sizes: Mapping[str, int]) -> Array:
    """Give a state before the first step; a cache has nothing in its places that should be read."""
    if state.WhichOneof("initial") == "encoder_output":
        return encoded[state.encoder_output]
    shape = [dimension.size or sizes.get(dimension.name, 0) for dimension in state.zeros.dimensions]
    shape.insert(state.batch_axis, sizes[BATCH])
    if not state.HasField("growing_axis"):
        return np.zeros(shape, DTYPES[state.zeros.data_type])
    shape[state.growing_axis] = sizes[ENTRIES]
    return np.full(shape, _UNREAD, DTYPES[state.zeros.data_type])


def next_state(state: bundle_pb2.State, before: Array, after: Array, entries: Array) -> Array:
    """Take over a state; of a cache, the new entry behind each row's own.

    Raises: ExportError where that is not one entry.
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
    """Give what is read at once [batch, token], how much of that is each row's own, and what goes in next [batch]."""
    generation = card.generation
    assert generation is not None
    begin = np.full((sizes[BATCH], 1), generation.begin_token, np.int64)
    if not generation.prompt_tensor:
        return begin[:, :0], np.zeros(sizes[BATCH], np.int64), begin[:, 0]
    prompt = tensors[generation.prompt_tensor]
    mask = tensors[card.bound()[generation.prompt_tensor].mask]
    entries = mask.sum(axis=1).astype(np.int64)
    return np.concatenate([begin, prompt[:, :-1]], axis=1), entries, prompt[np.arange(len(prompt)), entries - 1]
