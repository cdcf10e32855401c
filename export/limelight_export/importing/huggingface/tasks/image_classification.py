"""Classes of a picture."""

from typing import Any

from torch import Tensor

from limelight_export.importing.huggingface.architectures.architecture import VisionArchitecture
from limelight_export.importing.huggingface.loading import load_config, load_model
from limelight_export.importing.huggingface.tasks.classification import labels_of
from limelight_export.importing.huggingface.tasks.pictures import picture_model
from limelight_export.importing.huggingface.tasks.task import Source
from limelight_models.cards.card import TrainedModel
from limelight_models.cards.results import Classes


def build_image_classifier(source: Source[VisionArchitecture]) -> TrainedModel:
    """Build a model that classifies a picture.

    Raises:
        CheckpointError: as of `picture_model`, or the model cannot be loaded.
    """
    config = load_config(source.checkpoint)
    return picture_model(
        source,
        config,
        lambda: load_model(source.checkpoint, "AutoModelForImageClassification"),
        _logits,
        result=Classes(labels=labels_of(config)),
        summary="Classifies a picture.",
    )


def _logits(output: Any) -> dict[str, Tensor]:
    return {"logits": output.logits}
