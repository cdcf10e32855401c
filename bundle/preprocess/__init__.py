"""The preprocessing that a bundle declares, one implementation for training, export and serving."""

from bundle.preprocess.preprocessor import Bounds, Preprocessor

__all__ = ["Bounds", "Preprocessor"]
