"""Generation step by step, the same for PyTorch and for the exported graphs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from bundle.maps import canonical
from bundle.v1 import bundle_pb2
from bundle.values import Array
from bundle.wire import DTYPES
from export.interface import BATCH, map_axes
from models.cards.card import Card

# From the number of the step and its scores [batch, token] to the tokens [batch], and whether they are the last.
Choose = Callable[[int, Array], tuple[Array, bool]]


class Parts(Protocol):
    """The two parts of a generating model, wherever they run; tensors by name, the batch in front."""

    def encode(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """Give what the steps read, and the initial states."""

    def step(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """Give scores, states and maps of one step."""


@dataclass(frozen=True)
class Unrolled:
    """What a generation gave.

    encoded: by name. tokens: [batch, step]. scores: [batch, step, token]. maps: for each step [batch, head, 1, key]
    (+ feature). states: for each step, by the names of outputs.
    """

    encoded: Mapping[str, Array]
    tokens: Array
    scores: Array
    maps: Mapping[str, Sequence[Array]]
    states: Mapping[str, Sequence[Array]]

    def map(self, name: str) -> Array:
        """Give a map over all steps, [batch, head, step, key] (+ feature); keys that grow are filled up with zeros."""
        steps = self.maps[name]
        keys = max(each.shape[3] for each in steps)
        padded = [_pad(each, keys) for each in steps]
        return np.concatenate(padded, axis=2)


def unroll(
    parts: Parts, card: Card, tensors: Mapping[str, Array], sizes: Mapping[str, int], choose: Choose
) -> Unrolled:
    """Encode a batch, then step until `choose` ends it.

    sizes: of the batch and of every varying axis, padding included.
    """
    generation = card.generation
    assert generation is not None
    encoded = parts.encode(tensors) if generation.encoder else {}
    states = {each.input: initial_state(each, encoded, sizes) for each in generation.states}
    token: Array = np.full(sizes[BATCH], generation.begin_token, np.int64)
    tokens: list[Array] = []
    answers: list[dict[str, Array]] = []
    for step in range(generation.max_new_tokens):
        answers.append(parts.step({**tensors, **encoded, **states, generation.token_input: token}))
        states = {
            each.input: next_state(each, states[each.input], answers[-1][each.output]) for each in generation.states
        }
        chosen, last = choose(step, answers[-1][generation.scores_output])
        token = chosen.astype(np.int64)
        tokens.append(token)
        if last:
            break
    names = [each.name for each in card.description.maps if each.name in answers[0]]
    return Unrolled(
        encoded,
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
    """Give a state before the first step."""
    if state.WhichOneof("initial") == "encoder_output":
        return encoded[state.encoder_output]
    shape = [dimension.size or sizes.get(dimension.name, 0) for dimension in state.zeros.dimensions]
    shape.insert(state.batch_axis, sizes[BATCH])
    if state.HasField("growing_axis"):
        shape[state.growing_axis] = 0
    return np.zeros(shape, DTYPES[state.zeros.data_type])


def next_state(state: bundle_pb2.State, before: Array, after: Array) -> Array:
    """Take over a state: one that grows may come whole, or as its new entry alone."""
    if state.HasField("growing_axis") and after.shape[state.growing_axis] == 1 != before.shape[state.growing_axis] + 1:
        return np.concatenate([before, after], axis=state.growing_axis)
    return after


def _pad(weights: Array, keys: int) -> Array:
    missing = [(0, 0)] * weights.ndim
    missing[3] = (0, keys - weights.shape[3])
    return np.pad(weights, missing)
