"""Attention models in PyTorch: the mechanisms, the published models, their data and their training."""
