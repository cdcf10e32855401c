"""Training signals of attention, each beside the same model without it."""
