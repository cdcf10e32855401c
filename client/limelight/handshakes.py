"""TLS on one side of a connection alone: found where the connection fails, and told in words."""

import socket
import ssl

from limelight.base.errors import Error, Unavailable
from limelight.targets import places

_SECONDS = 1.0  # for a handshake that only asks whether there is one
# What gRPC and OpenSSL say of an answer that is no TLS.
_NO_TLS = ("WRONG_VERSION_NUMBER", "wrong version number", "HTTP_REQUEST", "http request")


class TlsError(Unavailable):
    """One side of the connection speaks TLS, and the other does not.

    spoken: whether the server speaks it.
    """

    def __init__(self, target: str, *, spoken: bool, on_command_line: bool = False) -> None:
        """Say what to do: to a program, or to a person at the command line."""
        if on_command_line:
            todo = "give --ca FILE, or --tls" if spoken else "leave out --ca, --cert and --tls"
        else:
            todo = "give ca=FILE, or tls=True" if spoken else "leave out ca, cert and tls"
        super().__init__(f"the server at {target} {'speaks' if spoken else 'does not speak'} TLS: {todo}")
        self.spoken = spoken


def explained(error: Error, target: str, *, encrypted: bool) -> Error:
    """Return the error that says TLS where a connection failed for want of it, or for it; any other as it is.

    Args:
        target: host and port, as gRPC takes them.
        encrypted: whether the client speaks TLS.
    """
    if not isinstance(error, Unavailable) or isinstance(error, TlsError):
        return error
    if encrypted:
        return TlsError(target, spoken=False) if any(each in error.message for each in _NO_TLS) else error
    if "refused" in error.message.lower() or not any(speaks_tls(*each) for each in places(target)):
        return error
    return TlsError(target, spoken=True)


def speaks_tls(host: str, port: str) -> bool:
    """Return whether a server answers a handshake of TLS, whatever its certificate."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host, int(port)), _SECONDS) as connection,
            context.wrap_socket(connection, server_hostname=host),
        ):
            return True
    except (OSError, ValueError):
        return False
