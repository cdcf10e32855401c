"""The options --chat and --system: a text becomes a conversation's prompt."""

from typing import Annotated

import typer

from limelight.base.commands import CommandError
from limelight.chat import FORMATS, render_chat
from limelight.descriptions import Model
from limelight.v1 import values_pb2

Chat = Annotated[
    str,
    typer.Option(
        "--chat", metavar="FORMAT", help=f"Send the text as a user's message, written as {', '.join(FORMATS)}."
    ),
]
System = Annotated[str, typer.Option("--system", metavar="TEXT", help="System message before it, with --chat.")]


def write_as_chat(model: Model, instance: values_pb2.Instance, chat_format: str, system: str) -> None:
    """Write the text of an instance as a conversation, if a format is named.

    Raises:
        CommandError: a system message without a format, or the model does not take one text.
        InputError: an unknown format, or a text that holds one of its markers.
    """
    if not chat_format:
        if system:
            raise CommandError("--system needs --chat", status=2)
        return
    texts = [value for value in instance.inputs.values() if value.WhichOneof("kind") == "text"]
    if len(texts) != 1:
        raise CommandError(f"--chat: model {model.name!r} does not take one text", status=2)
    said = [{"role": "user", "content": texts[0].text}]
    texts[0].text = render_chat([{"role": "system", "content": system}, *said] if system else said, chat_format)
