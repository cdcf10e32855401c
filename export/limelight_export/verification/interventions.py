"""Verification of graphs for interventions: they answer as the model does, and hold the weights that they are given."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import onnx

from limelight_bundle.interventions import BoundIntervention, Edges, bound_intervention, intervened_name
from limelight_bundle.maps import WEIGHTS
from limelight_bundle.rows import Row
from limelight_bundle.values import Array
from limelight_export.errors import ExportError
from limelight_export.execution.generation import forced_chooser, run_generation
from limelight_export.execution.onnx_runner import GraphGenerationRunner, GraphSession
from limelight_export.execution.random_inputs import RandomInputs, batch_sizes, collate_rows
from limelight_export.execution.reference import Reference
from limelight_export.execution.row_answers import RowAnswer, generation_answer, single_pass_answers
from limelight_export.exported_graph import ExportedGraph
from limelight_export.interface import BATCH, map_binding
from limelight_export.precision import Precision
from limelight_export.surgery.intervention_inputs import Intervention
from limelight_export.verification.comparison import Comparison
from limelight_export.verification.verify import case_sizes, compare_random_rows
from limelight_models.cards.card import Card

logger = logging.getLogger(__name__)

_ROWS, _STEPS = 3, 3
_PROBLEM = "its graph for interventions does not answer as the model does"
# Absolute and relative difference of weights, which float16 rounds.
_ALLOWED = {Precision.FLOAT16: (2e-3, 1e-2)}
_ALLOWED_OTHERWISE = 1e-5, 1e-4
_LEAST = 1e-30  # sum of a query's weights that is left to be multiplied
# From the name of a graph for interventions and inputs that change it to the answers of rows.
_Answer = Callable[[str, Mapping[str, Array]], list[RowAnswer]]


def verified_interventions(
    graphs: Sequence[ExportedGraph],
    reference: Reference,
    card: Card,
    comparison: Comparison,
    precision: Precision = Precision.FLOAT32,
) -> tuple[list[ExportedGraph], str]:
    """Verify the graphs for interventions, and keep the interventions of the maps that they change as they should.

    Rows of several sizes share a batch; one of them replaces the weights of a map. Its map must be these weights, and
    the answers of the others must stay.

    Returns: the graphs, without those for interventions of which no map is left; and why there are none of these, where
        they fail, or differ from the reference without an intervention.
    """
    changed = [graph for graph in graphs if graph.interventions]
    others = [graph for graph in graphs if not graph.interventions]
    if not changed:
        return others, ""
    try:
        kept = _kept(graphs, changed, reference, card, comparison, _ALLOWED.get(precision, _ALLOWED_OTHERWISE))
    except ExportError as error:
        logger.warning("the model takes no interventions: %s", error.message)
        return others, _PROBLEM
    changed = [_without(graph, kept) for graph in changed if not kept.keys().isdisjoint(graph.interventions)]
    return [*others, *changed], ""


def _kept(
    graphs: Sequence[ExportedGraph],
    changed: Sequence[ExportedGraph],
    reference: Reference,
    card: Card,
    comparison: Comparison,
    allowed: tuple[float, float],
) -> dict[str, tuple[str, Intervention]]:
    """Return the interventions that hold, by map, with their graph. Raises: ExportError."""
    random_inputs, (sizes, _) = RandomInputs(card, seed=3), case_sizes(card)
    rows = (
        random_inputs.rows_of_mixed_sizes(sizes, _ROWS) if sizes else random_inputs.rows({BATCH: _ROWS})
    )  # a model of single rows gets them one by one
    answered = _answered if card.generation is None else _generated
    step = "" if card.generation is None else intervened_name(card.generation.step)
    kept = {name: (graph.name, each) for graph in changed for name, each in graph.interventions.items()}
    for batch in [[row] for row in rows] if card.single_rows else [rows]:
        answer = answered(graphs, reference, card, comparison, batch)
        usual = answer("", {})
        kept = {
            name: each
            for name, each in kept.items()
            if _is_changed(
                partial(answer, each[0]),
                usual,
                batch,
                _bound(card, name, *each),
                allowed,
                of_steps=each[0] == step,
            )
        }
    return kept


def _bound(card: Card, name: str, graph: str, inputs: Intervention) -> BoundIntervention:
    """Bind the interventions on a map as a reader of the bundle does."""
    binding = map_binding(card, name, WEIGHTS, graph)
    inputs.fill_binding(binding)
    return bound_intervention(card.bundle(), binding, next(each for each in card.description.maps if each.name == name))


def _answered(
    graphs: Sequence[ExportedGraph], reference: Reference, card: Card, comparison: Comparison, rows: Sequence[Row]
) -> _Answer:
    """Return what answers rows in one pass."""
    session, tensors = GraphSession(next(graph for graph in graphs if graph.interventions)), collate_rows(card, rows)

    def answer(graph: str, requests: Mapping[str, Array]) -> list[RowAnswer]:
        return single_pass_answers(card, session.run(tensors, requests), rows)

    expected = single_pass_answers(card, reference.run(tensors), rows)
    for found, wanted in zip(answer("", {}), expected, strict=True):
        comparison.compare_answers(found, wanted, "the graph for interventions")
    return answer


def _generated(
    graphs: Sequence[ExportedGraph], reference: Reference, card: Card, comparison: Comparison, rows: Sequence[Row]
) -> _Answer:
    """Return what answers rows with the same tokens each time."""
    assert card.generation is not None
    by_name = {graph.name: graph for graph in graphs}
    parts = [
        replace(by_name.get(intervened_name(graph.name), graph), name=graph.name)
        for graph in graphs
        if not graph.interventions
    ]
    compare_random_rows(parts, reference, card, comparison, 1)
    (step,) = (graph for graph in parts if graph.name == card.generation.step)
    vocabulary = next(spec.axes[1] for spec in step.outputs if spec.name == card.generation.scores_output)
    runner, choose = GraphGenerationRunner(parts, card), RandomInputs(card, seed=4)
    tokens = choose.integers((len(rows), _STEPS), int(vocabulary))

    def answer(graph: str, requests: Mapping[str, Array]) -> list[RowAnswer]:
        running = runner.changed(graph.removeprefix(intervened_name("")), requests) if requests else runner
        tensors = collate_rows(card, rows)
        trace = run_generation(running, card, tensors, batch_sizes(rows), forced_chooser(tokens))
        return [generation_answer(card, trace, row, place) for place, row in enumerate(rows)]

    return answer


def _is_changed(
    answer: Callable[[Mapping[str, Array]], Sequence[RowAnswer]],
    usual: Sequence[RowAnswer],
    rows: Sequence[Row],
    bound: BoundIntervention,
    allowed: tuple[float, float],
    *,
    of_steps: bool,
) -> bool:
    """Tell whether the first row's map is as it is given, and as it is multiplied, and the other rows are as before.

    Args:
        of_steps: queries are output steps. A step whose weights are multiplied changes those that later ones compute.
    """
    own, edges = usual[0].maps[bound.map].weights, bound.edges_of(rows[0])
    if own.ndim != (3 if edges is None else 2):
        return False
    sharper = own.astype(np.float64) ** 2  # attends to the same keys
    sharper /= np.maximum(_sums(sharper, edges), 1e-30)
    factors = np.resize(np.array([0, 0.5, 2, 1], np.float32), own.shape)
    pairs = []
    for changes, wanted, known in (
        ({bound.replacement: sharper, bound.replaced: np.ones_like(own)}, sharper, None),
        ({bound.key_factors: factors}, _multiplied(own, factors, edges), 1 if of_steps else None),
    ):
        tensors = {
            name: each.astype(np.float32) if edges is None else edges.tensor(each, bound.default(name))
            for name, each in changes.items()
        }
        if bound.replaced in tensors and not bound.edges:  # of a query, not of its keys
            tensors[bound.replaced] = tensors[bound.replaced].max(-1, keepdims=True)
        changed = [replace(rows[0], tensors={**rows[0].tensors, **tensors}), *rows[1:]]
        answers = answer(dict(bound.feeds(changed)))
        pairs.append((answers[0].maps[bound.map].weights[:, :known], wanted[:, :known]))
        for now, before in zip(answers[1:], usual[1:], strict=True):
            pairs += [(now.maps[key].weights, each.weights) for key, each in before.maps.items()]
            pairs += [(now.outputs[key], each) for key, each in before.outputs.items()]
    absolute, relative = allowed
    return all(
        one.shape == other.shape and np.allclose(one, other, rtol=relative, atol=absolute) for one, other in pairs
    )


def _multiplied(weights: Array, factors: Array, edges: Edges | None) -> Array:
    """Multiply weights [head, query, key] or [head, edge] by factors, and all of a query so that their sum stays."""
    scaled = weights.astype(np.float64) * factors
    before, after = (_sums(each, edges) for each in (weights, scaled))
    return np.where(after > _LEAST, scaled * before / np.maximum(after, _LEAST), weights)


def _sums(values: Array, edges: Edges | None) -> Array:
    """Sum what each query has, in the shape of its keys: [head, query, 1] or [head, edge]."""
    if edges is None:
        return np.asarray(values.sum(-1, keepdims=True, dtype=np.float64))
    return np.array([np.bincount(edges.query, each)[edges.query] for each in values])


def _without(graph: ExportedGraph, kept: Collection[str]) -> ExportedGraph:
    """Return a graph that has the interventions of some maps alone. kept: those, and of other graphs."""
    own = {name: each for name, each in graph.interventions.items() if name in kept}
    dropped = [each for name, each in graph.interventions.items() if name not in kept]
    if not dropped:
        return graph
    model = onnx.ModelProto()
    model.CopyFrom(graph.model)
    outputs = [each for each in model.graph.output if each.name not in {one.masked for one in dropped}]
    names = {name for each in dropped for name in each.defaults}
    inputs = [each for each in model.graph.input if each.name not in names]  # their defaults stay
    del model.graph.output[:], model.graph.input[:]
    model.graph.output.extend(outputs)
    model.graph.input.extend(inputs)
    return replace(graph, model=model, interventions=own)
