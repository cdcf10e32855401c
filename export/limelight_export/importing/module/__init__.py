"""PyTorch modules of other people: their attention is found and marked while they run."""
