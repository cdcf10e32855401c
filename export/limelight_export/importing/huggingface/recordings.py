"""Recordings of checkpoints: what their processor states, as steps of a bundle."""

from limelight_export.errors import CheckpointError
from limelight_export.importing.huggingface.checkpoint import Checkpoint
from limelight_models.cards.inputs import AudioInput

# transformers' feature extractor of Whisper, whatever is stated.
_HIGHEST_FREQUENCY = 8000.0
_DEFAULTS = {"sampling_rate": 16_000, "n_fft": 400, "hop_length": 160, "feature_size": 80, "chunk_length": 30}
# Values other than these would change the spectrogram.
_ONLY = {
    "feature_extractor_type": "WhisperFeatureExtractor",
    "padding_value": 0,
    "padding_side": "right",
    "dither": 0,
    "do_normalize": False,
}
# `mel_filters` of older files are computed anew by transformers.
_RECORDS = frozenset("processor_class n_samples nb_max_frames return_attention_mask mel_filters".split())


def audio_input(checkpoint: Checkpoint, *, mels: int, frames: int) -> AudioInput:
    """Read how a recording becomes a spectrogram.

    Args:
        mels, frames: of the spectrogram that the model takes.
    Raises:
        CheckpointError: the processor is missing, states something unknown, or makes another spectrogram.
    """
    processor = checkpoint.processor("feature_extractor")
    stated = processor.fields
    for name, value in stated.items():
        if name in _ONLY:
            if value != _ONLY[name]:
                raise CheckpointError(f"{processor.file} states {name} {value!r}; it can be {_ONLY[name]!r}")
        elif name in _DEFAULTS:
            if not isinstance(value, int) or value < 1:
                raise CheckpointError(f"{processor.file} states {name} {value!r}; it is a positive number")
        elif name not in _RECORDS:
            raise CheckpointError(
                f"{processor.file} states {name} {value!r}, which is not classified: "
                "it could change the spectrogram unseen"
            )
    sizes = {name: int(stated.get(name, default)) for name, default in _DEFAULTS.items()}
    made = sizes["feature_size"], sizes["chunk_length"] * sizes["sampling_rate"] // sizes["hop_length"]
    if made != (mels, frames):
        raise CheckpointError(
            f"{processor.file} makes spectrograms of {made[0]} x {made[1]} numbers; the model takes {mels} x {frames}"
        )
    rate, seconds = sizes["sampling_rate"], sizes["chunk_length"]
    return AudioInput(
        summary=f"Speech of up to {seconds} seconds: a WAV file of one channel, or samples, {rate} of them a second.",
        sample_rate=rate,
        window=sizes["n_fft"],
        hop=sizes["hop_length"],
        mels=mels,
        highest_frequency=_HIGHEST_FREQUENCY,
        frames=frames,
    )
