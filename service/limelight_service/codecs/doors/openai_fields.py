"""What every method of OpenAI's API has: fields, and the form of errors."""

from typing import Any

from limelight_service.codecs.doors.fields import Field, text
from limelight_service.frontend.http.failures import Failure

SERVICE = "openai"
_LONGEST_NAME = 256
MODEL = Field("model", text(longest=_LONGEST_NAME), is_required=True)
USER = Field("user", text())
_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "invalid_request_error",
    429: "rate_limit_error",
}


def error_body(failure: Failure) -> Any:
    """Give the JSON of an error as OpenAI tells errors."""
    fields = [one.get("field", "") for each in failure.details for one in each.get("fieldViolations", ())]
    reason = next((each["reason"] for each in failure.details if "reason" in each), "")
    kind = _TYPES.get(failure.status, "server_error" if failure.status >= 500 else "invalid_request_error")
    return {
        "error": {
            "message": failure.message,
            "type": kind,
            "param": next(iter(fields), None) or None,
            "code": reason.lower() or None,
        }
    }
