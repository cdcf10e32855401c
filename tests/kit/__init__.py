"""Shared fixtures: small models and bundles of every shape, servers in threads and in processes."""
