"""Comparison of exported graphs with PyTorch, and checks of maps against the card."""
