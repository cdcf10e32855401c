"""The error that an export raises."""

from limelight_bundle.errors import LimelightError


class ExportError(LimelightError):
    """A model cannot be exported, or its graphs answer differently from PyTorch. Nothing was written."""


class CheckpointError(ExportError):
    """A checkpoint of another library cannot be imported: what it holds, and what to do."""
