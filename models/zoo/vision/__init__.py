"""Models that read images."""
