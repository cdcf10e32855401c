"""Classes of a text or of a pair of texts: one of them, any number of them, or a number."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from limelight_export.errors import CheckpointError
from limelight_export.importing.huggingface.tasks.encoder import (
    EncoderParts,
    EncoderSource,
    Head,
    encoder_model,
    load_encoder,
    pair_input,
    text_input,
)
from limelight_models.cards.card import TrainedModel
from limelight_models.cards.inputs import JoinedPairInput, TextInput
from limelight_models.cards.results import Classes, Numbers, Result

_AUTO_CLASS = "AutoModelForSequenceClassification"
# What a cross-encoder of sentence-transformers does with its one number.
_ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {"Sigmoid": torch.sigmoid, "Identity": torch.nn.Identity()}


def build_classifier(source: EncoderSource) -> TrainedModel:
    """Build a model that classifies a text, or predicts numbers of it."""
    parts = load_encoder(source, _AUTO_CLASS)
    return _build(source, parts, text_input(parts, "A text."), "Classifies a text.")


def build_pair_classifier(source: EncoderSource) -> TrainedModel:
    """Build a model that reads two texts as one sequence, and classifies or scores the pair (a cross-encoder)."""
    parts = load_encoder(source, _AUTO_CLASS)
    return _build(
        source, parts, pair_input(source, parts, "Two texts, read as one sequence."), "Classifies a pair of texts."
    )


def labels_of(config: object) -> list[str]:
    """Return the names of the classes in order."""
    names = getattr(config, "id2label", None) or {}
    return [str(names[number]) for number in sorted(names)]


def _build(source: EncoderSource, parts: EncoderParts, model_input: TextInput, summary: str) -> TrainedModel:
    labels = labels_of(parts.config)
    problem = getattr(parts.config, "problem_type", None)
    result: Result
    head: Head = _logits
    if problem == "regression" or len(labels) == 1:
        names = ["score"] if len(labels) == 1 else labels
        result = Numbers(targets=dict.fromkeys(names, ""))
        head = _activated(source) if isinstance(model_input, JoinedPairInput) else _values
        summary = summary.replace("Classifies", "Scores")
    else:
        result = Classes(labels=labels, activation="sigmoid" if problem == "multi_label_classification" else "softmax")
    return encoder_model(
        source,
        parts,
        head,
        model_input=model_input,
        tokens=model_input.tokens(words=True),
        results=[result],
        summary=summary,
    )


def _activated(source: EncoderSource) -> Head:
    """Return the score of a cross-encoder with the activation that its configuration states.

    Raises:
        CheckpointError: the activation is another than sentence-transformers' own.
    """
    stated = source.checkpoint.config.get("sentence_transformers") or {}
    name = str(
        stated.get("activation_fn") or source.checkpoint.config.get("sbert_ce_default_activation_function") or ""
    )
    last = name.rpartition(".")[2] or "Sigmoid"  # sentence-transformers' default for one number
    if last not in _ACTIVATIONS:
        raise CheckpointError(f"config.json states the activation {name}; it can be {' or '.join(_ACTIVATIONS)}")
    activation = _ACTIVATIONS[last]
    return lambda output, mask: {"values": activation(output.logits)}


def _logits(output: object, mask: Tensor) -> dict[str, Tensor]:
    return {"logits": output.logits}  # type: ignore[attr-defined]


def _values(output: object, mask: Tensor) -> dict[str, Tensor]:
    return {"values": output.logits}  # type: ignore[attr-defined]
