"""PyTorch's own answers to a model's examples: what a server checks itself with."""

from bundle.errors import InputError
from bundle.rows import Row
from bundle.samples import Sample
from export.errors import ExportError
from export.execution import pytorch_runner
from export.execution.generation import greedy, unroll
from export.execution.random_inputs import batch, batch_sizes, neutral_noise
from export.execution.row_answers import RowAnswer, generated, one_pass
from export.verification.map_invariants import check_maps
from models.cards.card import TrainedModel


def example_rows(trained: TrainedModel) -> list[Row]:
    """Turn the examples into rows by the preprocessing that the bundle will declare.

    Raises: ExportError where there is none, or naming the one that preprocessing refuses, or that forces the output.
    """
    if not trained.examples:
        raise ExportError("a bundle needs at least one example, so that a server can check its answers")
    preprocessor = trained.card.preprocessor()
    rows = []
    for number, example in enumerate(trained.examples):
        try:
            rows.append(preprocessor.row(example, field=f"examples[{number}]"))
        except InputError as error:
            raise ExportError(f"{error.field} {error.message}") from error
        if trained.card.generation is not None and trained.card.generation.target_tensor in rows[-1].tensors:
            raise ExportError(f"examples[{number}] forces the output; an example shows what is put out by itself")
    return rows


def make_samples(trained: TrainedModel) -> list[Sample]:
    """Answer each example alone, with noise as without a seed; a generating model puts out its best token each time.

    Raises: ExportError where there is no example, or one cannot be read or forces the output, or the model does not
    answer as its card states.
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
        return one_pass(card, pytorch_runner.answer(trained.model, card, batch(card, rows)), rows)[0]
    parts = pytorch_runner.TorchParts(trained.model, card)
    choose = greedy(card.generation.end_token)
    return generated(card, unroll(parts, card, batch(card, rows), batch_sizes(rows), choose), row, 0)
