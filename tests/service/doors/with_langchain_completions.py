"""What LangChain's classes for OpenAI get, as JSON. Run by the interpreter that has them: URL MODEL."""

import json
import sys
from typing import Any

from langchain_core.messages import HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI, OpenAI

url, model = sys.argv[1:]
fields: dict[str, Any] = {"base_url": url, "api_key": "none", "model": model, "temperature": 0, "max_tokens": 5}
said = [SystemMessage("Be brief."), HumanMessage("the cat")]
chat, writer = ChatOpenAI(**fields), OpenAI(**fields)
answer = chat.invoke(said)
print(
    json.dumps(
        {
            "chat": answer.content,
            "usage": answer.usage_metadata,
            "finish": answer.response_metadata["finish_reason"],
            "streamed": "".join(str(each.content) for each in chat.stream(said)),
            "text": writer.invoke("the cat"),
            "texts": [each[0].text for each in writer.generate(["the cat", "a"]).generations],
            "text_streamed": "".join(writer.stream("the cat")),
        }
    )
)
