"""The server that is soaked: `limelight serve`, set by LIMELIGHT_* alone, which swaps a model on SIGUSR1.

Of a model with two versions one is loaded. The other is loaded beside it, then the first is unloaded, as an operator
would do it through the admin service: no call should notice.
"""

import asyncio
import itertools
import logging
import signal
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import grpc

from limelight.v1 import admin_pb2, service_pb2, values_pb2
from limelight_service.command import print_address, run
from limelight_service.configuration import load_settings
from limelight_service.supervisor.served import Served

logger = logging.getLogger(__name__)
_kept: set[asyncio.Task[Any]] = set()
_LIST = "/limelight.v1.AttentionService/ListModels"
_ADMIN = "/limelight.v1.AdminService/"


def announce(server: Served) -> None:
    """Leave one version of each model, say where calls are answered, and wait for signals."""
    wanted: asyncio.Queue[None] = asyncio.Queue()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, wanted.put_nowait, None)
    _keep(_swap(server.address, wanted))
    print_address(server)


async def _swap(address: str, wanted: "asyncio.Queue[None]") -> None:
    """Swap one model after another, whenever it is wanted."""
    async with grpc.aio.insecure_channel(address) as channel:
        found = await _models(channel)
        while any(each.state == service_pb2.MODEL_STATE_LOADING for each in found):
            await asyncio.sleep(0.1)
            found = await _models(channel)
        names = sorted({each.model.name for each in found if each.model.version == 2})
        for name in names:
            await _change(channel, "UnloadModel", name, 2)
        loaded = dict.fromkeys(names, 1)
        for name in itertools.cycle(names):
            await wanted.get()
            before, after = loaded[name], 3 - loaded[name]
            try:
                await _change(channel, "LoadModel", name, after)
                await _change(channel, "UnloadModel", name, before)
            except grpc.RpcError:
                logger.exception("%s could not be swapped", name)
            else:
                loaded[name] = after


async def _models(channel: grpc.aio.Channel) -> list[service_pb2.ModelStatus]:
    data = await channel.unary_unary(_LIST)(service_pb2.ListModelsRequest().SerializeToString())
    return list(service_pb2.ListModelsResponse.FromString(data).models)


async def _change(channel: grpc.aio.Channel, method: str, name: str, version: int) -> None:
    kind = getattr(admin_pb2, f"{method}Request")
    await channel.unary_unary(_ADMIN + method)(
        kind(model=values_pb2.Model(name=name, version=version)).SerializeToString()
    )


def _keep(work: Coroutine[Any, Any, None]) -> None:
    """Run something beside the server; the loop itself would not keep it."""
    task = asyncio.get_running_loop().create_task(work)
    _kept.add(task)
    task.add_done_callback(_kept.discard)


if __name__ == "__main__":
    run(replace(load_settings({}), model_control="explicit"), announce)
