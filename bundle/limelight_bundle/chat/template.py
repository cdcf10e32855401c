"""Chat templates of checkpoints: programs in Jinja that write a conversation as a prompt, checked and run in bounds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from limelight_bundle.chat.failures import FailedTemplate, RefusedTemplate
from limelight_bundle.errors import BundleError, InputError
from limelight_bundle.reader import BundleFolder

if TYPE_CHECKING:
    from limelight_bundle.chat.program import Program

CHAT_TEMPLATE_FILE = "chat_template.jinja"
_MOST_BYTES = 2**18  # four for each character of the longest that is run
Message = Mapping[str, Any]
"""`role` and `content`, as transformers' `apply_chat_template` takes them."""


@dataclass(frozen=True)
class ChatTemplate:
    """A checkpoint's template. It is compiled when it is first used; for any thread.

    Attributes:
        source: the program.
        tokens: strings of special tokens by the names that the program has for them, such as `bos_token`.
    """

    source: str
    tokens: Mapping[str, str] = field(default_factory=dict)

    def render(self, messages: Sequence[Message], *, add_generation_prompt: bool = True) -> str:
        """Write a conversation, as transformers' `apply_chat_template` does without tools and documents.

        Args:
            add_generation_prompt: the text ends where the assistant's next turn begins.
        Raises:
            RefusedTemplate: the program is not allowed.
            InputError: the program refuses the messages, or goes over a limit with them.
            ModuleNotFoundError: Jinja is not installed.
        """
        program = self._compiled()
        variables = {**self.tokens, "messages": [dict(each) for each in messages], "tools": None, "documents": None}
        characters = sum([len(value) for each in messages for value in each.values() if isinstance(value, str)])
        try:
            return program.run({**variables, "add_generation_prompt": add_generation_prompt}, characters)
        except FailedTemplate as error:
            raise InputError("messages", f"cannot be written by the model's chat template: {error}") from error

    def names(self) -> frozenset[str]:
        """Return the names that the program reads and does not define. Raises RefusedTemplate."""
        return self._compiled().names

    def _compiled(self) -> "Program":
        if isinstance(self._program, RefusedTemplate):
            raise self._program
        return self._program

    @cached_property
    def _program(self) -> "Program | RefusedTemplate":
        from limelight_bundle.chat.program import Program  # Jinja belongs to extras

        try:
            return Program(self.source)
        except RefusedTemplate as error:  # kept, since a long one takes a second to read
            return error


def chat_template(folder: BundleFolder) -> ChatTemplate | None:
    """Read a bundle's chat template; None where it has none. Raises BundleError for a file that is none."""
    generation = folder.bundle.generation
    if not generation.chat_template:
        return None
    with folder.file(generation.chat_template).open("rb") as file:
        data = file.read(_MOST_BYTES + 1)
    try:
        # One that is too long is refused when it is used.
        return ChatTemplate(data.decode(), dict(generation.chat_tokens))
    except UnicodeDecodeError as error:
        raise BundleError("the chat template is not UTF-8, or too long") from error
