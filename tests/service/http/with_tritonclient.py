"""Calls of the tests by Triton's own client over HTTP, in an environment of its own.

python with_tritonclient.py TARGET  # prints what was found as JSON
"""

import asyncio
import json
import sys
from typing import Any

import numpy as np
import tritonclient.http as triton
import tritonclient.http.aio as triton_aio
from tritonclient.utils import InferenceServerException


def texts(name: str, *values: str, binary: bool = True) -> triton.InferInput:
    tensor = triton.InferInput(name, [len(values), 1], "BYTES")
    tensor.set_data_from_numpy(np.array([[each.encode()] for each in values], dtype=object), binary_data=binary)
    return tensor


def listed(array: np.ndarray) -> Any:
    if array.dtype == object:
        return [[one.decode() if isinstance(one, bytes) else one for one in row] for row in array]
    return array.tolist()


def asked(client: triton.InferenceServerClient) -> dict[str, Any]:
    """Every call of the synchronous client that the server has."""
    found: dict[str, Any] = {
        "live": client.is_server_live(),
        "ready": client.is_server_ready(),
        "model_ready": client.is_model_ready("tiny"),
        "no_model_ready": client.is_model_ready("nothing"),
        "server": client.get_server_metadata(),
        "metadata": client.get_model_metadata("tiny"),
        "config": client.get_model_config("tiny"),
        "index": client.get_model_repository_index(),
    }
    for form in (True, False):
        result = client.infer("tiny", [texts("text", "the cat", "a dog", binary=form)], request_id="mine")
        found[f"logits_{form}"], found["mood"] = listed(result.as_numpy("logits")), listed(result.as_numpy("mood"))
    found["statistics"] = client.get_inference_statistics("tiny")
    found["id"] = result.get_response()["id"]
    ids = triton.InferInput("ids", [1, 2], "INT64")
    ids.set_data_from_numpy(np.array([[4, 5]], np.int64), binary_data=False)
    found["of_ids"] = listed(client.infer("tiny", [ids]).as_numpy("logits"))
    for form in (True, False):
        names = ("encoder.0.self", "tokens.labels")
        attended = client.infer(
            "tiny",
            [texts("text", "the cat sat")],
            outputs=[triton.InferRequestedOutput(name, binary_data=form) for name in names],
            parameters={"limelight_heads": "1", "limelight_queries": "0", "limelight_encoding": "float16"},
        )
        found[f"row_{form}"] = attended.as_numpy("encoder.0.self").tolist()
        found[f"tokens_{form}"] = listed(attended.as_numpy("tokens.labels"))
    try:
        client.infer("tiny", [texts("other", "the cat")])
    except InferenceServerException as error:
        found["error"] = [error.status(), error.message()]
    return found


async def asked_by_asyncio(target: str) -> Any:
    async with triton_aio.InferenceServerClient(target) as client:
        result = await client.infer("tiny", [texts("text", "the cat", "a dog")])
        return listed(result.as_numpy("logits"))


def main() -> None:
    target = sys.argv[1]
    with triton.InferenceServerClient(target) as client:
        found = asked(client)
    found["aio"] = asyncio.run(asked_by_asyncio(target))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
