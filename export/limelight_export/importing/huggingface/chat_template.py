"""The chat template of a checkpoint: taken if it is safe to run and writes what transformers writes with it."""

from typing import Any

from limelight_bundle.chat.failures import OwnRefusal, RefusedTemplate
from limelight_bundle.chat.template import CHAT_TEMPLATE_FILE, ChatTemplate
from limelight_bundle.errors import InputError
from limelight_export.importing.huggingface.checkpoint import TOKENIZER_CONFIG, Checkpoint
from limelight_export.importing.huggingface.library_tokenizer import load_library_tokenizer
from limelight_export.importing.huggingface.loading import first_line

# Strings that a template of each of the client's formats holds; the first format counts that fits.
_SIGNS = {
    "chatml": ("<|im_start|>", "<|im_end|>"),
    "llama3": ("<|start_header_id|>", "<|eot_id|>"),
    "gemma": ("<start_of_turn>", "<end_of_turn>"),
    "phi3": ("<|user|>", "<|end|>"),
    "zephyr": ("<|user|>", "eos_token"),
}
_USER = {"role": "user", "content": " What is 1 < 2, in “words”?\n"}
_SYSTEM, _ASSISTANT = {"role": "system", "content": "Be brief."}, {"role": "assistant", "content": "True 😀."}
# Conversations that are written both ways; a template may refuse all but the first.
_CONVERSATIONS = (
    [_USER],
    [_SYSTEM, _USER],
    [_USER, _ASSISTANT, _USER],
    [_SYSTEM, _USER, _ASSISTANT, _USER, _ASSISTANT, _USER],
    [_SYSTEM, _USER, _ASSISTANT],
)


def read_chat(checkpoint: Checkpoint) -> tuple[ChatTemplate | None, str]:
    """Read the checkpoint's chat template: the default one where there are several.

    Returns: the template, or None where there is none that is taken; and a sentence on it with a space before it, empty
        where there is none.
    """
    if not (checkpoint.text(CHAT_TEMPLATE_FILE) or checkpoint.table(TOKENIZER_CONFIG).get("chat_template")):
        return None, ""
    try:
        library = load_library_tokenizer(checkpoint.folder)
        stated = library.chat_template
        source = stated.get("default") if isinstance(stated, dict) else stated
        if not isinstance(source, str):
            return None, " Of its chat templates, none is the default: none is applied."
    except Exception as error:  # transformers and tokenizers raise many types
        return None, f" Its chat template is not applied: transformers cannot load the tokenizer: {first_line(error)}."
    likely = next((name for name, signs in _SIGNS.items() if all(each in source for each in signs)), None)
    like = f"; it looks like {likely!r} (render_chat, --chat {likely})" if likely else ""
    try:
        template = _with_tokens(source, library.special_tokens_map)
        _compare(template, library)
    except (RefusedTemplate, InputError) as error:
        return None, f" Its chat template is not applied: {error.message}{like}."
    return template, f" It takes conversations (/v1/chat/completions){like}."


def _with_tokens(source: str, tokens: dict[str, str]) -> ChatTemplate:
    """Make a template with the special tokens that it reads. Raises RefusedTemplate."""
    names = ChatTemplate(source).names()
    return ChatTemplate(source, {name: token for name, token in tokens.items() if name in names})


def _compare(template: ChatTemplate, library: Any) -> None:
    """Compare what a template writes with what transformers writes, which runs it without bounds: afterwards.

    Raises:
        InputError: the template cannot write a user's message, or takes too much for another conversation.
        RefusedTemplate: the texts differ.
    """
    for number, messages in enumerate(_CONVERSATIONS):
        for add_generation_prompt in (True, False):
            try:
                own = template.render(messages, add_generation_prompt=add_generation_prompt)
            except InputError as error:
                if number and isinstance(error.__cause__, OwnRefusal):
                    continue
                raise
            expected = library.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=add_generation_prompt
            )
            if own != expected:
                raise RefusedTemplate(f"it writes {own!r:.80}, where transformers writes {expected!r:.80}")
