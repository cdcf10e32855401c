"""The preprocessing that a bundle declares, one implementation for training, export and serving."""

from bundle.preprocess.preprocessor import Preprocessor

__all__ = ["Preprocessor"]
