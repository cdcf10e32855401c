"""Calls taken by one process and answered by another, and what they say to each other."""
