"""The HTTP server of a frontend with every protocol that it speaks."""

from collections.abc import Callable

from limelight_service.codecs.doors.asking import Doors
from limelight_service.codecs.doors.cohere import Cohere
from limelight_service.codecs.doors.completions import Completions
from limelight_service.codecs.doors.openai import OpenAI
from limelight_service.codecs.doors.tei import Tei
from limelight_service.codecs.doors.vllm import VLLM
from limelight_service.codecs.json.docs_page import docs_link, docs_page
from limelight_service.codecs.json.open_inference import RestService
from limelight_service.codecs.json.openapi import document
from limelight_service.codecs.json.v1 import JsonService
from limelight_service.codecs.json.writing import written
from limelight_service.frontend.core import Core
from limelight_service.frontend.http.body import BodyReader
from limelight_service.frontend.http.exchange import HttpCalls
from limelight_service.frontend.http.methods import HttpResponse
from limelight_service.frontend.http.server import HttpServer
from limelight_service.frontend.server import FrontendServer
from limelight_service.security.access import Access
from limelight_service.settings import Settings


def http_server(
    settings: Settings,
    access: Access,
    core: Core,
    beside: FrontendServer,
    is_ready: Callable[[], bool],
) -> HttpServer:
    """Make the server. beside: the gRPC server, whose lifecycle, queues and memory of requests it shares."""
    doors = Doors(core)
    methods = [
        *JsonService(core, settings.max_response_bytes).methods(),
        *RestService(core, settings.max_instances, is_ready).methods(),
        *OpenAI(doors).methods(),
        *Tei(doors).methods(),
        *Cohere(doors).methods(),
        *VLLM(doors).methods(),
        *Completions(doors).methods(),
    ]
    openapi = document(methods, has_tokens=bool(settings.tokens))
    pages = {"/openapi.json": HttpResponse([written(openapi)]), "/docs": docs_page(openapi), "/": docs_link()}
    calls = HttpCalls(
        beside.lifecycle,
        beside.connections,
        access,
        BodyReader(settings.max_request_bytes, settings.arrival_seconds, beside.requests),
        settings.answer_seconds,
    )
    return HttpServer(settings, access, calls, methods, pages, is_ready)
