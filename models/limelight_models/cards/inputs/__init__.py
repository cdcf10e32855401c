"""Inputs: what a caller sends, the tensors that it becomes, by which steps, and what its parts are called on maps."""

from limelight_models.cards.inputs.base import DType, Input, TensorSpec, Tokenizer
from limelight_models.cards.inputs.signals import (
    AudioInput,
    FbankInput,
    Fit,
    ImageInput,
    PictureSizes,
    Resampling,
    SpectrogramInput,
)
from limelight_models.cards.inputs.tensors import GraphInput, Noise, TensorInput
from limelight_models.cards.inputs.texts import (
    DocumentInput,
    FilledTextInput,
    JoinedPairInput,
    LinesInput,
    PairInput,
    TextInput,
    WordsInput,
    forced_target,
)

__all__ = [
    "AudioInput",
    "DType",
    "DocumentInput",
    "FbankInput",
    "FilledTextInput",
    "Fit",
    "GraphInput",
    "ImageInput",
    "Input",
    "JoinedPairInput",
    "LinesInput",
    "Noise",
    "PairInput",
    "PictureSizes",
    "Resampling",
    "SpectrogramInput",
    "TensorInput",
    "TensorSpec",
    "TextInput",
    "Tokenizer",
    "WordsInput",
    "forced_target",
]
