"""Protocols: each translates its messages to the dataclasses of `service.frontend.core`, and back."""
