"""Clients in several event loops, threads and processes."""

import asyncio
import copy
import multiprocessing
import pickle
import threading
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest

import limelight
from tests.client import served
from tests.client.served import TEXT
from tests.kit.forwarder import Forwarder

LABEL = served.label(served.tiny())
EVENTS = 2 + len(served.echo().token_ids)


def asked(target: str) -> Any:
    """The work of another process: an answer, which travels back to this one."""
    with limelight.Client(target, timeout=20) as client:
        return client.attend("tiny", TEXT)


def failed(target: str) -> Any:
    with limelight.Client(target, timeout=20) as client:
        return client.predict("nope", TEXT)


def asked_asynchronously(target: str) -> Any:
    async def ask() -> Any:
        async with limelight.AsyncClient(target, timeout=20) as client:
            return await client.predict("tiny", TEXT)

    return asyncio.run(ask()).label


def test_one_asynchronous_client_serves_several_event_loops(server: Forwarder):
    client = limelight.AsyncClient(server.target, timeout=20)
    labels = []

    async def ask() -> None:
        labels.append((await client.predict("tiny", TEXT)).label)
        labels.append(len([each async for each in client.generate("echo", TEXT)]))

    for _ in range(3):
        asyncio.run(ask())
    threads = [threading.Thread(target=lambda: asyncio.run(ask())) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert labels.count(LABEL) == labels.count(EVENTS) == 7
    asyncio.run(client.close())
    asyncio.run(ask())
    asyncio.run(client.close())


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_another_process_gets_answers_and_hands_them_and_errors_back(server: Forwarder, method: str):
    with limelight.Client(server.target, timeout=20) as client:
        client.models()  # so that there is a connection when the process is forked
        with ProcessPoolExecutor(1, multiprocessing.get_context(method)) as pool:
            answer = pool.submit(asked, server.target).result(60)
            with pytest.raises(limelight.NotFound, match="'nope'") as refused:
                pool.submit(failed, server.target).result(60)
            if method == "spawn":
                assert pool.submit(asked_asynchronously, server.target).result(60) == LABEL
            else:
                # gRPC's own limit: without this error the call would never end.
                with pytest.raises(RuntimeError, match="forked"):
                    pool.submit(asked_asynchronously, server.target).result(60)
        assert answer.prediction.label == LABEL
        assert answer["encoder.0.self"].weights.shape == (2, 3, 3)
        assert refused.value.code.name == "NOT_FOUND"
        assert client.predict("tiny", TEXT).label == LABEL


def test_a_client_is_neither_pickled_nor_copied(server: Forwarder):
    for client in (limelight.Client(server.target), limelight.AsyncClient(server.target)):
        for act in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="a client is a connection"):
                act(client)
