"""Transformers that put out text token by token."""
