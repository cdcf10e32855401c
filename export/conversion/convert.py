"""From verified float32 graphs to graphs in other numbers, with the tolerances and figures that these have."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import onnx

from bundle.rows import Row
from bundle.samples import Sample
from export.conversion.float16 import halve
from export.conversion.int8 import quantise
from export.conversion.precision import Precision
from export.errors import ExportError
from export.execution.generation import greedy, unroll
from export.execution.graph_network import served
from export.execution.onnx_runner import RunningGraph, RunningParts
from export.execution.random_inputs import batch, batch_sizes, neutral_noise
from export.execution.row_answers import RowAnswer, generated, one_pass
from export.exported_graph import Graph
from export.verification.comparison import Comparison
from export.verification.fitted_tolerances import Measured
from export.verification.verify import compare_many, verify
from export.writing.samples import example_rows
from models.cards.card import Card, Metric, TrainedModel
from models.network import Network

# Rows beside the cases of `verify` by which tolerances are measured: of 1,260 outputs that nothing was measured by, two
# were more than twice the largest of 21 differences away.
_MEASURED = 256

Judge = Callable[[Network], Sequence[Metric]]

_CONVERT: Mapping[Precision, Callable[[onnx.ModelProto], onnx.ModelProto]] = {
    Precision.FLOAT16: halve,
    Precision.INT8: quantise,
}


@dataclass(frozen=True)
class Converted:
    """Graphs in other numbers. comparison: with PyTorch, settled. metrics: on the held-out data, before and after."""

    graphs: list[Graph]
    comparison: Comparison
    metrics: tuple[Metric, ...]


def convert(
    trained: TrainedModel, graphs: Sequence[Graph], samples: Sequence[Sample], precision: Precision
) -> Converted:
    """Convert graphs that answer as PyTorch does, and measure what that changes.

    samples: what PyTorch answers to the model's examples.
    Raises: ExportError where they cannot be converted, or answer too differently; DataError or RunError where the model
    has figures and the data that they were measured on cannot be had.
    """
    card = trained.card
    check_judged(trained, f"in {precision}")
    changed = [replace(graph, model=_CONVERT[precision](graph.model)) for graph in graphs]
    comparison = Measured(card, precision)
    verify(changed, trained.model, card, comparison)
    compare_many(changed, trained.model, card, comparison, _MEASURED)
    _compare_samples(changed, trained, samples, comparison)
    comparison.settle()
    judge = trained.judge
    metrics = judged_again(judge, served(graphs, card), served(changed, card)) if judge else ()
    return Converted(changed, comparison, metrics)


def check_judged(trained: TrainedModel, changed: str) -> None:
    """Raise ExportError where a model has figures, and the data are missing on which to measure them again."""
    if trained.judge is None and trained.metrics:
        raise ExportError(f"the data are missing on which {trained.metrics[0].name} is measured again {changed}")


def judged_again(judge: Judge, before: Network, after: Network) -> tuple[Metric, ...]:
    """The figures of a changed model, each with what it was.

    Raises: DataError or RunError where the held-out data cannot be had.
    """
    found = zip(judge(before), judge(after), strict=True)
    return tuple(replace(new, float32=old.value) for old, new in found)


def _compare_samples(
    graphs: Sequence[Graph], trained: TrainedModel, samples: Sequence[Sample], comparison: Comparison
) -> None:
    """Compare the answers to the examples, alone and in one batch: what a server will check itself with."""
    card = trained.card
    rows = [
        Row({**row.tensors, **neutral_noise(card, row.sizes)}, row.sizes, row.labels) for row in example_rows(trained)
    ]
    answer = _writing(graphs, card) if card.generation is not None else _answering(graphs, card)
    together = answer(rows) if card.generation is None else []
    for number, (row, sample) in enumerate(zip(rows, samples, strict=True)):
        expected = RowAnswer(sample.outputs, sample.maps, sample.token_ids)
        for found in [*answer([row]), *together[number : number + 1]]:
            if found.token_ids != sample.token_ids:
                raise ExportError(f"the converted graphs put out other tokens for example {number} than PyTorch does")
            comparison.answers(found, expected, f"example {number}")


def _answering(graphs: Sequence[Graph], card: Card) -> Callable[[Sequence[Row]], list[RowAnswer]]:
    running = RunningGraph(graphs[0])
    return lambda rows: one_pass(card, running.run(batch(card, rows)), rows)


def _writing(graphs: Sequence[Graph], card: Card) -> Callable[[Sequence[Row]], list[RowAnswer]]:
    """Put out the best token each time, for one row."""
    assert card.generation is not None
    running, choose = RunningParts(graphs, card), greedy(card.generation.end_token)
    return lambda rows: [
        generated(card, unroll(running, card, batch(card, rows), batch_sizes(rows), choose), rows[0], 0)
    ]
