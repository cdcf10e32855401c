"""The architectures that can be imported, by `model_type` of config.json; a table for each kind."""

from collections.abc import Mapping

from limelight_export.errors import CheckpointError
from limelight_export.importing.huggingface.architectures import decoders, encoder_decoders, encoders, pictures
from limelight_export.importing.huggingface.architectures.architecture import Architecture
from limelight_export.importing.huggingface.checkpoint import Checkpoint

ARCHITECTURES: Mapping[str, Architecture] = {
    each.model_type: each
    for module in (encoders, decoders, encoder_decoders, pictures)
    for each in module.ARCHITECTURES
}

# Known architectures whose attention a bundle cannot hold.
_REFUSED: Mapping[str, str] = {
    "wav2vec2": "wav2vec2 cannot be imported: it has as many frames as a recording is long, and those of a bundle have "
    "one number of frames",
    "swin": "Swin cannot be imported: it attends within windows that shift from layer to layer",
    "swinv2": "Swin 2 cannot be imported: it attends within windows that shift from layer to layer",
}


def architecture_of(checkpoint: Checkpoint) -> Architecture:
    """Find the architecture of a checkpoint. Raises CheckpointError for one that cannot be imported."""
    if checkpoint.model_type in _REFUSED:
        raise CheckpointError(_REFUSED[checkpoint.model_type])
    if checkpoint.model_type not in ARCHITECTURES:
        stated = f"the model_type {checkpoint.model_type!r}" if checkpoint.model_type else "no model_type"
        known = ", ".join(sorted(ARCHITECTURES))
        raise CheckpointError(
            f"config.json states {stated}; it can be {known}. Other modules: limelight.export.export_module"
        )
    return ARCHITECTURES[checkpoint.model_type]
