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
    "longformer": "Longformer cannot be imported: most of its tokens attend within a window, whose maps are bands",
    "led": "LED cannot be imported: most tokens of its encoder attend within a window, whose maps are bands",
    "reformer": "Reformer cannot be imported: its tokens attend within buckets that a hash makes of each text",
    "nystromformer": "Nyströmformer cannot be imported: it approximates attention by three products over landmarks",
    "yoso": "YOSO cannot be imported: it estimates attention by hashes, so that it has no weights",
    "mra": "MRA cannot be imported: it approximates attention by blocks of two resolutions",
    "fnet": "FNet cannot be imported: it mixes tokens by a Fourier transform, and has no attention",
    "convbert": "ConvBERT cannot be imported: half of each layer are convolutions, which no map shows",
    "funnel": "Funnel Transformer cannot be imported: its layers pool tokens, so that maps have fewer than a text",
    "canine": "CANINE cannot be imported: it attends within windows of characters, and among pools of them",
    "xlnet": "XLNet cannot be imported: it reads the class of a text from its last position, behind padding in front",
    "xlm": "XLM cannot be imported: its tokenizer is a program, which no tokenizer.json can hold",
    "flaubert": "FlauBERT cannot be imported: its tokenizer is a program, which no tokenizer.json can hold",
    "wav2vec2": "wav2vec2 cannot be imported: it has as many frames as a recording is long, and those of a bundle have "
    "one number of frames",
    # Causal attention without a matrix.
    "mamba2": "Mamba-2 cannot be imported: a state that fades takes the place of attention; the zoo's mamba-2 shows "
    "what weights that comes to",
    "qwen3_next": "Qwen3-Next cannot be imported: a delta rule takes the place of attention in most layers; the zoo's "
    "gated-deltanet shows what weights that comes to, and gated-attention the other layers",
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
