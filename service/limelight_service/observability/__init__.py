"""Metrics and logs of every process of a server."""
