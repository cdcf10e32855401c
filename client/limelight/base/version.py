"""Version of the distribution of this package."""

from importlib import metadata


def version() -> str:
    """Return the version of `limelight-client`."""
    try:
        return metadata.version("limelight-client")
    except metadata.PackageNotFoundError:
        return "unknown"
