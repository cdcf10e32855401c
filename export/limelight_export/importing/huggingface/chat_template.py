"""The chat template of a checkpoint: which of the client's formats it resembles. Templates are programs: not run."""

from limelight_export.importing.huggingface.checkpoint import TOKENIZER_CONFIG, Checkpoint

_FILE = "chat_template.jinja"
# Strings that a template of each of the client's formats holds; the first format counts that fits.
_SIGNS = {
    "chatml": ("<|im_start|>", "<|im_end|>"),
    "llama3": ("<|start_header_id|>", "<|eot_id|>"),
    "gemma": ("<start_of_turn>", "<end_of_turn>"),
    "phi3": ("<|user|>", "<|end|>"),
    "zephyr": ("<|user|>", "eos_token"),
}


def describe_template(checkpoint: Checkpoint) -> str:
    """Return a sentence on the checkpoint's chat template, with a space before it; empty where there is none."""
    template = checkpoint.text(_FILE) or str(checkpoint.table(TOKENIZER_CONFIG).get("chat_template") or "")
    if not template:
        return ""
    likely = next((name for name, signs in _SIGNS.items() if all(each in template for each in signs)), None)
    if likely is None:
        return " Its chat template is not applied: write messages as the checkpoint's page says."
    return f" Its chat template is not applied; it looks like {likely!r} (render_chat, --chat {likely})."
