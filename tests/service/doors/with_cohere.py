"""Calls of the tests by Cohere's own client.

python with_cohere.py http://HOST:PORT KEY OWN_KEY  # prints what was found as JSON
"""

import asyncio
import json
import sys
from typing import Any

import cohere
from cohere.core.api_error import ApiError

BASE, KEY, OWN_KEY = sys.argv[1:]
TEXTS = ["the cat sat", "a dog 🐈 ran", "the mat"]
TYPES = ["float", "int8", "uint8", "binary", "ubinary", "base64"]
QUERY = "the cat"


def told(key: str = KEY, **fields: Any) -> Any:
    """What the client raises of a request."""
    given = {"model": "reranker", "query": QUERY, "documents": TEXTS, **fields}
    try:
        cohere.ClientV2(key, base_url=BASE).rerank(**given, request_options={"max_retries": 0})
    except ApiError as error:
        return [type(error).__name__, error.body["message"]]
    return None


def ranks(answer: Any) -> Any:
    return [[each.index, each.relevance_score] for each in answer.results]


async def asynchronous() -> Any:
    """Ranks by the asyncio client, four requests at a time."""
    async with cohere.AsyncClientV2(KEY, base_url=BASE) as client:
        calls = [client.rerank(model="reranker", query=QUERY, documents=TEXTS) for _ in range(4)]
        return [ranks(each) for each in await asyncio.gather(*calls)]


client = cohere.ClientV2(KEY, base_url=BASE)
embedded = client.embed(model="embedder", texts=TEXTS, input_type="search_document", embedding_types=TYPES)
short = client.embed(
    model="embedder", texts=["the " * 300], input_type="search_query", output_dimension=8, truncate="END"
)
ranked = client.rerank(model="reranker", query=QUERY, documents=TEXTS)
best = client.rerank(model="embedder", query=QUERY, documents=["the " * 300, *TEXTS], top_n=2)
attended = client.rerank(
    model="reranker",
    query=QUERY,
    documents=TEXTS,
    request_options={"additional_body_parameters": {"attention": {"topK": 1}}},
)
first = cohere.Client(KEY, base_url=BASE)
print(
    json.dumps(
        {
            "vectors": {name.rstrip("_"): each for name, each in embedded.embeddings if each is not None},
            "texts": embedded.texts,
            "tokens": embedded.meta.billed_units.input_tokens,
            "short": short.embeddings.float_,
            "ranked": ranks(ranked),
            "read": ranked.meta.tokens.input_tokens,
            "best": ranks(best),
            "asyncio": asyncio.run(asynchronous()),
            "attention": attended.attention,
            "first": [
                [each.index, each.relevance_score, each.document.text]
                for each in first.rerank(
                    model="reranker", query=QUERY, documents=[{"text": each} for each in TEXTS], return_documents=True
                ).results
            ],
            "first vectors": first.embed(model="embedder", texts=TEXTS, input_type="clustering").embeddings,
            "errors": {
                "key": told("nobody"),
                "model": told(model="nobody"),
                "not its own": told(OWN_KEY),
                "classifier": told(model="classifier"),
                "none": told(documents=[]),
                "tokens": told(max_tokens_per_doc=10),
            },
        }
    )
)
