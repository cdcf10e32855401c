"""Checks of a bundle: description, bindings, bounds, features, operators and tokenizers."""
