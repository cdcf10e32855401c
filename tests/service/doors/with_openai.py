"""Calls of the tests by OpenAI's own client.

python with_openai.py http://HOST:PORT/v1 KEY SLOW_KEY  # prints what was found as JSON
"""

import asyncio
import json
import sys
from typing import Any

import openai

BASE, KEY, SLOW_KEY = sys.argv[1:]
TEXTS = ["the cat sat", "a dog 🐈 ran", "the mat"]
MAPS = {"selections": [{"names": ["*.self"], "layers": [0], "heads": [1]}]}


def told(key: str = KEY, **fields: Any) -> Any:
    """What the client raises of a request."""
    given = {"model": "embedder", "input": "the cat", **fields}
    try:
        openai.OpenAI(base_url=BASE, api_key=key, max_retries=0).embeddings.create(**given)
    except openai.APIStatusError as error:
        return [type(error).__name__, error.code, error.param, error.message]
    return None


async def asynchronous() -> Any:
    """Vectors by the asyncio client, four requests at a time."""
    async with openai.AsyncOpenAI(base_url=BASE, api_key=KEY) as client:
        calls = [client.embeddings.create(model="embedder", input=TEXTS) for _ in range(4)]
        return [vectors(each) for each in await asyncio.gather(*calls)]


def vectors(answer: Any) -> Any:
    assert [each.index for each in answer.data] == list(range(len(answer.data)))
    return [each.embedding for each in answer.data]


with openai.OpenAI(base_url=BASE, api_key=KEY) as client:
    create = client.embeddings.create
    listed, one = client.models.list(), client.models.retrieve("embedder")
    usual = create(model="embedder", input=TEXTS, user="me")
    attended = create(model="embedder", input=TEXTS[0], extra_body={"attention": MAPS})
    found = {
        "models": [[each.id, each.object, each.owned_by] for each in listed],
        "one": [one.id, one.created],
        "vectors": vectors(usual),
        "floats": vectors(create(model="embedder", input=TEXTS, encoding_format="float")),
        "text": vectors(create(model="embedder", input=TEXTS[0])),
        "ids": vectors(create(model="embedder", input=[2, 5, 6, 3])),
        "several ids": vectors(create(model="embedder", input=[[2, 5, 6, 3], [2, 5, 3]])),
        "short": vectors(create(model="embedder", input=TEXTS, dimensions=8)),
        "usage": usual.usage.to_dict(),
        "model": [usual.object, usual.model],
        "attention": (attended.model_extra or {})["attention"],
        "extra": usual.model_extra,
        "many": len(create(model="embedder", input=["the cat"] * 2048).data),
        "asyncio": asyncio.run(asynchronous()),
        "errors": {
            "key": told(key="limelight_wrong"),
            "model": told(model="nobody"),
            "other": told(model="classifier"),  # this token does not know of it
            "field": told(extra_body={"top_k": 3}),
            "long": told(input="the " * 1000),
            "10,000": told(input=["the cat"] * 10_000),
            "nothing": told(input=[]),
            "retrieve": None,
        },
    }
    try:
        client.models.retrieve("nobody")
    except openai.NotFoundError as error:
        found["errors"]["retrieve"] = error.message

# A token that has had its rows: the client waits as long as it is told, and asks again.
slow = openai.OpenAI(base_url=BASE, api_key=SLOW_KEY, max_retries=4)
slow.embeddings.create(model="embedder", input=["the cat"] * 30)
found["errors"]["quota"] = told(key=SLOW_KEY)
found["retried"] = len(slow.embeddings.create(model="embedder", input=TEXTS).data)
print(json.dumps(found))
