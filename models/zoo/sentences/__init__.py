"""Models that put a sentence into classes."""
