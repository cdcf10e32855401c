"""Errors of chat templates."""

from limelight_bundle.errors import BundleError


class RefusedTemplate(BundleError):
    """A template that uses what is not allowed, or that cannot be read; the message names it."""


class FailedTemplate(Exception):
    """What ended a run: a limit, the template's own `raise_exception`, or an error of its program."""


class OwnRefusal(FailedTemplate):
    """A template's own `raise_exception`: it does not write such messages."""
