"""Whether a server would stand open to other machines without anybody having said that it may."""

from typing import TYPE_CHECKING

from limelight_service.platform.addresses import is_loopback

if TYPE_CHECKING:
    from limelight_service.settings import Settings


def exposed(settings: "Settings") -> str | None:
    """Say what stands open that nobody said may, and what to do; None where nothing does.

    Off this machine, calls need TLS: without it, tokens and inputs can be read on the way, and tokens that were read
    can be used. TLS alone is allowed: whoever gives a certificate has decided to serve everybody.
    Metrics are plain HTTP: they tell the names of models and tokens, and how much each is used.
    """
    if settings.insecure:
        return None
    if not (settings.tls_cert or is_loopback(settings.host)):
        what = "tokens would be sent unencrypted" if settings.tokens else "whoever reaches it could call, unencrypted"
        return (
            f"host is {settings.host}, which other machines reach, and {what}: give --tls-cert and --tls-key"
            f"{'' if settings.tokens else ' (and --tokens or --tls-client-ca)'}; or, where a proxy has the lock or "
            "the network is trusted, --insecure"
        )
    if settings.metrics_port and not settings.insecure_metrics and not is_loopback(settings.metrics_host):
        return (
            f"metrics_host is {settings.metrics_host}, which other machines reach, and whoever does could read the "
            "names of models and tokens and how much each is used: where only Prometheus reaches it, give "
            "--insecure-metrics"
        )
    return None


def open_to_all(settings: "Settings") -> str | None:
    """Say who may call without any proof, where that is more than this machine; None where nobody may."""
    if settings.tokens or settings.tls_client_ca or is_loopback(settings.host):
        return None
    return f"whoever reaches {settings.host} may call: there are no tokens and no authority of callers' certificates"
