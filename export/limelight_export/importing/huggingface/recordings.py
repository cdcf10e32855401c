"""Recordings of checkpoints: what their processor states, as steps of a bundle."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from limelight_export.errors import CheckpointError
from limelight_export.importing.huggingface.checkpoint import Checkpoint, Processor
from limelight_models.cards.inputs import AudioInput, FbankInput

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

# The same of transformers' feature extractor of AST.
_RATE, _WINDOW, _HOP, _LOWEST_FREQUENCY = 16_000, 400, 160, 20.0
_FBANK_DEFAULTS = {"num_mel_bins": 128, "max_length": 1024}
_FBANK_ONLY = {"feature_extractor_type": "ASTFeatureExtractor", "sampling_rate": _RATE, "do_normalize": True}
_FBANK_RECORDS = frozenset("processor_class feature_size padding_value padding_side return_attention_mask".split())
_MEAN, _DEVIATION = -4.2677393, 4.5689974  # of AudioSet


def audio_input(checkpoint: Checkpoint, *, mels: int, frames: int) -> AudioInput:
    """Read how a recording becomes a spectrogram.

    Args:
        mels, frames: of the spectrogram that the model takes.
    Raises:
        CheckpointError: the processor is missing, states something unknown, or makes another spectrogram.
    """
    processor = _checked(checkpoint, _ONLY, tuple(_DEFAULTS), _RECORDS)
    sizes = {name: int(processor.fields.get(name, default)) for name, default in _DEFAULTS.items()}
    made = sizes["feature_size"], sizes["chunk_length"] * sizes["sampling_rate"] // sizes["hop_length"]
    if made != (mels, frames):
        raise CheckpointError(
            f"{processor.file} makes spectrograms of {made[0]} x {made[1]} numbers; the model takes {mels} x {frames}"
        )
    rate, seconds = sizes["sampling_rate"], sizes["chunk_length"]
    return AudioInput(
        summary=_summary("Speech", seconds, rate),
        sample_rate=rate,
        window=sizes["n_fft"],
        hop=sizes["hop_length"],
        mels=mels,
        highest_frequency=_HIGHEST_FREQUENCY,
        frames=frames,
    )


def fbank_input(checkpoint: Checkpoint, *, mels: int, frames: int) -> FbankInput:
    """Read how a recording becomes the logarithm of a filter bank.

    Args:
        mels, frames: of what the model takes.
    Raises:
        CheckpointError: as of `audio_input`.
    """
    known = _FBANK_RECORDS | {"mean", "std"}
    processor = _checked(checkpoint, _FBANK_ONLY, tuple(_FBANK_DEFAULTS), known)
    made = tuple(processor.fields.get(name, default) for name, default in _FBANK_DEFAULTS.items())
    if made != (mels, frames):
        raise CheckpointError(
            f"{processor.file} makes spectrograms of {made[0]} x {made[1]} numbers; the model takes {mels} x {frames}"
        )
    mean, deviation = processor.fields.get("mean", _MEAN), processor.fields.get("std", _DEVIATION)
    if not all(isinstance(each, int | float) for each in (mean, deviation)) or not deviation:
        raise CheckpointError(f"{processor.file} states the mean {mean!r} and the std {deviation!r}; both are numbers")
    made_input = FbankInput(
        summary="",
        sample_rate=_RATE,
        window=_WINDOW,
        hop=_HOP,
        mels=mels,
        frames=frames,
        lowest_frequency=_LOWEST_FREQUENCY,
        mean=float(mean),
        deviation=2 * float(deviation),
    )
    return replace(made_input, summary=_summary("A recording", made_input.seconds, _RATE))


def _summary(what: str, seconds: float, rate: int) -> str:
    return f"{what} of up to {seconds:.4g} seconds: a WAV file of one channel, or samples, {rate} of them a second."


def _checked(
    checkpoint: Checkpoint, only: Mapping[str, Any], sizes: Collection[str], others: Collection[str]
) -> Processor:
    """Check the fields of a feature extractor. Raises CheckpointError for one that is not known, or another value."""
    processor = checkpoint.processor("feature_extractor")
    for name, value in processor.fields.items():
        if name in only:
            if value != only[name]:
                raise CheckpointError(f"{processor.file} states {name} {value!r}; it can be {only[name]!r}")
        elif name in sizes:
            if not isinstance(value, int) or value < 1:
                raise CheckpointError(f"{processor.file} states {name} {value!r}; it is a positive number")
        elif name not in others:
            raise CheckpointError(
                f"{processor.file} states {name} {value!r}, which is not classified: "
                "it could change the spectrogram unseen"
            )
    return processor
