"""Verification: each row alone in the reference, against the same rows batched and padded in ONNX Runtime."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import numpy as np

from limelight_bundle.rows import Row
from limelight_bundle.values import Array
from limelight_export.execution.generation import (
    GenerationRunner,
    GenerationTrace,
    LensRunner,
    encode_alone,
    forced_chooser,
    run_generation,
)
from limelight_export.execution.onnx_runner import GraphGenerationRunner, GraphSession
from limelight_export.execution.random_inputs import RandomInputs, batch_sizes, collate_rows
from limelight_export.execution.reference import Reference
from limelight_export.execution.row_answers import generation_answer, single_pass_answers
from limelight_export.exported_graph import ExportedGraph
from limelight_export.interface import BATCH, check_tensor, input_specs, input_tensors, joined_axes, map_spec, max_sizes
from limelight_export.surgery.fused_attention import FUSED_FROM, is_fused
from limelight_export.verification.comparison import Comparison
from limelight_export.verification.map_invariants import check_finite, check_maps
from limelight_models.cards.card import Card

_STEPS = 4
_ROWS_PER_BATCH = 8
_FEW, _VERY_LONG = 3, 512  # sizes of rows for fitting tolerances
# Entries along the axes that vary of the largest tensor.
_LARGEST_TENSOR = 2**18
# Size of the first axis that varies, minus one for each further axis; the long case is three times as large.
_ORDINARY_SIZE = 13


def verify(
    graphs: Sequence[ExportedGraph],
    reference: Reference,
    card: Card,
    comparison: Comparison | None = None,
    *,
    largest_size: int = 0,
) -> Comparison:
    """Compare graphs with the reference: one row and several, size 1 and larger, padded and not.

    Args:
        comparison: judges the differences; None for the project's own tolerances.
        largest_size: as of `largest_sizes`, for one more row; 0 for no such row. Relative positions of some models are
            in buckets that short rows do not reach.
    Raises:
        ExportError: names the output that differs, the difference, and the case.
    """
    comparison = comparison or Comparison(card, reference.name)
    random_inputs = RandomInputs(card, seed=1)
    check = _check(graphs, reference, card, comparison, random_inputs)
    fused = any(is_fused(graph.model) for graph in graphs)
    for name, rows in _named_cases(card, random_inputs, fused=fused):
        alone = card.single_rows and card.generation is None
        for batch in [[row] for row in rows] if alone else [rows]:
            check.compare(batch, name)
    _compare_lens(graphs, reference, card, comparison)
    if largest_size and any(max_sizes(card).values()):
        check.compare(random_inputs.rows({BATCH: 1, **largest_sizes(card, largest_size)}), "a row of the largest size")
    return comparison


def _compare_lens(graphs: Sequence[ExportedGraph], reference: Reference, card: Card, comparison: Comparison) -> None:
    """Compare the log-probabilities that the lens reads from random vectors."""
    graph = next((each for each in graphs if card.generation and each.name == card.generation.lens), None)
    if graph is None:
        return
    shape = (_ROWS_PER_BATCH, int(graph.inputs[0].axes[1]))
    vectors = np.random.default_rng(1).standard_normal(shape, dtype=np.float32)
    tensors = {"vectors": vectors, "is_last": np.arange(len(vectors)) % 2 == 0}
    expected = cast(LensRunner, reference.generation_runner()).lens(tensors)["log_probabilities"]
    found = GraphSession(graph).run(tensors)["log_probabilities"]
    comparison.compare_arrays("lens", found, expected, "random vectors")


def compare_random_rows(
    graphs: Sequence[ExportedGraph], reference: Reference, card: Card, comparison: Comparison, rows: int, seed: int = 2
) -> None:
    """Compare at least `rows` random rows more, of any size up to the long case's, for fitting tolerances.

    Half as many rows of a few tokens, and one as long as the model takes, cost little beside: means over few numbers,
    and the rows of large maps, differ by up to 1.4 times as much as others.

    Raises:
        ExportError: as for `verify`.
    """
    random_inputs = RandomInputs(card, seed=seed)
    check = _check(graphs, reference, card, comparison, random_inputs)
    largest, long = case_sizes(card)
    few = {axis: min(size, _FEW) for axis, size in largest.items()}
    batches = -(-rows // _ROWS_PER_BATCH)
    for number in range(batches + (batches // 2 if largest else 0)):
        sizes = few if number >= batches else long if number % 4 == 3 else largest
        some = (
            random_inputs.rows_of_mixed_sizes(sizes, _ROWS_PER_BATCH)
            if sizes
            else random_inputs.rows({BATCH: _ROWS_PER_BATCH})
        )
        check.compare(some, f"rows drawn at random, {number}")
    if batches > 1 and len(largest) == 1 and all(max_sizes(card).values()):
        check.compare(random_inputs.rows({BATCH: 1, **largest_sizes(card, _VERY_LONG)}), "a very long row")


def _check(
    graphs: Sequence[ExportedGraph],
    reference: Reference,
    card: Card,
    comparison: Comparison,
    random_inputs: RandomInputs,
) -> "_SinglePassCheck | _GenerationCheck":
    if card.generation is None:
        return _SinglePassCheck(graphs, reference, card, comparison)
    return _GenerationCheck(graphs, reference, card, comparison, random_inputs)


def case_sizes(card: Card) -> tuple[dict[str, int], dict[str, int]]:
    """Return the sizes of the ordinary cases, and of the long case."""
    edges = {each.description.dimensions[0].name for each in input_tensors(card) if each.indexes}
    largest = {
        axis: min(_ORDINARY_SIZE - place, most or _ORDINARY_SIZE)
        for place, (axis, most) in enumerate(max_sizes(card).items())
    }
    # With one edge a query, a wrong order of edges would not show.
    largest |= {
        axis: min(3 * size, max_sizes(card)[axis] or 3 * size) for axis, size in largest.items() if axis in edges
    }
    long = {axis: min(3 * size, max_sizes(card)[axis] or 3 * size) for axis, size in largest.items()}
    return largest, long


def largest_sizes(card: Card, size: int) -> dict[str, int]:
    """Return the largest sizes of the axes that have one, up to `size`, and those of the long case for the others.

    Where a tensor that varies along several axes would be too large, sizes are lower.
    """
    _, long = case_sizes(card)
    sizes = {axis: min(size, most) if most else long[axis] for axis, most in max_sizes(card).items()}
    largest = max((math.prod(sizes.get(str(axis), 1) for axis in spec.axes) for spec in input_specs(card)), default=0)
    return sizes if largest <= _LARGEST_TENSOR or size <= _ORDINARY_SIZE else largest_sizes(card, size // 2)


def _named_cases(card: Card, random_inputs: RandomInputs, *, fused: bool) -> Iterator[tuple[str, list[Row]]]:
    largest, long = case_sizes(card)
    ones = dict.fromkeys(largest, 1)
    yield "one row", random_inputs.rows({BATCH: 1, **largest})
    yield "rows of one size", random_inputs.rows({BATCH: 4, **largest})
    if not largest:
        return
    yield "one row of size 1", random_inputs.rows({BATCH: 1, **ones})
    yield "rows of size 1", random_inputs.rows({BATCH: 4, **ones})
    yield "a long row", random_inputs.rows({BATCH: 1, **long})
    yield "padded rows of different sizes", random_inputs.rows_of_mixed_sizes(largest, 5)
    yield "padded rows of very different sizes", random_inputs.rows_of_mixed_sizes(long, 3)
    if fused:
        axes = {axis for each in card.description.maps for axis in map_spec(card, each).axes}
        attending = [axis for axis in largest if axis in axes]
        fused_from = {axis: min(FUSED_FROM, max_sizes(card)[axis] or FUSED_FROM) for axis in attending or largest}
        yield "a row long enough to be fused", random_inputs.rows({BATCH: 1, **largest, **fused_from})


class _SinglePassCheck:
    """Compares a single-pass model."""

    def __init__(
        self, graphs: Sequence[ExportedGraph], reference: Reference, card: Card, comparison: Comparison
    ) -> None:
        self._session = GraphSession(graphs[0])
        self._specs = graphs[0].outputs
        self._reference, self._card, self._comparison = reference, card, comparison

    def compare(self, rows: Sequence[Row], case: str) -> None:
        tensors, sizes = collate_rows(self._card, rows), batch_sizes(rows, joined_axes(self._card))
        padded = any(row.sizes != rows[0].sizes for row in rows)
        batched = self._reference.run(tensors)
        exported = self._session.run(tensors)
        for spec in self._specs:
            check_tensor(spec, batched[spec.name], sizes)
            check_tensor(spec, exported[spec.name], sizes)
        expected_batched, exported_rows = (
            single_pass_answers(self._card, batched, rows),
            single_pass_answers(self._card, exported, rows),
        )
        others = {
            how: single_pass_answers(self._card, run(self._session, tensors, exported), rows)
            for how, run in _OTHER_RUNS.items()
        }
        for place, row in enumerate(rows):
            (expected,) = single_pass_answers(
                self._card, self._reference.run(collate_rows(self._card, [row])) if len(rows) > 1 else batched, [row]
            )
            check_finite(expected, self._reference.name)
            check_maps(self._card, expected)
            self._comparison.compare_padding(expected_batched[place], expected, case, padded=padded)
            self._comparison.compare_answers(exported_rows[place], expected, case)
            for how, answers in others.items():
                self._comparison.compare_answers(answers[place], expected, f"{case}, {how}")


def _run_by_rows(session: GraphSession, tensors: Mapping[str, Array], whole: Mapping[str, Array]) -> dict[str, Array]:
    """Run a batch without whole maps; row probes request some heads and queries of optional maps.

    Args:
        whole: the outputs of a run with whole maps, in which the requested rows are replaced.
    """
    optional_maps = session.graph.optional_maps
    if not optional_maps:
        return dict(whole)
    requests: dict[str, Array] = {}
    places = {}
    for name, optional_map in optional_maps.items():
        heads, queries = whole[name].shape[1:3]
        places[name] = np.arange(heads)[::-2], np.unique([0, queries // 2, queries - 1])
        requests |= optional_map.request_rows(*places[name])
    answered = dict(whole) | {
        name: array for name, array in session.run(tensors, requests).items() if name not in optional_maps
    }
    for name, (some_heads, some_queries) in places.items():
        answered[name] = whole[name].copy()
        answered[name][:, some_heads[:, np.newaxis], some_queries] = answered[optional_maps[name].rows]
    return answered


def _run_by_projections(
    session: GraphSession, tensors: Mapping[str, Array], whole: Mapping[str, Array]
) -> dict[str, Array]:
    """Run a batch without whole maps, and compute optional maps from their projections, where they have them."""
    optional_maps = {name: each for name, each in session.graph.optional_maps.items() if each.query}
    if not optional_maps:
        return dict(whole)
    requests = {name: value for each in optional_maps.values() for name, value in each.request_projections().items()}
    answered = session.run(tensors, requests)
    own = {name: array for name, array in answered.items() if name not in session.graph.optional_maps}
    return (
        dict(whole)
        | own
        | {name: optional_map.weights_from_projections(answered) for name, optional_map in optional_maps.items()}
    )


# Runs of a graph that do not compute its optional maps whole.
_OTHER_RUNS = {"maps not requested": _run_by_rows, "maps from projections": _run_by_projections}


class _GenerationCheck:
    """Compares a generating model on forced tokens: encoder outputs, then scores, states and maps of each step."""

    def __init__(
        self,
        graphs: Sequence[ExportedGraph],
        reference: Reference,
        card: Card,
        comparison: Comparison,
        random_inputs: RandomInputs,
    ) -> None:
        assert card.generation is not None
        self._graphs = GraphGenerationRunner(graphs, card)
        optional = any(graph.optional_maps for graph in graphs)
        self._others = {how: self._graphs.by(run) for how, run in _OTHER_RUNS.items() if optional}
        self._expected = reference.generation_runner()
        self._card, self._comparison, self._random_inputs = card, comparison, random_inputs
        scores = next(spec for graph in graphs for spec in graph.outputs if spec.name == card.generation.scores_output)
        self._vocabulary = scores.shape({BATCH: 1})[1]

    def compare(self, rows: Sequence[Row], case: str) -> None:
        tokens = self._random_inputs.integers((len(rows), _STEPS), self._vocabulary)
        padded, exported = (self._generate(runner, rows, tokens) for runner in (self._expected, self._graphs))
        self._compare_states(exported, padded, case)
        for how, runner in self._others.items():  # maps of the source and the prompt are the same before every step
            self._compare_states(self._generate(runner, rows, tokens[:, :1]), padded, f"{case}, {how}")
        largest = {name: size for name, size in batch_sizes(rows).items() if name != BATCH}
        for place, row in enumerate(rows):
            alone = self._generate(self._expected, [row], tokens[place : place + 1])
            expected = generation_answer(self._card, alone, row, 0)
            check_maps(self._card, expected)
            answer = generation_answer(self._card, padded, row, place)
            self._comparison.compare_padding(answer, expected, case, padded=row.sizes != largest)
            self._comparison.compare_answers(generation_answer(self._card, exported, row, place), expected, case)

    def _generate(self, runner: GenerationRunner, rows: Sequence[Row], tokens: Array) -> GenerationTrace:
        encoded = None
        if self._card.single_rows:
            encoded = encode_alone(runner, [collate_rows(self._card, [row]) for row in rows])
        tensors = collate_rows(self._card, rows)
        return run_generation(runner, self._card, tensors, batch_sizes(rows), forced_chooser(tokens), encoded)

    def _compare_states(self, exported: GenerationTrace, padded: GenerationTrace, case: str) -> None:
        """Compare the tensors that pass between parts, padding included, for the same batch."""
        maps = {each.name for each in self._card.description.maps}
        for name, array in exported.encoded.items():
            self._comparison.compare_arrays(name, array, padded.encoded[name], case, is_map=name in maps)
        for name, array in exported.prefilled.items():
            of_prompts = f"the prompts of {case}"
            self._comparison.compare_arrays(name, array, padded.prefilled[name], of_prompts, is_map=name in maps)
        for name, steps in exported.states.items():
            for step, array in enumerate(steps):
                self._comparison.compare_arrays(name, array, padded.states[name][step], f"step {step} of {case}")
