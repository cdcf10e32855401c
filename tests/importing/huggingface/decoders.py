"""A small configuration of every decoder that can be imported, and of their options that change attention."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from tests.importing.huggingface.checkpoints import GENERIC, write_json

VOCABULARY = 300
POSITIONS = 96
BEGIN, END = 1, 2
TEXT = "the cat sat on the mat, and attention shows which words a model looks at"


@dataclass(frozen=True)
class Decoder:
    """A decoder: its name in transformers' classes, its configuration, and whether its prompts get a begin token."""

    library_name: str
    config: Callable[[], dict[str, Any]]
    begins: bool = True
    positions: int = POSITIONS

    def write(self, folder: Path, **changes: Any) -> Path:
        """Write a checkpoint with random weights."""
        config = self.config() | changes
        return write_generating(folder, self.library_name, "AutoModelForCausalLM", config, begins=self.begins)


def write_generating(
    folder: Path,
    library_name: str,
    auto_class: str,
    config: dict[str, Any],
    *,
    begins: bool = True,
    spread: float = 0.3,
) -> Path:
    """Write a checkpoint of a model that generates, with random weights whose attention is far from uniform."""
    import transformers

    torch.manual_seed(0)
    made = getattr(transformers, f"{library_name}Config")(**config)
    model = getattr(transformers, auto_class).from_config(made).eval()
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1 and parameter.requires_grad:
            torch.nn.init.normal_(parameter, std=spread)
        elif name.endswith("sinks"):
            torch.nn.init.normal_(parameter, std=1.0)
    model.save_pretrained(folder)
    # transformers' class for Qwen 2 always composes characters.
    (folder / "tokenizer.json").write_text(tokenizer(begins=begins, composes=library_name == "Qwen2"))
    write_json(folder / "tokenizer_config.json", {"model_max_length": 10**30, "tokenizer_class": GENERIC})
    return folder


def tokenizer(*, begins: bool, composes: bool = False) -> str:
    """A byte-level tokenizer, which may put a begin token in front of a text, and compose characters."""
    made = Tokenizer(models.BPE())
    if composes:
        made.normalizer = normalizers.NFC()
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    special = ["<pad>", "<s>", "</s>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=special, initial_alphabet=alphabet)
    made.train_from_iterator([TEXT] * 4, trainer)
    if begins:
        made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", BEGIN)])
    return str(made.to_str())


def _sizes(**changes: Any) -> dict[str, Any]:
    return {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": POSITIONS,
        "bos_token_id": BEGIN,
        "eos_token_id": END,
        "pad_token_id": 0,
        **changes,
    }


def _rotary(kind: str, **options: Any) -> Callable[[], dict[str, Any]]:
    return lambda: _sizes(rope_parameters={"rope_type": kind, "rope_theta": 10000.0, **options})


_GEMMA = {"head_dim": 16, "sliding_window": 5, "query_pre_attn_scalar": 16}
_SHORT, _LONG = [1.0, 1.1, 1.2, 1.3], [2.0, 3.0, 4.0, 5.0]

DECODERS = {
    "gpt2": Decoder(
        "GPT2",
        lambda: {
            "vocab_size": VOCABULARY,
            "n_embd": 32,
            "n_layer": 2,
            "n_head": 4,
            "n_positions": POSITIONS,
            "bos_token_id": BEGIN,
            "eos_token_id": END,
            "scale_attn_by_inverse_layer_idx": True,
        },
        begins=False,
    ),
    "llama": Decoder("Llama", _sizes),
    "llama-llama3": Decoder(
        "Llama",
        _rotary("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32),
    ),
    "llama-yarn": Decoder("Llama", _rotary("yarn", factor=4.0, original_max_position_embeddings=24)),
    "llama-linear": Decoder("Llama", _rotary("linear", factor=4.0)),
    "llama-dynamic": Decoder("Llama", _rotary("dynamic", factor=4.0)),
    "llama-longrope": Decoder(
        "Llama",
        _rotary("longrope", factor=4.0, original_max_position_embeddings=48, short_factor=_SHORT, long_factor=_LONG),
        positions=48,
    ),
    "mistral": Decoder("Mistral", lambda: _sizes(head_dim=8, sliding_window=5)),
    "mixtral": Decoder(
        "Mixtral", lambda: _sizes(head_dim=8, sliding_window=5, num_local_experts=4, num_experts_per_tok=2)
    ),
    "qwen2": Decoder("Qwen2", lambda: _sizes(use_sliding_window=True, sliding_window=5, max_window_layers=1)),
    "qwen3": Decoder("Qwen3", lambda: _sizes(head_dim=16)),
    "gemma2": Decoder("Gemma2", lambda: _sizes(**_GEMMA, attn_logit_softcapping=2.0, final_logit_softcapping=5.0)),
    "gemma3": Decoder("Gemma3Text", lambda: _sizes(**_GEMMA, layer_types=["sliding_attention", "full_attention"])),
    "gpt-oss": Decoder(
        "GptOss", lambda: _sizes(head_dim=16, sliding_window=5, num_local_experts=4, num_experts_per_tok=2)
    ),
}
