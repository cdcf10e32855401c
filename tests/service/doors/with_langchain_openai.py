"""Calls of the tests by langchain-openai.

python with_langchain_openai.py http://HOST:PORT/v1 KEY  # prints what was found as JSON
"""

import asyncio
import json
import sys

from langchain_openai import OpenAIEmbeddings

BASE, KEY = sys.argv[1:]
TEXTS = [f"the cat {'sat ' * (number % 5)}" for number in range(2048)]
model = OpenAIEmbeddings(model="embedder", base_url=BASE, api_key=KEY, check_embedding_ctx_length=False)
found = model.embed_documents(TEXTS)  # by chunks of 1,000
print(
    json.dumps(
        {
            "count": len(found),
            "first": found[:5],
            "last": found[-5:],
            "query": model.embed_query(TEXTS[1]),
            "asyncio": asyncio.run(model.aembed_documents(TEXTS[:5])),
        }
    )
)
