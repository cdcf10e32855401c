"""The equal-terms study: the same small task model with one attention mechanism after the other."""
