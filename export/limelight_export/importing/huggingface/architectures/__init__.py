"""The architectures that can be imported, by `model_type` of config.json; a file for each family."""

from collections.abc import Mapping

from limelight_export.errors import CheckpointError
from limelight_export.importing.huggingface.architectures import (
    albert,
    bart,
    bert,
    clip,
    deberta,
    detr,
    distilbert,
    electra,
    gemma,
    gpt2,
    gpt_oss,
    llama,
    marian,
    mistral,
    modernbert,
    mpnet,
    qwen,
    roberta,
    t5,
    vit,
    whisper,
)
from limelight_export.importing.huggingface.architectures.architecture import Architecture
from limelight_export.importing.huggingface.checkpoint import Checkpoint

_ENCODERS = (bert, roberta, distilbert, albert, electra, mpnet, deberta, modernbert)
_DECODERS = (gpt2, llama, mistral, qwen, gemma, gpt_oss)
_ENCODER_DECODERS = (t5, bart, marian)

ARCHITECTURES: Mapping[str, Architecture] = {
    each.model_type: each
    for module in (*_ENCODERS, *_DECODERS, *_ENCODER_DECODERS, whisper, vit, clip, detr)
    for each in module.ARCHITECTURES
}

# Known architectures whose attention a bundle cannot hold.
_REFUSED: Mapping[str, str] = {
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
