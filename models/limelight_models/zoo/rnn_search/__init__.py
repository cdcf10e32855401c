"""Decoders that look back at the source before each token."""
