"""Models that say what is thought of one thing in a text."""
