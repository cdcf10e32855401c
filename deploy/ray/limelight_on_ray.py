"""Limelight on Ray Serve: each replica runs an engine and its preprocessing, behind Ray's own gRPC proxy.

`serve run serve.yaml` in this folder starts it; docs/gateways.md says what is there and what is not. Replicas answer
`limelight.v1.AttentionService` and the `Check` of `grpc.health.v1.Health`.
"""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from typing import Any

import ray
from grpc_health.v1 import health_pb2
from ray import serve
from ray.serve.config import AutoscalingContext
from ray.serve.grpc_util import RayServegRPCContext

from limelight_service.configuration import load_settings
from limelight_service.frontend.status import REQUEST_ID_KEY, StatusError
from limelight_service.supervisor.embedded import embedded
from limelight_service.supervisor.serving import settle_interpreter

_SATURATION = "saturation"
_MOST_OF_A_REPLICA = 0.7  # what is left takes the calls of a replica that is replaced


class _Serialised:
    """A response that is serialised already, as Ray takes it."""

    def __init__(self, data: bytes = b"") -> None:
        self._data = data

    def SerializeToString(self) -> bytes:
        return self._data


@serve.deployment(name="limelight")
class Limelight:
    """A replica.

    Args:
        settings: settings of `limelight serve` by name, such as `repository`. `cores` is the number of CPUs that Ray
            gives the replica, unless it is given here.
    """

    async def __init__(self, settings: dict[str, Any]) -> None:
        self._stack = AsyncExitStack()
        cores = int(ray.get_runtime_context().get_assigned_resources().get("CPU", 0))
        loaded = load_settings({"cores": cores, **settings}, environment={})
        self._server = await self._stack.enter_async_context(embedded(loaded))
        settle_interpreter()

    async def __del__(self) -> None:
        await self._stack.aclose()

    def check_health(self) -> None:
        """Have Ray replace a replica whose models cannot answer."""
        if not self._server.is_ready:
            raise RuntimeError("no model of this replica can answer")

    def record_autoscaling_stats(self) -> dict[str, float]:
        """Tell Ray how much is asked of this replica, by what it can do."""
        return {_SATURATION: self._server.saturation()}

    async def Check(self, request: Any) -> Any:
        return health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.SERVING)

    async def Predict(self, request: Any, grpc_context: RayServegRPCContext) -> _Serialised:
        return await self._answer("Predict", request, grpc_context)

    async def Attend(self, request: Any, grpc_context: RayServegRPCContext) -> _Serialised:
        return await self._answer("Attend", request, grpc_context)

    async def Explain(self, request: Any, grpc_context: RayServegRPCContext) -> _Serialised:
        return await self._answer("Explain", request, grpc_context)

    async def Tokenize(self, request: Any, grpc_context: RayServegRPCContext) -> _Serialised:
        return await self._answer("Tokenize", request, grpc_context)

    async def ListModels(self, request: Any, grpc_context: RayServegRPCContext) -> _Serialised:
        return await self._answer("ListModels", request, grpc_context)

    async def GetModel(self, request: Any, grpc_context: RayServegRPCContext) -> _Serialised:
        return await self._answer("GetModel", request, grpc_context)

    async def AttendStream(self, request: Any, grpc_context: RayServegRPCContext) -> AsyncGenerator[_Serialised, None]:
        async for each in self._stream("AttendStream", request, grpc_context):
            yield each

    async def Generate(self, request: Any, grpc_context: RayServegRPCContext) -> AsyncGenerator[_Serialised, None]:
        async for each in self._stream("Generate", request, grpc_context):
            yield each

    async def _answer(self, method: str, request: Any, context: RayServegRPCContext) -> _Serialised:
        try:
            return _Serialised(await self._server.answer(method, request, _request_id(context)))
        except StatusError as error:
            # Ray passes trailing metadata, and so the error's details, only with a response, which gRPC then drops.
            context.set_code(error.status.code)
            context.set_details(error.status.message)
            context.set_trailing_metadata(list(error.status.trailing))
            return _Serialised()

    async def _stream(
        self, method: str, request: Any, context: RayServegRPCContext
    ) -> AsyncGenerator[_Serialised, None]:
        try:
            async for data in self._server.stream(method, request, _request_id(context)):
                yield _Serialised(data)
        except StatusError as error:
            # A response would reach the caller here: code and message must do.
            context.set_code(error.status.code)
            context.set_details(error.status.message)
            raise RuntimeError(error.status.message) from None  # which Ray can pickle


def _request_id(context: RayServegRPCContext) -> str | None:
    return next((value for key, value in context.invocation_metadata() if key == REQUEST_ID_KEY), None)


def wanted_replicas(context: AutoscalingContext) -> tuple[float, dict[str, Any]]:
    """Give the number of replicas that Ray should have, by their saturation and by the calls that are under way.

    Calls beyond `max_ongoing_requests` wait in Ray's proxy, where no replica sees them. A brake: at most twice as many
    as there are, and time (`upscale_delay_s`) to see what they bring.
    """
    running, config = max(1, context.current_num_replicas), context.config
    saturation = sum((context.aggregated_metrics or {}).get(_SATURATION, {}).values()) / _MOST_OF_A_REPLICA
    ongoing = context.total_num_requests / config.get_target_ongoing_requests()
    return min(max(saturation, ongoing), 2.0 * running), {}


def build(settings: dict[str, Any]) -> serve.Application:
    """Build the application; `args` of the configuration file are the settings."""
    return Limelight.bind(settings)
