"""The words that a text may have in the place of a mask."""

from typing import Any

from torch import Tensor

from limelight_bundle.tokenizer_files import load_tokenizer
from limelight_bundle.values import Text
from limelight_export.errors import CheckpointError
from limelight_export.importing.huggingface.tasks.encoder import EncoderSource, encoder_model, load_encoder, text_input
from limelight_export.importing.huggingface.text import token_id
from limelight_models.cards.card import TrainedModel
from limelight_models.cards.results import Classes

_ROLE = "mask_token"


def build_masked_words(source: EncoderSource) -> TrainedModel:
    """Build a model that predicts the token behind each mask of a text.

    Raises:
        CheckpointError: no file states the mask.
    """
    parts = load_encoder(source, "AutoModelForMaskedLM")
    mask = token_id(parts.tokenizer, source.checkpoint, _ROLE)
    if mask is None:
        raise CheckpointError(f"no file of the checkpoint states a {_ROLE} that its tokenizer has")
    loaded = load_tokenizer(parts.tokenizer.text)
    name = loaded.id_to_token(mask)
    read = text_input(parts, f"A text with one or more {name}.")
    tokens = read.tokens(words=True)
    labels = [loaded.id_to_token(number) or "" for number in range(int(parts.config.vocab_size))]
    return encoder_model(
        source,
        parts,
        _logits,
        model_input=read,
        tokens=tokens,
        results=[Classes(name="words", labels=labels, over=tokens, token_id=mask)],
        summary=f"Predicts the token in the place of each {name} of a text.",
        examples=[{read.name: Text(f"The {name} sat on the mat.")}],
    )


def _logits(output: Any, mask: Tensor) -> dict[str, Tensor]:
    return {"logits": output.logits}
