"""Preprocessing as a bundle declares it: one implementation for training, export and serving."""

from limelight_bundle.preprocess.preprocessor import Bounds, Preprocessor

__all__ = ["Bounds", "Preprocessor"]
