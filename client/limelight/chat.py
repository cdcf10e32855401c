"""Chat messages as the prompt of a decoder that was trained on conversations.

A checkpoint's chat template is a program (Jinja), which servers run for `/v1/chat/completions`; it is not run here.
The formats of common ones are data:

    prompt = limelight.render_chat([{"role": "user", "content": "Hello"}], "chatml")
    client.generate("my-model", {"text": prompt})

Begin tokens are left to the model's tokenizer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from limelight.base.errors import InputError

Message = Mapping[str, str]
"""`role` ("system", "user" or "assistant") and `content`, as in transformers' `apply_chat_template`."""


@dataclass(frozen=True)
class ChatFormat:
    """The text format of a conversation's turns.

    `header` is the text before a turn's content, with `{role}` for its name; `end` the text after it.
    """

    header: str
    end: str
    markers: tuple[str, ...]
    """Strings that the tokenizer reads as special tokens. Messages that hold one are refused, since their author could
    write turns of other roles."""
    roles: Mapping[str, str] = field(default_factory=lambda: {"system": "system", "assistant": "assistant"})
    """Name of each role; a user is always "user". A role that is missing is refused."""
    system: Literal["turn", "before first user"] = "turn"
    """Whether a system message is a turn of its own, or begins the first user's, followed by an empty line."""
    strips: bool = False
    """Whether white space around contents is removed."""


FORMATS: Mapping[str, ChatFormat] = {
    "chatml": ChatFormat("<|im_start|>{role}\n", "<|im_end|>\n", ("<|im_start|>", "<|im_end|>")),
    "llama3": ChatFormat(
        "<|start_header_id|>{role}<|end_header_id|>\n\n",
        "<|eot_id|>",
        ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|begin_of_text|>", "<|end_of_text|>"),
        strips=True,
    ),
    "gemma": ChatFormat(
        "<start_of_turn>{role}\n",
        "<end_of_turn>\n",
        ("<start_of_turn>", "<end_of_turn>", "<bos>", "<eos>"),
        roles={"system": "", "assistant": "model"},
        system="before first user",
        strips=True,
    ),
    "phi3": ChatFormat(
        "<|{role}|>\n", "<|end|>\n", ("<|system|>", "<|user|>", "<|assistant|>", "<|end|>", "<|endoftext|>")
    ),
    "zephyr": ChatFormat("<|{role}|>\n", "</s>\n", ("<|system|>", "<|user|>", "<|assistant|>", "<s>", "</s>")),
}
"""Formats by name: chatml (Qwen, SmolLM, Yi and many more), llama3, gemma (2 and 3), phi3, zephyr (also TinyLlama)."""


def render_chat(messages: str | Sequence[Message], chat_format: str | ChatFormat) -> str:
    """Render a conversation as a prompt that ends where the assistant's next turn begins.

    Args:
        messages: at most one system message, then turns of user and assistant alternately, the last of the user; a
            string is one turn of the user. Nothing is added that is not stated: some checkpoints' templates begin with
            a system message of their own, or state the day.
        chat_format: a name of `FORMATS`, or a format.
    Raises:
        InputError: an unknown format, a message without role or content, turns out of order, or a marker in a content.
    """
    chosen = chat_format if isinstance(chat_format, ChatFormat) else _named(chat_format)
    turns = [{"role": "user", "content": messages}] if isinstance(messages, str) else list(messages)
    contents = [_content(number, each, chosen) for number, each in enumerate(turns)]
    begin = 1 if turns and turns[0]["role"] == "system" else 0
    for number, each in enumerate(turns[begin:]):
        expected = ("user", "assistant")[number % 2]
        if each["role"] != expected:
            raise InputError(
                f"messages[{begin + number}].role is {each['role']!r}; after one optional system message, turns of "
                f"user and assistant alternate: {expected!r}"
            )
    if (len(turns) - begin) % 2 == 0:
        raise InputError("messages: the last is the user's, which the model answers")
    if begin and chosen.system == "before first user":
        contents[1] = f"{contents[0]}\n\n{contents[1]}"
        turns, contents = turns[1:], contents[1:]
    names = {**chosen.roles, "user": "user"}
    written = (
        chosen.header.format(role=names[each["role"]]) + content + chosen.end
        for each, content in zip(turns, contents, strict=True)
    )
    return "".join(written) + chosen.header.format(role=names["assistant"])


def _named(name: str) -> ChatFormat:
    if name not in FORMATS:
        raise InputError(f"no chat format {name!r}; there are {', '.join(FORMATS)}")
    return FORMATS[name]


def _content(number: int, message: Message, chosen: ChatFormat) -> str:
    """Return the content of a message, checked."""
    if not isinstance(message, Mapping) or not all(isinstance(message.get(name), str) for name in ("role", "content")):
        raise InputError(f"messages[{number}] has no role and content, both strings")
    if message["role"] not in {"user", *chosen.roles}:
        known = ", ".join(["user", *chosen.roles])
        raise InputError(f"messages[{number}].role is {message['role']!r}; the format has {known}")
    content = message["content"]
    for marker in chosen.markers:
        if marker in content:
            raise InputError(f"messages[{number}].content holds {marker!r}, which begins or ends a turn")
    return content.strip() if chosen.strips else content
