"""Hostile requests, built from the descriptors of the protocol, and the answers of a server."""
