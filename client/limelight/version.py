"""Version of the distribution that contains this package."""

from importlib import metadata


def version() -> str:
    """Return the version of `limelight-client`, or of the application, whose wheel contains the client."""
    for distribution in ("limelight-client", "limelight"):
        try:
            return metadata.version(distribution)
        except metadata.PackageNotFoundError:
            continue
    return "unknown"
