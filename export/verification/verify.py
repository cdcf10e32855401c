"""The exported graphs against PyTorch: each row alone in PyTorch, the same rows batched and padded in ONNX Runtime."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from bundle.rows import Row
from bundle.values import Array
from export.execution import pytorch_runner
from export.execution.generation import Parts, Unrolled, forced, unroll
from export.execution.onnx_runner import RunningGraph, RunningParts
from export.execution.random_inputs import Cases, batch, batch_sizes
from export.execution.row_answers import generated, one_pass
from export.exported_graph import Graph
from export.interface import BATCH, check_port, input_tensors, joined_axes, map_port, maxima
from export.surgery.attention import FUSED_FROM, is_fused
from export.verification.comparison import Comparison
from export.verification.map_invariants import check_maps
from models.cards.card import Card
from models.network import Network

_STEPS = 4
_TOGETHER = 8
_LARGEST = 13  # of the first axis that varies, one less for each further one; the long case has three times as much


def verify(graphs: Sequence[Graph], model: Network, card: Card, comparison: Comparison | None = None) -> Comparison:
    """Compare at one row and several, size 1 and larger, padded and not.

    comparison: what judges the differences; None for one by the project's own tolerances.
    Raises: ExportError naming the output that differs, by how much, and where.
    """
    comparison = comparison or Comparison(card)
    cases = Cases(card, seed=1)
    check = _check(graphs, model, card, comparison, cases)
    fused = any(is_fused(graph.model) for graph in graphs)
    for name, rows in _cases(card, cases, fused=fused):
        check.compare(rows, name)
    return comparison


def compare_many(
    graphs: Sequence[Graph], model: Network, card: Card, comparison: Comparison, rows: int, seed: int = 2
) -> None:
    """Compare so many more rows, drawn at random, of any size up to the long case's: for what is measured, and not only
    held to a bound, few are too few.

    Raises: ExportError as `verify`.
    """
    cases = Cases(card, seed=seed)
    check = _check(graphs, model, card, comparison, cases)
    largest, long = _sizes(card)
    for number in range(-(-rows // _TOGETHER)):
        sizes = long if number % 4 == 3 else largest
        some = cases.mixed(sizes, _TOGETHER) if sizes else cases.rows({BATCH: _TOGETHER})
        check.compare(some, f"rows drawn at random, {number}")


def _check(
    graphs: Sequence[Graph], model: Network, card: Card, comparison: Comparison, cases: Cases
) -> "_OnePass | _Generating":
    if card.generation is None:
        return _OnePass(graphs, model, card, comparison)
    return _Generating(graphs, model, card, comparison, cases)


def _sizes(card: Card) -> tuple[dict[str, int], dict[str, int]]:
    """Give the sizes of the ordinary cases, and of the long one."""
    edges = {each.description.dimensions[0].name for each in input_tensors(card) if each.indexes}
    largest = {axis: min(_LARGEST - place, most or _LARGEST) for place, (axis, most) in enumerate(maxima(card).items())}
    # A query has several edges, or there is nothing to be told apart.
    largest |= {axis: min(3 * size, maxima(card)[axis] or 3 * size) for axis, size in largest.items() if axis in edges}
    long = {axis: min(3 * size, maxima(card)[axis] or 3 * size) for axis, size in largest.items()}
    return largest, long


def _cases(card: Card, cases: Cases, *, fused: bool) -> Iterator[tuple[str, list[Row]]]:
    largest, long = _sizes(card)
    ones = dict.fromkeys(largest, 1)
    yield "one row", cases.rows({BATCH: 1, **largest})
    yield "rows of one size", cases.rows({BATCH: 4, **largest})
    if not largest:
        return
    yield "one row of size 1", cases.rows({BATCH: 1, **ones})
    yield "rows of size 1", cases.rows({BATCH: 4, **ones})
    yield "a long row", cases.rows({BATCH: 1, **long})
    yield "padded rows of different sizes", cases.mixed(largest, 5)
    yield "padded rows of very different sizes", cases.mixed(long, 3)
    if fused:
        axes = {axis for each in card.description.maps for axis in map_port(card, each).axes}
        attending = [axis for axis in largest if axis in axes]
        fused_from = {axis: min(FUSED_FROM, maxima(card)[axis] or FUSED_FROM) for axis in attending or largest}
        yield "a row long enough to be fused", cases.rows({BATCH: 1, **largest, **fused_from})


class _OnePass:
    """Compares a model that answers in one pass."""

    def __init__(self, graphs: Sequence[Graph], model: Network, card: Card, comparison: Comparison) -> None:
        self._running = RunningGraph(graphs[0])
        self._ports = graphs[0].outputs
        self._model, self._card, self._comparison = model, card, comparison

    def compare(self, rows: Sequence[Row], case: str) -> None:
        tensors, sizes = batch(self._card, rows), batch_sizes(rows, joined_axes(self._card))
        together = pytorch_runner.answer(self._model, self._card, tensors)
        served = self._running.run(tensors)
        for port in self._ports:
            check_port(port, together[port.name], sizes)
            check_port(port, served[port.name], sizes)
        of_torch, of_graph = one_pass(self._card, together, rows), one_pass(self._card, served, rows)
        unasked = one_pass(self._card, self._unasked(tensors, served), rows)
        projected = one_pass(self._card, self._projected(tensors, served), rows)
        for place, row in enumerate(rows):
            (expected,) = one_pass(
                self._card, pytorch_runner.answer(self._model, self._card, batch(self._card, [row])), [row]
            )
            check_maps(self._card, expected)
            self._comparison.padding(of_torch[place], expected, case)
            self._comparison.answers(of_graph[place], expected, case)
            self._comparison.answers(unasked[place], expected, f"{case}, maps not asked for")
            self._comparison.answers(projected[place], expected, f"{case}, maps from projections")

    def _unasked(self, tensors: Mapping[str, Array], whole: Mapping[str, Array]) -> Mapping[str, Array]:
        """Answer a batch without whole maps; in those that have switches, some heads and queries are asked for."""
        switches = self._running.graph.switches
        if not switches:
            return whole
        asked: dict[str, Array] = {}
        places = {}
        for name, switch in switches.items():
            heads, queries = whole[name].shape[1:3]
            places[name] = np.arange(heads)[::-2], np.unique([0, queries // 2, queries - 1])
            asked |= switch.some(*places[name])
        answered = dict(whole) | {
            name: array for name, array in self._running.run(tensors, asked).items() if name not in switches
        }
        for name, (some_heads, some_queries) in places.items():
            answered[name] = whole[name].copy()
            answered[name][:, some_heads[:, np.newaxis], some_queries] = answered[switches[name].rows]
        return answered

    def _projected(self, tensors: Mapping[str, Array], whole: Mapping[str, Array]) -> Mapping[str, Array]:
        """Answer a batch without whole maps, and make those that have switches of their projections."""
        switches = self._running.graph.switches
        if not switches:
            return whole
        asked = {name: value for each in switches.values() for name, value in each.projected().items()}
        answered = self._running.run(tensors, asked)
        return dict(whole) | answered | {name: switch.weights(answered) for name, switch in switches.items()}


class _Generating:
    """Compares a generating model on tokens that are forced: what is encoded, then each step's scores, states, maps."""

    def __init__(
        self, graphs: Sequence[Graph], model: Network, card: Card, comparison: Comparison, cases: Cases
    ) -> None:
        assert card.generation is not None
        self._running = RunningParts(graphs, card)
        self._parts = pytorch_runner.TorchParts(model, card)
        self._card, self._comparison, self._cases = card, comparison, cases
        scores = next(port for graph in graphs for port in graph.outputs if port.name == card.generation.scores_output)
        self._vocabulary = scores.sizes({BATCH: 1})[1]

    def compare(self, rows: Sequence[Row], case: str) -> None:
        tokens = self._cases.integers((len(rows), _STEPS), self._vocabulary)
        padded, served = (self._unroll(parts, rows, tokens) for parts in (self._parts, self._running))
        self._compare_states(served, padded, case)
        for place, row in enumerate(rows):
            alone = self._unroll(self._parts, [row], tokens[place : place + 1])
            expected = generated(self._card, alone, row, 0)
            check_maps(self._card, expected)
            self._comparison.padding(generated(self._card, padded, row, place), expected, case)
            self._comparison.answers(generated(self._card, served, row, place), expected, case)

    def _unroll(self, parts: Parts, rows: Sequence[Row], tokens: Array) -> Unrolled:
        return unroll(parts, self._card, batch(self._card, rows), batch_sizes(rows), forced(tokens))

    def _compare_states(self, served: Unrolled, padded: Unrolled, case: str) -> None:
        """Compare what goes from part to part, padding included: both had the same batch."""
        maps = {each.name for each in self._card.description.maps}
        for name, array in served.encoded.items():
            self._comparison.arrays(name, array, padded.encoded[name], case, is_map=name in maps)
        for name, array in served.read.items():
            self._comparison.arrays(name, array, padded.read[name], f"the prompts of {case}")
        for name, steps in served.states.items():
            for step, array in enumerate(steps):
                self._comparison.arrays(name, array, padded.states[name][step], f"step {step} of {case}")
