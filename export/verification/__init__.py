"""Compares exported graphs with PyTorch, and checks what a model's card states of its maps."""
