"""Requests that nobody should send, built from the protocol's own descriptors, and what a server makes of them."""
