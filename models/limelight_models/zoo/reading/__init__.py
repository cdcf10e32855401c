"""Passages, and questions that they answer."""
