"""A vector of a picture, by an encoder of pictures alone."""

from typing import Any

from torch import Tensor
from torch.nn.functional import normalize

from limelight_export.importing.huggingface.architectures.architecture import VisionArchitecture
from limelight_export.importing.huggingface.loading import load_config, load_model
from limelight_export.importing.huggingface.tasks.pictures import picture_model
from limelight_export.importing.huggingface.tasks.task import Source
from limelight_models.cards.card import TrainedModel
from limelight_models.cards.results import Vector


def build_image_embedding(source: Source[VisionArchitecture]) -> TrainedModel:
    """Build a model that maps a picture to a vector.

    Raises:
        CheckpointError: as of `picture_model`, or the model cannot be loaded.
    """
    config, architecture = load_config(source.checkpoint), source.architecture
    made_of = "pooled" if architecture.is_pooled else "that of the first token"

    def vector(output: Any) -> dict[str, Tensor]:
        pooled = output.pooler_output if architecture.is_pooled else output.last_hidden_state[:, 0]
        return {"vector": normalize(pooled, dim=-1)}

    return picture_model(
        source,
        config,
        lambda: load_model(source.checkpoint, "AutoModel", **architecture.options),
        vector,
        result=Vector(size=int(config.hidden_size), summary=f"The vector of the picture, {made_of}, of length 1."),
        summary="Maps a picture to a vector.",
    )
