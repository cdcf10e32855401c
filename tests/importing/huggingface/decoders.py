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
        elif name.endswith(("bias", "sinks")):
            torch.nn.init.normal_(parameter, std=1.0 if name.endswith("sinks") else spread)
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


def _named(
    positions: str,
    hidden: str = "hidden_size",
    layers: str = "num_hidden_layers",
    heads: str = "num_attention_heads",
    **changes: Any,
) -> dict[str, Any]:
    """Sizes by the names of a configuration."""
    named = {positions: POSITIONS, hidden: 32, layers: 2, heads: 4}
    return {"vocab_size": VOCABULARY, "bos_token_id": BEGIN, "eos_token_id": END, "pad_token_id": 0, **named, **changes}


def _latent(mlp: int, **changes: Any) -> dict[str, Any]:
    """Sizes of a model with latent attention. mlp: layers without experts."""
    return _sizes(
        num_key_value_heads=4,
        kv_lora_rank=10,
        qk_rope_head_dim=4,
        qk_nope_head_dim=6,
        v_head_dim=8,
        moe_intermediate_size=24,
        n_routed_experts=8,
        num_experts_per_tok=2,
        n_group=4,
        topk_group=2,
        first_k_dense_replace=mlp,
        **changes,
    )


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
    "phi3": Decoder("Phi3", lambda: _sizes(sliding_window=5)),
    "phi3-longrope": Decoder(
        "Phi3",
        lambda: _sizes(
            original_max_position_embeddings=48,
            partial_rotary_factor=0.5,
            rope_parameters={"rope_type": "longrope", "short_factor": _SHORT[:2], "long_factor": _LONG[:2]},
        ),
        positions=48,
    ),
    "gpt-neox": Decoder("GPTNeoX", lambda: _named("max_position_embeddings", intermediate_size=48)),
    "gpt-neox-in-turn": Decoder(
        "GPTNeoX",
        lambda: _named(
            "max_position_embeddings",
            intermediate_size=48,
            rotary_pct=1.0,
            use_parallel_residual=False,
            attention_bias=False,
        ),
    ),
    "olmo": Decoder("Olmo", lambda: _sizes(clip_qkv=1.5)),
    "olmo2": Decoder("Olmo2", _sizes),
    "granite": Decoder(
        "Granite",
        lambda: _sizes(
            embedding_multiplier=3.0,
            attention_multiplier=0.2,
            residual_multiplier=0.4,
            logits_scaling=4.0,
            mlp_bias=True,
        ),
    ),
    "cohere": Decoder("Cohere", lambda: _sizes(logit_scale=0.25)),
    "cohere-normed": Decoder(
        "Cohere", lambda: _sizes(use_qk_norm=True, attention_bias=True, tie_word_embeddings=False)
    ),
    "opt": Decoder("OPT", lambda: _named("max_position_embeddings", ffn_dim=48)),
    "opt-behind": Decoder(
        "OPT", lambda: _named("max_position_embeddings", ffn_dim=48, do_layer_norm_before=False, enable_bias=False)
    ),
    "gpt-bigcode": Decoder("GPTBigCode", lambda: _named("n_positions", "n_embd", "n_layer", "n_head")),
    "gpt-bigcode-heads": Decoder(
        "GPTBigCode",
        lambda: _named("n_positions", "n_embd", "n_layer", "n_head", multi_query=False, scale_attn_weights=False),
    ),
    "starcoder2": Decoder("Starcoder2", lambda: _sizes(sliding_window=5)),
    "smollm3": Decoder(
        "SmolLM3", lambda: _sizes(no_rope_layers=[1, 0], use_sliding_window=True, sliding_window=5, attention_bias=True)
    ),
    "glm": Decoder("Glm", lambda: _sizes(head_dim=16)),
    "nemotron": Decoder("Nemotron", lambda: _sizes(head_dim=16)),
    "biogpt": Decoder("BioGpt", lambda: _named("max_position_embeddings", intermediate_size=48)),
    "deepseek-v3": Decoder("DeepseekV3", lambda: _latent(q_lora_rank=12, mlp=1)),
    "deepseek-v3-yarn": Decoder(
        "DeepseekV3",
        lambda: _latent(
            q_lora_rank=None,
            mlp=2,
            attention_bias=True,
            rope_interleave=False,
            rope_parameters={
                "rope_type": "yarn",
                "factor": 4.0,
                "original_max_position_embeddings": 24,
                "mscale": 1.0,
                "mscale_all_dim": 1.0,
            },
        ),
    ),
    "gpt-neo": Decoder(
        "GPTNeo",
        lambda: _named(
            "max_position_embeddings",
            "hidden_size",
            "num_layers",
            "num_heads",
            attention_types=[[["global", "local"], 1]],
            window_size=5,
        ),
        begins=False,
    ),
    "gptj": Decoder("GPTJ", lambda: _named("n_positions", "n_embd", "n_layer", "n_head", rotary_dim=4), begins=False),
    # Slopes of a number of heads that is no power of two; the other kind of residuals.
    "bloom": Decoder(
        "Bloom",
        lambda: (
            _named("seq_length", "hidden_size", "n_layer", "n_head", n_head=3, hidden_size=24)
            | {"apply_residual_connection_post_layernorm": True}
        ),
        begins=False,
    ),
    "xglm": Decoder(
        "XGLM", lambda: _named("max_position_embeddings", "d_model", "num_layers", "attention_heads", ffn_dim=48)
    ),
    "mpt": Decoder(
        "Mpt",
        lambda: _named(
            "max_seq_len", "d_model", "n_layers", "n_heads", attn_config={"clip_qkv": 1.5, "softmax_scale": 0.6}
        ),
        begins=False,
    ),
    "mpt-heads": Decoder(
        "Mpt", lambda: _named("max_seq_len", "d_model", "n_layers", "n_heads", d_model=24, n_heads=3), begins=False
    ),
}
