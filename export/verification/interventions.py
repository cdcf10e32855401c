"""Verification of graphs for interventions: they answer as the model does, and hold the weights that they are given."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import onnx

from bundle.rows import Row
from bundle.values import Array
from export.execution.onnx_runner import GraphSession
from export.execution.random_inputs import collate_rows
from export.execution.reference import Reference
from export.execution.row_answers import RowAnswer, single_pass_answers
from export.exported_graph import ExportedGraph
from export.surgery.intervention_inputs import Intervention
from export.verification.comparison import Comparison
from export.verification.generated_interventions import kept_of_generation
from export.verification.replacements import are_same, rows_of_some_sizes, sharper
from models.cards.card import Card


def verified_interventions(
    graphs: Sequence[ExportedGraph], reference: Reference, card: Card, comparison: Comparison
) -> list[ExportedGraph]:
    """Verify the graphs for interventions, and keep the interventions of the maps that they change as they should.

    Rows of several sizes share a batch; one of them replaces the weights of a map. Its map must be these weights, and
    the answers of the others must stay.

    Returns: the graphs, without those for interventions of which no map is left.
    Raises:
        ExportError: without an intervention a graph's answers differ from the reference's.
    """
    if card.generation is not None:
        of_parts = kept_of_generation(graphs, reference, card, comparison)
        main = [graph for graph in graphs if not graph.interventions]
        changed = [_without(graph, of_parts) for graph in graphs if not of_parts.keys().isdisjoint(graph.interventions)]
        return [*main, *changed]
    intervened = next((graph for graph in graphs if graph.interventions), None)
    if intervened is None:
        return list(graphs)
    others = [graph for graph in graphs if graph is not intervened]
    rows = rows_of_some_sizes(card)
    batches = [[row] for row in rows] if card.single_rows else [rows]  # a model of single rows gets them one by one
    session, kept = GraphSession(intervened), dict(intervened.interventions)
    for batch in batches:
        tensors = collate_rows(card, batch)
        expected = single_pass_answers(card, reference.run(tensors), batch)
        usual = single_pass_answers(card, session.run(tensors), batch)
        for found, wanted in zip(usual, expected, strict=True):
            comparison.compare_answers(found, wanted, "the graph for interventions")
        kept = {
            name: each for name, each in kept.items() if _is_changed(session, card, batch, tensors, usual, name, each)
        }
    if not kept:
        return others
    return [*others, _without(intervened, kept)]


def _is_changed(
    session: GraphSession,
    card: Card,
    rows: Sequence[Row],
    tensors: Mapping[str, Array],
    usual: Sequence[RowAnswer],
    name: str,
    inputs: Intervention,
) -> bool:
    """Tell whether the map of the first row is as it is given, and the other rows are as before."""
    own = usual[0].maps[name].weights
    if own.ndim != 3:
        return False
    given = np.zeros((len(rows), *own.shape), np.float32)
    given[0] = sharper(own)
    replaced = np.zeros((*given.shape[:3], 1), np.float32)
    replaced[0] = 1
    requests = {inputs.replacement: given, inputs.replaced: replaced}
    answers = single_pass_answers(card, session.run(tensors, requests), rows)
    pairs = [(answers[0].maps[name].weights, given[0])]
    for now, before in zip(answers[1:], usual[1:], strict=True):
        pairs += [(now.maps[key].weights, each.weights) for key, each in before.maps.items()]
        pairs += [(now.outputs[key], each) for key, each in before.outputs.items()]
    return are_same(pairs)


def _without(graph: ExportedGraph, kept: Mapping[str, Intervention]) -> ExportedGraph:
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
