"""Capsules: a class is an attention, a probability and a reconstruction."""
