"""Training data: sources that need no download, and plain formats."""
