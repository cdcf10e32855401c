"""Spans of a text that answer a question."""

from typing import Any

from torch import Tensor

from limelight_export.errors import CheckpointError
from limelight_export.importing.huggingface.tasks.encoder import EncoderSource, encoder_model, load_encoder, pair_input
from limelight_models.cards.card import TrainedModel
from limelight_models.cards.results import Spans


def build_question_answering(source: EncoderSource) -> TrainedModel:
    """Build a model that reads a question and a text, and finds the spans of the text that answer it.

    Raises:
        CheckpointError: the model has other scores than those of starts and ends.
    """
    parts = load_encoder(source, "AutoModelForQuestionAnswering")
    if parts.config.num_labels != 2:
        raise CheckpointError(f"config.json states {parts.config.num_labels} labels; an answer has a start and an end")
    read = pair_input(source, parts, "A question, then the text that holds the answer.")
    tokens = read.tokens(words=True)
    return encoder_model(
        source,
        parts,
        _scores,
        model_input=read,
        tokens=tokens,
        results=[Spans(over=tokens, part="second", first_token_is_none=True)],
        summary="Finds the answer to a question in a text.",
    )


def _scores(output: Any, mask: Tensor) -> dict[str, Tensor]:
    return {"start_scores": output.start_logits, "end_scores": output.end_logits}
