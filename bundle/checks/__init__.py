"""Checks of a bundle: its description, bindings, bounds, features, operators and tokenizers."""
