"""What models learn from: sources that need no download, and plain formats."""
