"""Protocols: each translates its messages to the dataclasses of `limelight_service.frontend.core`, and back."""
