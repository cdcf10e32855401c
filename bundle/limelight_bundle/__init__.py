"""Bundles: the format of exported models, their preprocessing, and their checks."""
