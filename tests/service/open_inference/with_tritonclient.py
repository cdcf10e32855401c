"""Calls of the tests by Triton's own client, in an environment of its own: its protobuf is another, and so are the
descriptors that it registers.

    python with_tritonclient.py TARGET  # prints what was found as JSON
"""

import asyncio
import json
import queue
import sys
from typing import Any

import numpy as np
import tritonclient.grpc as triton
import tritonclient.grpc.aio as triton_aio
from tritonclient.grpc import service_pb2
from tritonclient.utils import InferenceServerException


def texts(name: str, *values: str) -> triton.InferInput:
    tensor = triton.InferInput(name, [len(values), 1], "BYTES")
    tensor.set_data_from_numpy(np.array([[each.encode()] for each in values], dtype=object))
    return tensor


def listed(array: np.ndarray) -> Any:
    return [[one.decode() for one in row] for row in array] if array.dtype == object else array.tolist()


def asked(client: triton.InferenceServerClient) -> dict[str, Any]:
    """Every call of the synchronous client that the server has."""
    found: dict[str, Any] = {
        "live": client.is_server_live(),
        "ready": client.is_server_ready(),
        "model_ready": client.is_model_ready("tiny"),
        "server": client.get_server_metadata().name,
        "metadata": client.get_model_metadata("tiny", as_json=True),
        "config": client.get_model_config("echo", as_json=True),
        "index": [each.name for each in client.get_model_repository_index().models],
    }
    result = client.infer("tiny", [texts("text", "the cat", "a dog")], request_id="mine")
    found["id"] = result.get_response().id
    found["logits"], found["mood"] = listed(result.as_numpy("logits")), listed(result.as_numpy("mood"))
    ids = triton.InferInput("ids", [1, 2], "INT64")
    ids.set_data_from_numpy(np.array([[4, 5]], np.int64))
    found["of_ids"] = listed(client.infer("tiny", [ids]).as_numpy("logits"))
    attended = client.infer(
        "tiny",
        [texts("text", "the cat sat")],
        outputs=[triton.InferRequestedOutput("encoder.0.self"), triton.InferRequestedOutput("tokens.labels")],
        parameters={"limelight_heads": "1", "limelight_queries": "0", "limelight_encoding": "float16"},
        client_timeout=60,
    )
    row = attended.as_numpy("encoder.0.self")
    found["row"], found["row_type"] = row.tolist(), str(row.dtype)
    found["tokens"] = listed(attended.as_numpy("tokens.labels"))
    found["both"] = attended.as_numpy("logits") is None
    try:
        client.infer("tiny", [texts("other", "the cat")])
    except InferenceServerException as error:
        found["error"] = [error.status(), error.message()]
    try:
        client.load_model("tiny")
    except InferenceServerException as error:
        found["load"] = error.status()
    # The answer of a request that is asked for later, and its statistics.
    done: queue.Queue[Any] = queue.Queue()
    client.async_infer("tiny", [texts("text", "the cat")], callback=lambda result, error: done.put((result, error)))
    result, error = done.get(timeout=60)
    found["asynchronous"] = listed(result.as_numpy("logits")) if error is None else str(error)
    stats = client.get_inference_statistics("tiny").model_stats[0]
    found["counted"] = [stats.inference_count, stats.inference_stats.success.count]
    return found


def streamed(client: triton.InferenceServerClient) -> list[Any]:
    """Tokens of a stream, and an error among them."""
    done: queue.Queue[Any] = queue.Queue()
    client.start_stream(callback=lambda result, error: done.put((result, error)))
    client.async_stream_infer("tiny", [texts("nothing", "the cat")])
    client.async_stream_infer("echo", [texts("text", "the cat sat")], enable_empty_final_response=True)
    found: list[Any] = []
    while True:
        result, error = done.get(timeout=60)
        if error is not None:
            found.append(error.message())
            continue
        found.append(listed(result.as_numpy("words")))
        if result.get_response().parameters["triton_final_response"].bool_param:
            break
    client.stop_stream()
    return found


async def asked_by_asyncio(target: str) -> dict[str, Any]:
    async with triton_aio.InferenceServerClient(target) as client:
        result = await client.infer("tiny", [texts("text", "the cat", "a dog")])

        async def requests() -> Any:
            yield {"model_name": "echo", "inputs": [texts("text", "the cat sat")]}

        parts = [
            listed(result.as_numpy("words")) async for result, error in client.stream_infer(requests()) if error is None
        ]
        return {
            "ready": await client.is_model_ready("tiny"),
            "logits": listed(result.as_numpy("logits")),
            "parts": parts,
        }


def fields() -> dict[str, Any]:
    """Every message and method that the client knows: fields by their number, type and name."""
    found: dict[str, Any] = {}
    for file in (service_pb2.DESCRIPTOR, *service_pb2.DESCRIPTOR.dependencies):
        todo = list(file.message_types_by_name.values())
        while todo:
            message = todo.pop()
            todo += message.nested_types
            found[message.full_name] = {each.name: [each.number, each.type] for each in message.fields}
    for service in service_pb2.DESCRIPTOR.services_by_name.values():
        for method in service.methods:
            found[method.full_name] = [method.input_type.full_name, method.output_type.full_name]
    return found


def main() -> None:
    target = sys.argv[1]
    with triton.InferenceServerClient(target) as client:
        found = asked(client)
        found["stream"] = streamed(client)
    found["aio"] = asyncio.run(asked_by_asyncio(target))
    found["fields"] = fields()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
