"""The gate, with metadata that no client of ours would send."""

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limelight_bundle.errors import LimelightError
from limelight_service.errors import ForbiddenError, UnauthenticatedError
from limelight_service.observability.metrics import Metrics
from limelight_service.security.caller import Caller, calling
from limelight_service.security.gate import Gate
from limelight_service.security.tokens import entry, new_token, read_tokens

TOKEN = new_token()
TOKENS = read_tokens(entry("site", TOKEN, {"methods": ["Predict"]}).encode())
SERVICES = ("limelight.v1.AttentionService", "limelight.v1.AdminService")
PREFIX = "/limelight.v1.AttentionService/"


@dataclass(frozen=True)
class Details:
    """Details of a call that begins, as gRPC gives them."""

    method: str
    invocation_metadata: Any


def passed(method: str, metadata: Any) -> tuple[Caller, LimelightError | None]:
    """Give who a call is taken for, and why it is refused, where it is."""

    async def through(details: Any) -> None:
        return None

    def refuse(name: str, error: LimelightError) -> tuple[str, LimelightError]:
        return name, error

    async def run() -> tuple[Caller, LimelightError | None]:
        gate = Gate(lambda: TOKENS, SERVICES, refuse, Metrics())
        refused = await gate.intercept_service(through, Details(method, metadata))
        return calling.get(), refused[1] if refused else None

    made: Callable[[], Any] = run
    return copy_context().run(lambda: asyncio.run(made()))  # type: ignore[no-any-return]


VALUES = st.one_of(
    st.text(max_size=50), st.binary(max_size=50), st.sampled_from([f"Bearer {TOKEN[:-1]}", "Bearer ", f"Basic {TOKEN}"])
)


@given(
    metadata=st.none()
    | st.lists(st.tuples(st.sampled_from(["authorization", "x-request-id", "authorization-bin"]), VALUES), max_size=4),
    method=st.sampled_from(
        [f"{PREFIX}Predict", f"{PREFIX}Nothing", "/other.Service/Do", "", "/grpc.health.v1.Healthy/"]
    ),
)
def test_nothing_but_a_good_token_gets_in(metadata: Any, method: str) -> None:
    caller, refused = passed(method, None if metadata is None else tuple(metadata))
    assert isinstance(refused, UnauthenticatedError) and caller == Caller()
    for _, value in metadata or ():
        assert not (isinstance(value, str) and len(value) > 12 and value in refused.message)


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_scheme_is_written_in_any_case(scheme: str) -> None:
    caller, refused = passed(f"{PREFIX}Predict", (("user-agent", "x"), ("authorization", f"{scheme} {TOKEN}")))
    assert (caller.name, refused) == ("site", None)


def test_a_token_is_for_its_methods_and_a_service_that_no_token_names_is_for_all() -> None:
    good = (("authorization", f"Bearer {TOKEN}"),)
    caller, refused = passed(f"{PREFIX}Attend", good)
    assert isinstance(refused, ForbiddenError) and caller.name == "site"
    assert isinstance(passed("/limelight.v1.AdminService/LoadModel", good)[1], ForbiddenError)
    assert passed("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", good)[1] is None
    assert passed("/grpc.health.v1.Health/Check", ())[1] is None
