"""Samples of a bundle: the reference's answers to the model's examples, which a server compares its own with."""

from collections.abc import Sequence

from limelight_bundle.errors import InputError
from limelight_bundle.generation import end_tokens
from limelight_bundle.rows import Row
from limelight_bundle.samples import Sample
from limelight_bundle.values import Instance
from limelight_export.errors import ExportError
from limelight_export.execution.generation import greedy_chooser, run_generation
from limelight_export.execution.random_inputs import batch_sizes, collate_rows, neutral_noise
from limelight_export.execution.reference import Reference
from limelight_export.execution.row_answers import RowAnswer, generation_answer, single_pass_answers
from limelight_export.verification.map_invariants import check_finite, check_maps
from limelight_models.cards.card import Card, TrainedModel


def example_rows(card: Card, examples: Sequence[Instance]) -> list[Row]:
    """Preprocess examples as the bundle will declare.

    Raises:
        ExportError: there is no example, preprocessing refuses one, or one forces the output.
    """
    if not examples:
        raise ExportError("a bundle needs at least one example for the server's self-test")
    preprocessor = card.preprocessor()
    rows = []
    for number, example in enumerate(examples):
        try:
            rows.append(preprocessor.row(example, field=("examples", number)))
        except InputError as error:
            raise ExportError(f"{error.field} {error.message}") from error
        if card.generation is not None and card.generation.target_tensor in rows[-1].tensors:
            raise ExportError(f"examples[{number}] forces the output; remove the target from the example")
    return rows


def make_samples(trained: TrainedModel) -> list[Sample]:
    """Answer each example of a trained model in PyTorch. Raises ExportError as `answer_examples` does."""
    from limelight_export.execution.pytorch_runner import PyTorchReference  # other models are imported without PyTorch

    return answer_examples(PyTorchReference(trained.model, trained.card), trained.card, trained.examples)


def answer_examples(reference: Reference, card: Card, examples: Sequence[Instance]) -> list[Sample]:
    """Answer each example alone, with neutral noise; a generating model decodes greedily.

    Raises:
        ExportError: as for `example_rows`, or an answer differs from the card.
    """
    return [_sample(reference, card, row) for row in example_rows(card, examples)]


def _sample(reference: Reference, card: Card, row: Row) -> Sample:
    answer = _answer(reference, card, Row({**row.tensors, **neutral_noise(card, row.sizes)}, row.sizes, row.labels))
    if card.generation is None:  # scores of tokens may be minus infinity
        check_finite(answer, reference.name)
    check_maps(card, answer)
    # Hidden states would make the file as large as the weights of a small model.
    outputs = {each.name: answer.outputs[each.name] for each in card.description.outputs}
    return Sample(row.tensors, outputs, answer.maps, answer.token_ids)


def _answer(reference: Reference, card: Card, row: Row) -> RowAnswer:
    rows = [row]
    if card.generation is None:
        return single_pass_answers(card, reference.run(collate_rows(card, rows)), rows)[0]
    choose = greedy_chooser(end_tokens(card.generation))
    trace = run_generation(reference.generation_runner(), card, collate_rows(card, rows), batch_sizes(rows), choose)
    return generation_answer(card, trace, row, 0)
