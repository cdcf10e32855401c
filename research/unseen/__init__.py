"""The demo models on examples that they never saw."""
