"""The version of the distribution that holds this package."""

from importlib import metadata


def version() -> str:
    """The version of `limelight-client`, or of the application, whose wheel holds the client as well."""
    for distribution in ("limelight-client", "limelight"):
        try:
            return metadata.version(distribution)
        except metadata.PackageNotFoundError:
            continue
    return "unknown"
