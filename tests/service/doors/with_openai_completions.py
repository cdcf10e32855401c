"""What OpenAI's own client gets of completions and chats, as JSON. Run by the interpreter that has it: URL MODEL."""

import asyncio
import json
import sys
from typing import Any

import openai

url, model = sys.argv[1:]
client = openai.OpenAI(base_url=url, api_key="none", max_retries=0)
MESSAGES: Any = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "the cat"}]


def refused(**fields: Any) -> list[Any]:
    try:
        client.chat.completions.create(model=model, messages=MESSAGES, **fields)
    except openai.APIStatusError as error:
        return [type(error).__name__, error.param, error.code, str(error.message)]
    return []


async def asynchronous() -> str:
    async with openai.AsyncOpenAI(base_url=url, api_key="none") as same:
        stream = await same.chat.completions.create(
            model=model, messages=MESSAGES, temperature=0, max_completion_tokens=5, stream=True
        )
        return "".join([each.choices[0].delta.content or "" async for each in stream])


completion = client.completions.create(
    model=model, prompt=["the cat", "a"], max_tokens=5, temperature=0, logprobs=2, echo=True, n=2, seed=1
)
chunks = list(client.completions.create(model=model, prompt="the cat", max_tokens=5, temperature=0, stream=True))
chat = client.chat.completions.create(
    model=model, messages=MESSAGES, temperature=0, max_tokens=5, logprobs=True, top_logprobs=1
)
streamed = list(
    client.chat.completions.create(
        model=model,
        messages=MESSAGES,
        temperature=0,
        max_tokens=5,
        stream=True,
        stream_options={"include_usage": True},
    )
)
attended = client.chat.completions.create(
    model=model,
    messages=MESSAGES,
    temperature=0,
    max_tokens=5,
    extra_body={"attention": {"reduceHeads": "HEAD_REDUCTION_MEAN"}},
)
with client.completions.create(model=model, prompt="the cat", max_tokens=5, stream=True) as cut:
    first = next(iter(cut)).choices[0].index
print(
    json.dumps(
        {
            "completion": completion.model_dump(),
            "text": "".join(each.choices[0].text for each in chunks),
            "chat": chat.model_dump(),
            "streamed": "".join(each.choices[0].delta.content or "" for each in streamed if each.choices),
            "usage": streamed[-1].usage.model_dump(),
            "asynchronous": asyncio.run(asynchronous()),
            "maps": [each["name"] for each in attended.model_extra["attention"][0]["maps"]],
            "cut": first,
            "refused": [
                refused(tools=[{"type": "function", "function": {"name": "f"}}]),
                refused(extra_body={"model": "nothing"}),
            ],
        }
    )
)
