"""Chat templates of checkpoints."""
