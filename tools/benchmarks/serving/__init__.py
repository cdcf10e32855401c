"""Serving beside its peers: `python -m benchmarks.serving`."""
