"""The HTTP server of a frontend with every protocol that it speaks."""

from collections.abc import Callable

from service.codecs.json.open_inference import RestService
from service.codecs.json.openapi import document
from service.codecs.json.v1 import JsonService
from service.frontend.core import Core
from service.frontend.http.body import BodyReader
from service.frontend.http.exchange import HttpCalls
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
    """Make the server. beside: the gRPC server, whose gate, memory of requests and traces it shares."""
    methods = [
        *JsonService(core, settings.max_response_bytes).methods(),
        *RestService(core, settings.max_instances, is_ready).methods(),
    ]
    openapi = document(methods, has_tokens=bool(settings.tokens))
    pages = {"/openapi.json": openapi}
    calls = HttpCalls(
        metrics,
        access,
        beside.drain,
        BodyReader(settings.max_request_bytes, settings.arrival_seconds, beside.requests),
        settings.answer_seconds,
        beside.tracer,
    )
    return HttpServer(settings, access, calls, methods, pages, is_ready)
