"""Prepares the files of a bundle: samples, large weights, library versions."""
