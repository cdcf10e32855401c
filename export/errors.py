"""What can go wrong in an export."""

from bundle.errors import LimelightError


class ExportError(LimelightError):
    """A model that cannot be exported, or whose graphs do not answer as PyTorch does. Nothing was written."""
