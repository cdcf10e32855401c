"""Models that read from a memory."""
