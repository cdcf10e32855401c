"""Methods of doors, as the HTTP server takes them."""

from collections.abc import Awaitable, Callable
from typing import Any

from limelight_service.codecs.doors.fields import Form
from limelight_service.frontend.call import Call
from limelight_service.frontend.http.failures import Failure
from limelight_service.frontend.http.methods import HttpEvents, HttpRequest, HttpResponse, UnaryHttp


def predicting(
    service: str,
    failed: Callable[[Failure], Any],
    path: str,
    name: str,
    summary: str,
    form: Form,
    handle: Callable[[HttpRequest, Call], Awaitable[HttpResponse | HttpEvents]],
    failed_event: Callable[[Failure], bytes] | None = None,
) -> UnaryHttp:
    """Make a method that takes POST and needs the right to Predict. Arguments: as of `UnaryHttp`."""
    return UnaryHttp(
        "POST",
        path,
        service,
        name,
        failed,
        right="Predict",
        summary=summary,
        request=form.schema,
        handle=handle,
        failed_event=failed_event,
    )
