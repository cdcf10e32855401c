"""A small configuration of every encoder–decoder that can be imported."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.importing.huggingface.decoders import BEGIN, END, VOCABULARY, write_generating

POSITIONS = 64


@dataclass(frozen=True)
class EncoderDecoder:
    """An encoder–decoder: its name in transformers' classes, its configuration, and how far weights spread."""

    library_name: str
    config: Callable[[], dict[str, Any]]
    spread: float = 0.3

    def write(self, folder: Path, **changes: Any) -> Path:
        """Write a checkpoint with random weights."""
        config = self.config() | changes
        return write_generating(folder, self.library_name, "AutoModelForSeq2SeqLM", config, spread=self.spread)


def _bart(**changes: Any) -> dict[str, Any]:
    return {
        "vocab_size": VOCABULARY,
        "d_model": 32,
        "encoder_layers": 2,
        "decoder_layers": 3,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 48,
        "decoder_ffn_dim": 40,
        "max_position_embeddings": POSITIONS,
        "pad_token_id": 0,
        "bos_token_id": BEGIN,
        "eos_token_id": END,
        "decoder_start_token_id": END,
        **changes,
    }


def _t5(**changes: Any) -> dict[str, Any]:
    return {
        "vocab_size": VOCABULARY,
        "d_model": 32,
        "d_kv": 8,
        "d_ff": 48,
        "num_layers": 2,
        "num_decoder_layers": 3,
        "num_heads": 4,
        "relative_attention_num_buckets": 8,
        "relative_attention_max_distance": 16,
        "pad_token_id": 0,
        "eos_token_id": END,
        "decoder_start_token_id": 0,
        **changes,
    }


ENCODER_DECODERS = {
    "t5": EncoderDecoder("T5", _t5, spread=0.15),
    "t5-gated": EncoderDecoder(
        "T5", lambda: _t5(feed_forward_proj="gated-gelu", tie_word_embeddings=False), spread=0.15
    ),
    "bart": EncoderDecoder("Bart", _bart),
    "bart-scaled": EncoderDecoder("Bart", lambda: _bart(scale_embedding=True)),
    "marian": EncoderDecoder("Marian", lambda: _bart(scale_embedding=True, decoder_start_token_id=0)),
}
