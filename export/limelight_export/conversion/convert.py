"""Conversion of verified float32 graphs to another precision, with fitted tolerances and new metrics."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import onnx

from limelight_bundle.samples import Sample
from limelight_export.conversion.float16 import convert_to_float16
from limelight_export.conversion.int8 import quantise
from limelight_export.errors import ExportError
from limelight_export.execution.graph_network import graphs_as_network
from limelight_export.execution.pytorch_runner import PyTorchReference
from limelight_export.exported_graph import ExportedGraph
from limelight_export.precision import Precision
from limelight_export.verification.compare_samples import compare_samples
from limelight_export.verification.comparison import Comparison
from limelight_export.verification.fitted_tolerances import FittingComparison
from limelight_export.verification.interventions import verified_interventions
from limelight_export.verification.verify import compare_random_rows, verify
from limelight_models.cards.card import Metric, TrainedModel
from limelight_models.network import Network

# Random rows, beside the cases of `verify`, to which tolerances are fitted: with 21 rows, two of 1,260 unseen outputs
# differed by more than twice the fitted maximum.
_EXTRA_ROWS = 256

Judge = Callable[[Network], Sequence[Metric]]

_CONVERTERS: Mapping[Precision, Callable[[onnx.ModelProto], onnx.ModelProto]] = {
    Precision.FLOAT16: convert_to_float16,
    Precision.INT8: quantise,
}


@dataclass(frozen=True)
class ConvertedGraphs:
    """Graphs in another precision.

    Attributes:
        comparison: comparison with PyTorch, with tolerances fitted.
        problem: of the graphs for interventions, which are left out then; empty for none.
        metrics: metrics on the held-out data; each has the value before the conversion as well.
    """

    graphs: list[ExportedGraph]
    comparison: Comparison
    problem: str
    metrics: tuple[Metric, ...]


def convert(
    trained: TrainedModel, graphs: Sequence[ExportedGraph], samples: Sequence[Sample], precision: Precision
) -> ConvertedGraphs:
    """Convert verified graphs to another precision, and measure the loss.

    Args:
        samples: PyTorch's answers to the model's examples.
    Raises:
        ExportError: the graphs cannot be converted, or their answers differ too much.
        DataError, RunError: the data are missing on which the model's metrics were measured.
    """
    card = trained.card
    check_remeasurable(trained, f"in {precision}")
    changed = [replace(graph, model=_CONVERTERS[precision](graph.model)) for graph in graphs]
    comparison = FittingComparison(card, precision)
    reference = PyTorchReference(trained.model, card)
    verify(changed, reference, card, comparison)
    compare_random_rows(changed, reference, card, comparison, _EXTRA_ROWS)
    compare_samples(changed, card, trained.examples, samples, comparison)
    comparison.fit_tolerances()
    changed, problem = verified_interventions(changed, reference, card, comparison, precision)
    judge = trained.judge
    metrics = remeasure(judge, graphs_as_network(graphs, card), graphs_as_network(changed, card)) if judge else ()
    return ConvertedGraphs(changed, comparison, problem, metrics)


def check_remeasurable(trained: TrainedModel, changed: str) -> None:
    """Check that a model's metrics can be measured again. Raises ExportError where the data are missing."""
    if trained.judge is None and trained.metrics:
        raise ExportError(f"{trained.metrics[0].name} must be measured again {changed}, but its data are missing")


def remeasure(judge: Judge, before: Network, after: Network) -> tuple[Metric, ...]:
    """Measure the metrics of a model before and after a change.

    Raises:
        DataError, RunError: the held-out data are missing.
    """
    found = zip(judge(before), judge(after), strict=True)
    return tuple(replace(new, float32=old.value) for old, new in found)
