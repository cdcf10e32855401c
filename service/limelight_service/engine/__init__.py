"""Runs models: no protocol here, only NumPy arrays and frozen dataclasses."""
