"""A sentence encoder of MiniLM's shape with random weights, as a checkpoint of Hugging Face, and texts for it."""

import json
import random
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel

from benchmarks.records import ROOT
from limelight_export.importing.huggingface.importer import import_checkpoint
from limelight_export.importing.huggingface.tasks.task import ImportOptions

NAME = "sentences"
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_VOCABULARY = 30_522  # as BERT has it
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def checkpoint(folder: Path, layers: int = 6) -> Path:
    """Write a model of 12 heads and 384 features, with its tokenizer."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=_VOCABULARY,
        hidden_size=384,
        num_hidden_layers=layers,
        num_attention_heads=12,
        intermediate_size=1536,
        max_position_embeddings=512,
    )
    BertModel(config).eval().save_pretrained(folder)
    made = Tokenizer(models.WordPiece({word: place for place, word in enumerate(_words())}, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.add_special_tokens(list(_SPECIAL))
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[(each, made.token_to_id(each)) for each in ("[CLS]", "[SEP]")]
    )
    made.save(str(folder / "tokenizer.json"))
    names = {"model_max_length": 512, "tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "[PAD]"}
    kinds = (
        {"idx": place, "name": str(place), "path": path, "type": f"sentence_transformers.models.{each}"}
        for place, (each, path) in enumerate(_MODULES)
    )
    files = {
        "tokenizer_config.json": {**names, "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"},
        "modules.json": list(kinds),
        "1_Pooling/config.json": {"word_embedding_dimension": 384, "pooling_mode_mean_tokens": True},
    }
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(content))
    return folder


_MODULES = (("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize"))


def imported(layers: int = 6) -> tuple[Path, Path]:
    """Give the checkpoint and a repository with its bundle, below build/, made once."""
    folder = ROOT / "build" / "benchmarks-sentences" / str(layers)
    repository = folder / "repository"
    if not repository.exists():
        folder.mkdir(parents=True, exist_ok=True)
        import_checkpoint(checkpoint(folder / "checkpoint", layers), repository, options=ImportOptions(name=NAME))
    return folder / "checkpoint", repository


def texts(count: int, words: int = 20) -> list[str]:
    """Make texts of so many words, each a token."""
    chance, known = random.Random(1), _words()[len(_SPECIAL) :]
    return [" ".join(chance.choices(known, k=words)) for _ in range(count)]


def _words() -> list[str]:
    """List the vocabulary: made-up words of four letters after the special tokens."""
    made = (a + b + c + d for a in _LETTERS for b in "aeiou" for c in _LETTERS for d in "aeiouylrns")
    return [*_SPECIAL, *(word for word, _ in zip(made, range(_VOCABULARY - len(_SPECIAL)), strict=False))]
