"""Calls of the tests by Triton's own clients, in an environment of their own: their protobuf is another, and so are the
descriptors that they register.

    python with_tritonclient.py grpc|http TARGET  # prints what was found as JSON
"""

import asyncio
import importlib
import json
import queue
import sys
from typing import Any

import numpy as np
from tritonclient.utils import InferenceServerException

PROTOCOL = sys.argv[1]
triton: Any = importlib.import_module(f"tritonclient.{PROTOCOL}")
triton_aio: Any = importlib.import_module(f"tritonclient.{PROTOCOL}.aio")
# Over HTTP, tensors are bytes behind the JSON or numbers in it.
FORMS: list[dict[str, Any]] = [{}] if PROTOCOL == "grpc" else [{"binary_data": True}, {"binary_data": False}]


def tensor(name: str, array: np.ndarray, datatype: str, **form: Any) -> Any:
    made = triton.InferInput(name, list(array.shape), datatype)
    made.set_data_from_numpy(array, **form)
    return made


def texts(name: str, *values: str, **form: Any) -> Any:
    return tensor(name, np.array([[each.encode()] for each in values], dtype=object), "BYTES", **form)


def listed(array: np.ndarray) -> Any:
    if array.dtype == object:
        return [[one.decode() if isinstance(one, bytes) else one for one in row] for row in array]
    return array.tolist()


def told(call: Any, *arguments: Any) -> Any:
    """The status and the words of an error."""
    try:
        call(*arguments)
    except InferenceServerException as error:
        return [error.status(), error.message()]
    return None


def asked(client: Any) -> dict[str, Any]:
    """Every call of the synchronous client that the server has; answers in every form."""
    as_json = {"as_json": True} if PROTOCOL == "grpc" else {}
    server, index = client.get_server_metadata(**as_json), client.get_model_repository_index(**as_json)
    found: dict[str, Any] = {
        "ready": [client.is_server_live(), client.is_server_ready(), client.is_model_ready("tiny")],
        "not_ready": client.is_model_ready("nothing"),
        "server": server["name"],
        "metadata": client.get_model_metadata("tiny", **as_json),
        "config": client.get_model_config("echo", **as_json),
        "index": [each["name"] for each in (index["models"] if PROTOCOL == "grpc" else index)],
        "logits": [],
        "rows": [],
    }
    for form in FORMS:
        result = client.infer("tiny", [texts("text", "the cat", "a dog", **form)], request_id="mine")
        found["logits"].append(listed(result.as_numpy("logits")))
        found["mood"] = listed(result.as_numpy("mood"))
        response = result.get_response()
        found["id"] = response.id if PROTOCOL == "grpc" else response["id"]
        attended = client.infer(
            "tiny",
            [texts("text", "the cat sat")],
            outputs=[triton.InferRequestedOutput(name, **form) for name in ("encoder.0.self", "tokens.labels")],
            parameters={"limelight_heads": "1", "limelight_queries": "0", "limelight_encoding": "float16"},
        )
        row = attended.as_numpy("encoder.0.self")
        found["rows"].append([row.tolist(), str(row.dtype), listed(attended.as_numpy("tokens.labels"))])
        found["both"] = attended.as_numpy("logits") is None
    ids = tensor("ids", np.array([[4, 5]], np.int64), "INT64", **FORMS[-1])
    found["of_ids"] = [listed(client.infer("tiny", [ids]).as_numpy("logits"))]
    found["error"] = told(client.infer, "tiny", [texts("other", "the cat")])
    found["load"] = told(client.load_model, "tiny")
    if PROTOCOL == "grpc":  # an answer that is asked for later, and a stream
        done: queue.Queue[Any] = queue.Queue()
        client.async_infer("tiny", [texts("text", "the cat")], callback=lambda result, error: done.put((result, error)))
        result, error = done.get(timeout=60)
        found["of_ids"].append(listed(result.as_numpy("logits")) if error is None else str(error))
        found["stream"] = streamed(client)
    stats = client.get_inference_statistics("tiny", **as_json)["model_stats"][0]
    found["counted"] = [int(stats["inference_count"]), int(stats["inference_stats"]["success"]["count"])]
    return found


def streamed(client: Any) -> list[Any]:
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
        found = {"ready": await client.is_model_ready("tiny"), "logits": listed(result.as_numpy("logits"))}

        async def requests() -> Any:
            yield {"model_name": "echo", "inputs": [texts("text", "the cat sat")]}

        if PROTOCOL == "grpc":
            parts = client.stream_infer(requests())
            found["parts"] = [listed(result.as_numpy("words")) async for result, error in parts if error is None]
        return found


def fields() -> dict[str, Any]:
    """Every message and method that the client knows: fields by their number, type and name."""
    found: dict[str, Any] = {}
    descriptor = triton.service_pb2.DESCRIPTOR
    for file in (descriptor, *descriptor.dependencies):
        todo = list(file.message_types_by_name.values())
        while todo:
            message = todo.pop()
            todo += message.nested_types
            found[message.full_name] = {each.name: [each.number, each.type] for each in message.fields}
    for service in descriptor.services_by_name.values():
        for method in service.methods:
            found[method.full_name] = [method.input_type.full_name, method.output_type.full_name]
    return found


def main() -> None:
    target = sys.argv[2]
    with triton.InferenceServerClient(target) as client:
        found = asked(client)
    found["aio"] = asyncio.run(asked_by_asyncio(target))
    found["fields"] = fields() if PROTOCOL == "grpc" else {}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
