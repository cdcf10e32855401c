"""The HTTP server of a frontend with every protocol that it speaks."""

from collections.abc import Callable

from service.codecs.json.open_inference import RestService
from service.codecs.json.openapi import document
from service.codecs.json.v1 import JsonService
from service.frontend.core import Core
from service.frontend.http.server import HttpServer
from service.frontend.server import FrontendServer
from service.observability.metrics import Metrics
from service.security.access import Access
from service.settings import Settings


def http_server(
    settings: Settings,
    metrics: Metrics,
    access: Access,
    core: Core,
    beside: FrontendServer,
    is_ready: Callable[[], bool],
) -> HttpServer:
    """Make the server. beside: the gRPC server, whose gate and memory of requests it shares."""
    methods = [
        *JsonService(core, settings.max_response_bytes).methods(),
        *RestService(core, settings.max_instances, is_ready).methods(),
    ]
    openapi = document(methods, has_tokens=bool(settings.tokens))
    pages = {"/openapi.json": openapi}
    return HttpServer(settings, metrics, access, beside.drain, beside.requests, methods, pages, is_ready)
