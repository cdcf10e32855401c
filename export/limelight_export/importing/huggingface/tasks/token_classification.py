"""A class of each word of a text."""

from typing import Any

from torch import Tensor

from limelight_export.importing.huggingface.tasks.classification import labels_of
from limelight_export.importing.huggingface.tasks.encoder import EncoderSource, encoder_model, load_encoder, text_input
from limelight_models.cards.card import TrainedModel
from limelight_models.cards.results import Classes


def build_token_classifier(source: EncoderSource) -> TrainedModel:
    """Build a model that classifies each word of a text by its first token."""
    parts = load_encoder(source, "AutoModelForTokenClassification")
    read = text_input(parts, "A text.")
    tokens = read.tokens(words=True)
    return encoder_model(
        source,
        parts,
        _logits,
        model_input=read,
        tokens=tokens,
        results=[Classes(name="tags", labels=labels_of(parts.config), over=tokens, words=True)],
        summary="Classifies the words of a text, each by its first token.",
    )


def _logits(output: Any, mask: Tensor) -> dict[str, Tensor]:
    return {"logits": output.logits}
