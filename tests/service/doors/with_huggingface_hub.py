"""Calls of the tests by Hugging Face's own client.

python with_huggingface_hub.py http://HOST:PORT KEY OWN_KEY  # prints what was found as JSON
"""

import asyncio
import json
import sys
from typing import Any

from huggingface_hub import AsyncInferenceClient, InferenceClient
from huggingface_hub.errors import HfHubHTTPError

BASE, KEY, OWN_KEY = sys.argv[1:]
TEXTS = ["the cat sat", "a dog 🐈 ran", "the mat"]


def client(model: str, key: str = KEY) -> InferenceClient:
    return InferenceClient(model=f"{BASE}/models/{model}", token=key)


def told(name: str, model: str, *values: Any, key: str = KEY, **fields: Any) -> Any:
    """What the client raises of a request."""
    try:
        getattr(client(model, key), name)(*values, **fields)
    except HfHubHTTPError as error:
        return [error.response.status_code, error.response.json()]
    return None


async def asynchronous() -> Any:
    """Vectors by the asyncio client, four requests at a time."""
    several = AsyncInferenceClient(base_url=f"{BASE}/models/embedder", api_key=KEY)
    found = await asyncio.gather(*[several.feature_extraction(TEXTS) for _ in range(4)])
    return [each.tolist() for each in found]


embedder, classifier = client("embedder"), client("classifier")
classes = classifier.text_classification(TEXTS[0])
print(
    json.dumps(
        {
            "vectors": embedder.feature_extraction(TEXTS).tolist(),
            "one": embedder.feature_extraction(TEXTS[0], normalize=True, truncate=False).tolist(),
            "short": embedder.feature_extraction("the " * 300, truncate=True, dimensions=8).tolist(),
            "asyncio": asyncio.run(asynchronous()),
            "path": InferenceClient(model=f"{BASE}/embed", token=KEY).feature_extraction(TEXTS[0]).tolist(),
            "classes": [[each.label, each.score] for each in classes],
            "best": [
                [each.label, each.score]
                for each in classifier.text_classification(TEXTS[0], top_k=1, function_to_apply="sigmoid")
            ],
            "similar": embedder.sentence_similarity(TEXTS[0], TEXTS),
            "errors": {
                "key": told("feature_extraction", "embedder", "the cat", key="nobody"),
                "long": told("feature_extraction", "embedder", "the " * 300),
                "prompt": told("feature_extraction", "embedder", "the cat", prompt_name="query"),
                "left": told("feature_extraction", "embedder", "the cat", truncation_direction="left"),
                "model": told("feature_extraction", "nobody", "the cat"),
                "not its own": told("text_classification", "classifier", "the cat", key=OWN_KEY),
            },
        }
    )
)
