"""Verification of the graphs for interventions of a model that generates: every step attends as it is told."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bundle.interventions import intervened_name
from bundle.maps import canonical
from bundle.rows import Row
from bundle.values import Array
from export.execution.generation import GenerationTrace, forced_chooser, run_generation
from export.execution.onnx_runner import GraphGenerationRunner
from export.execution.random_inputs import RandomInputs, batch_sizes, collate_rows
from export.execution.reference import Reference
from export.exported_graph import ExportedGraph
from export.interface import map_axes
from export.surgery.intervention_inputs import Intervention
from export.verification.comparison import Comparison
from export.verification.replacements import are_same, rows_of_some_sizes, sharper
from export.verification.verify import compare_random_rows
from models.cards.card import Card

_STEPS = 3
# From the number of a step to the inputs that change a graph's attention.
_Changes = Callable[[int], Mapping[str, Array]]


def kept_of_generation(
    graphs: Sequence[ExportedGraph], reference: Reference, card: Card, comparison: Comparison
) -> dict[str, Intervention]:
    """Verify graphs for interventions, and return the interventions of the maps that they change as they should.

    Rows of several sizes share a batch; one of them replaces the weights of a map, at every step where the map is of
    steps. Its map must be these weights, and the answers of the others must stay.

    Raises:
        ExportError: without an intervention the graphs' answers differ from the reference's.
    """
    changed = {graph.name: graph for graph in graphs if graph.interventions}
    if not changed or card.generation is None:
        return {}
    usual = [graph for graph in graphs if not graph.interventions]
    parts = [replace(changed.get(intervened_name(graph.name), graph), name=graph.name) for graph in usual]
    compare_random_rows(parts, reference, card, comparison, 1)
    rows = rows_of_some_sizes(card)
    scores = next(spec for graph in parts for spec in graph.outputs if spec.name == card.generation.scores_output)
    check = _Check(
        GraphGenerationRunner(parts, card), card, rows[:1] if card.single_rows else rows, int(scores.axes[1])
    )
    before = check.generate()
    return {
        name: each
        for graph in parts
        for name, each in graph.interventions.items()
        if check.is_changed(graph.name, name, each, before)
    }


@dataclass(frozen=True)
class _Check:
    """Generates the same random tokens for the same rows, each time with another change."""

    runner: GraphGenerationRunner
    card: Card
    rows: Sequence[Row]
    vocabulary: int

    def generate(self, part: str = "", changes: _Changes | None = None) -> GenerationTrace:
        """Generate; part: of which the attention is changed."""
        tokens = RandomInputs(self.card, seed=4).integers((len(self.rows), _STEPS), self.vocabulary)
        runner = self.runner if changes is None else _Changed(self.runner, self.card, part, changes)
        tensors = collate_rows(self.card, self.rows)
        return run_generation(runner, self.card, tensors, batch_sizes(self.rows), forced_chooser(tokens))

    def is_changed(self, part: str, name: str, inputs: Intervention, before: GenerationTrace) -> bool:
        """Tell whether the map of the first row is as it is given, and all else of the other rows is as before."""
        usual = self._of(before, name)
        given = []
        for own in usual:
            weights = np.zeros(own.shape, np.float32)
            weights[0] = sharper(own[0])
            given.append(weights)
        replaced = np.zeros((*usual[0].shape[:3], 1), np.float32)
        replaced[0] = 1
        after = self.generate(
            part, lambda step: {inputs.replacement: given[min(step, len(given) - 1)], inputs.replaced: replaced}
        )
        pairs = [(now[0], wanted[0]) for now, wanted in zip(self._of(after, name), given, strict=True)]
        pairs += [(now[1:], one[1:]) for now, one in zip(self._shown(after), self._shown(before), strict=True)]
        return are_same(pairs)

    def _shown(self, trace: GenerationTrace) -> Sequence[Array]:
        """Return the scores and every map, batch first."""
        maps = [self._of(trace, each.name) for each in self.card.description.maps]
        return [trace.scores, *(each for steps in maps for each in steps)]

    def _of(self, trace: GenerationTrace, name: str) -> Sequence[Array]:
        """Return a map [batch, head, query, key]: of each step, or the one of the source or the prompt."""
        if name in trace.maps:
            return trace.maps[name]
        return [canonical({**trace.encoded, **trace.prefilled}[name], map_axes(self.card, name))]


class _Changed:
    """Runs the parts of a generating model (see `GenerationRunner`), with inputs that change the attention of one."""

    def __init__(self, runner: GraphGenerationRunner, card: Card, part: str, changes: _Changes) -> None:
        assert card.generation is not None
        self._steps = 0
        self._step_changes = changes if part == card.generation.step else None
        self._runner = runner.by(
            lambda session, tensors, whole: (
                session.run(tensors, changes(0)) if session.graph.name == part else dict(whole)
            )
        )

    def encode(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """Run the encoder graph."""
        return self._runner.encode(tensors)

    def prefill(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """Run the prefill graph."""
        return self._runner.prefill(tensors)

    def step(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """Run the step graph."""
        if self._step_changes is None:
            return self._runner.step(tensors)
        self._steps += 1
        return self._runner.step(tensors, self._step_changes(self._steps - 1))
