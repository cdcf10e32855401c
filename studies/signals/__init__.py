"""Training signals at work: each beside the same model without it."""
