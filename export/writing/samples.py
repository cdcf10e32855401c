"""Samples of a bundle: PyTorch's answers to the model's examples, which a server compares its own with."""

from bundle.errors import InputError
from bundle.generation import end_tokens
from bundle.rows import Row
from bundle.samples import Sample
from export.errors import ExportError
from export.execution import pytorch_runner
from export.execution.generation import greedy_chooser, run_generation
from export.execution.random_inputs import batch_sizes, collate_rows, neutral_noise
from export.execution.row_answers import RowAnswer, generation_answer, single_pass_answers
from export.verification.map_invariants import check_maps
from models.cards.card import TrainedModel


def example_rows(trained: TrainedModel) -> list[Row]:
    """Preprocess the examples as the bundle will declare.

    Raises:
        ExportError: there is no example, preprocessing refuses one, or one forces the output.
    """
    if not trained.examples:
        raise ExportError("a bundle needs at least one example for the server's self-test")
    preprocessor = trained.card.preprocessor()
    rows = []
    for number, example in enumerate(trained.examples):
        try:
            rows.append(preprocessor.row(example, field=f"examples[{number}]"))
        except InputError as error:
            raise ExportError(f"{error.field} {error.message}") from error
        if trained.card.generation is not None and trained.card.generation.target_tensor in rows[-1].tensors:
            raise ExportError(f"examples[{number}] forces the output; remove the target from the example")
    return rows


def make_samples(trained: TrainedModel) -> list[Sample]:
    """Answer each example alone, with neutral noise; a generating model decodes greedily.

    Raises:
        ExportError: as for `example_rows`, or an answer differs from the card.
    """
    return [_sample(trained, row) for row in example_rows(trained)]


def _sample(trained: TrainedModel, row: Row) -> Sample:
    card = trained.card
    answer = _answer(trained, Row({**row.tensors, **neutral_noise(card, row.sizes)}, row.sizes, row.labels))
    check_maps(card, answer)
    return Sample(row.tensors, answer.outputs, answer.maps, answer.token_ids)


def _answer(trained: TrainedModel, row: Row) -> RowAnswer:
    card, rows = trained.card, [row]
    if card.generation is None:
        return single_pass_answers(card, pytorch_runner.run_model(trained.model, card, collate_rows(card, rows)), rows)[
            0
        ]
    runner = pytorch_runner.PyTorchGenerationRunner(trained.model, card)
    choose = greedy_chooser(end_tokens(card.generation))
    return generation_answer(
        card, run_generation(runner, card, collate_rows(card, rows), batch_sizes(rows), choose), row, 0
    )
