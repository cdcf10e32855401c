"""The address of the server that the environment names."""

from collections.abc import Mapping

from limelight.base.commands import CommandError

DEFAULT_TARGET = "127.0.0.1:50051"
TARGET, HOST, PORT = "LIMELIGHT_TARGET", "LIMELIGHT_HOST", "LIMELIGHT_PORT"


def server_of(environment: Mapping[str, str]) -> str:
    """Return the target that the environment names, or the default target.

    LIMELIGHT_TARGET has precedence, then the address on which a server with these variables listens, so that a
    container's health check reaches the server in the container. Empty variables are ignored.

    Raises:
        CommandError: the port is invalid.
    """
    if target := environment.get(TARGET, "").strip():
        return target
    default_host, _, default_port = DEFAULT_TARGET.rpartition(":")
    host = environment.get(HOST, "").strip().strip("[]") or default_host
    # A server that listens on every address also listens on loopback.
    host = {"0.0.0.0": default_host, "::": "::1"}.get(host, host)
    port = environment.get(PORT, "").strip() or default_port
    if "://" in port:  # Kubernetes sets this for a Service named limelight
        port = default_port
    if not (port.isascii() and port.isdecimal() and 0 < int(port) < 65536):
        raise CommandError(f"{PORT} is {port!r}, which is not a valid port", status=2)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
