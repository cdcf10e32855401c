"""Errors as OpenAI's API tells them, and the doors that follow it."""

from typing import Any

from limelight_service.frontend.http.failures import Failure

SERVICE = "openai"
_TYPES = {429: "rate_limit_error"}
_CODES = {"UNAUTHENTICATED": "invalid_api_key", "QUOTA": "rate_limit_exceeded"}


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
            "code": _CODES.get(reason, reason.lower()) or None,
        }
    }
