"""Recordings made of tones and noise, and a bundle that reads them."""

import struct

import numpy as np

from limelight.v1 import attention_pb2, model_pb2, values_pb2
from limelight_bundle.v1 import bundle_pb2
from limelight_bundle.values import Array

RATE, WINDOW, HOP, MELS = 16_000, 400, 160, 80
SECONDS = 2
FRAMES = SECONDS * RATE // HOP


def wav(
    samples: Array,
    *,
    rate: int = RATE,
    channels: int = 1,
    kind: int | None = None,
    bits: int = 0,
    size: int | None = None,
) -> bytes:
    """A WAV file of int16 or float32 samples, or one whose header says something else."""
    data = samples.tobytes()
    kind = kind or (3 if samples.dtype == np.float32 else 1)
    bits = bits or samples.dtype.itemsize * 8
    each = channels * bits // 8
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, kind, channels, rate, rate * each, each, bits)
    body = b"WAVE" + form + struct.pack("<4sI", b"data", len(data) if size is None else size) + data
    return struct.pack("<4sI", b"RIFF", len(body)) + body


def tones(count: int, seed: int = 0) -> Array:
    """Float32 samples: two tones that rise, noise, and a stretch of silence."""
    random = np.random.default_rng(seed)
    time = np.arange(count) / RATE
    sound = 0.4 * np.sin(2 * np.pi * (220 + 300 * time) * time) + 0.2 * np.sin(2 * np.pi * 3000 * time)
    sound += 0.05 * random.standard_normal(count)
    sound[count // 3 : count // 2] = 0
    return sound.astype(np.float32)


FBANK = {"lowest_frequency": 20, "mean": -4.25, "deviation": 9.0}


def bundle(seconds: float = SECONDS, step: str = "log_mel", **changes: float) -> bundle_pb2.Bundle:
    """A bundle whose input is a recording. step: that makes its spectrogram. changes: of the step."""
    own = {"highest_frequency": 8000} if step == "log_mel" else FBANK
    message = {"tensor": "features", "window": WINDOW, "hop": HOP, "mels": MELS, "frames": FRAMES} | own | changes
    features = model_pb2.TensorDescription(
        name="features",
        data_type=values_pb2.DATA_TYPE_FLOAT32,
        dimensions=[model_pb2.Dimension(name="mel", size=MELS), model_pb2.Dimension(name="mel_frame", size=FRAMES)],
    )
    frames = model_pb2.LabelSetDescription(
        name="frames",
        kind=attention_pb2.LABEL_KIND_FRAMES,
        input="audio",
        frames=model_pb2.Frames(count=FRAMES // 2, seconds=2 * HOP / RATE),
    )
    steps = [
        bundle_pb2.PreprocessingStep(decode_audio=bundle_pb2.DecodeAudio(sample_rate=RATE)),
        bundle_pb2.PreprocessingStep(**{step: message}),  # type: ignore[arg-type]
    ]
    return bundle_pb2.Bundle(
        description=model_pb2.ModelDescription(
            inputs=[model_pb2.InputDescription(name="audio", kind=model_pb2.INPUT_KIND_AUDIO, tensors=[features])],
            label_sets=[frames],
            limits=model_pb2.Limits(max_audio_seconds=seconds),
        ),
        preprocessing=[bundle_pb2.Preprocessing(input="audio", steps=steps)],
    )
