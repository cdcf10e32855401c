"""Comparison of graphs with the samples that their bundle will hold, as a server does when it loads the bundle."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from limelight_bundle.errors import InputError
from limelight_bundle.generation import end_tokens
from limelight_bundle.maps import MapWeights
from limelight_bundle.rows import Labels, Row
from limelight_bundle.samples import Sample
from limelight_bundle.values import Instance
from limelight_export.errors import ExportError
from limelight_export.execution.generation import greedy_chooser, run_generation
from limelight_export.execution.onnx_runner import GraphGenerationRunner, GraphSession
from limelight_export.execution.random_inputs import batch_sizes, collate_rows, neutral_noise
from limelight_export.execution.row_answers import RowAnswer, generation_answer, single_pass_answers
from limelight_export.exported_graph import ExportedGraph
from limelight_export.verification.comparison import Comparison
from limelight_export.verification.samples import example_rows
from limelight_models.cards.card import Card

_Answers = Callable[[Sequence[Row]], list[RowAnswer]]


def compare_samples(
    graphs: Sequence[ExportedGraph],
    card: Card,
    examples: Sequence[Instance],
    samples: Sequence[Sample],
    comparison: Comparison,
) -> None:
    """Compare the answers to the examples, alone and in one batch, with the samples.

    Raises:
        ExportError: an answer differs from its sample, which a server would refuse.
    """
    rows = [
        Row({**row.tensors, **neutral_noise(card, row.sizes)}, row.sizes, row.labels)
        for row in example_rows(card, examples)
    ]
    answer = _answers(graphs, card)
    batched = answer(rows) if card.generation is None and not card.single_rows else []
    for number, (row, sample) in enumerate(zip(rows, samples, strict=True)):
        expected = RowAnswer(sample.outputs, sample.maps, sample.token_ids)
        for found in [*answer([row]), *batched[number : number + 1]]:
            if found.token_ids != sample.token_ids:
                raise ExportError(
                    f"the exported graphs generate other tokens than {comparison.reference} for example {number}"
                )
            comparison.compare_answers(found, expected, f"example {number}")


def observed_attention(
    graphs: Sequence[ExportedGraph], card: Card, inputs: Iterable[Instance]
) -> Iterator[tuple[Mapping[str, MapWeights], Mapping[str, Labels]]]:
    """Answer inputs one by one, and yield the maps and labels of each; inputs that a server would refuse are left out.

    Raises:
        ExportError: ONNX Runtime fails.
    """
    answer, preprocessor = _answers(graphs, card), card.preprocessor()
    for each in inputs:
        try:
            row = preprocessor.row(each)
        except InputError:
            continue
        noisy = replace(row, tensors={**row.tensors, **neutral_noise(card, row.sizes)})
        yield answer([noisy])[0].maps, row.labels


def _answers(graphs: Sequence[ExportedGraph], card: Card) -> _Answers:
    return _single_pass_answers(graphs, card) if card.generation is None else _generation_answers(graphs, card)


def _single_pass_answers(graphs: Sequence[ExportedGraph], card: Card) -> _Answers:
    session = GraphSession(graphs[0])
    return lambda rows: single_pass_answers(card, session.run(collate_rows(card, rows)), rows)


def _generation_answers(graphs: Sequence[ExportedGraph], card: Card) -> _Answers:
    """Return a function that generates the answer to one row greedily."""
    assert card.generation is not None
    session, choose = GraphGenerationRunner(graphs, card), greedy_chooser(end_tokens(card.generation))
    return lambda rows: [
        generation_answer(
            card, run_generation(session, card, collate_rows(card, rows), batch_sizes(rows), choose), rows[0], 0
        )
    ]
