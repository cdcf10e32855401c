"""Small checkpoints with random weights, written as transformers writes them."""

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from limelight_export.importing.huggingface.importer import read_model
from limelight_models.cards.card import TrainedModel

TOKENS = 128  # the most of a sequence; with four heads its maps are large enough to be optional
HEADS = 4
WORDS = ("the", "cat", "sat", "on", "a", "mat", "dog", "ran", "where", "did")
# The class of transformers that takes tokenizer.json as it is, whatever the architecture.
GENERIC = "PreTrainedTokenizerFast"
# Special tokens in the order of their ids.
BERT = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ROBERTA = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
_ROLES = {
    BERT: {"cls": "[CLS]", "sep": "[SEP]", "pad": "[PAD]", "unk": "[UNK]", "mask": "[MASK]"},
    ROBERTA: {"cls": "<s>", "sep": "</s>", "pad": "<pad>", "unk": "<unk>", "mask": "<mask>"},
}
LETTERS = "abcdefghijklmnopqrstuvwxyz"
VOCABULARY = 5 + len(WORDS) + 2 * len(LETTERS) + 3


class Written(Protocol):
    """A checkpoint that can be written."""

    def write(self, folder: Path) -> Path: ...


# An imported model, and the same by transformers alone, by its name.
Read = Callable[[str], tuple[TrainedModel, Any]]


def reader(checkpoints: Mapping[str, Written], auto_class: Any, folders: pytest.TempPathFactory) -> Read:
    """Return a function that imports a checkpoint, and loads it by transformers alone, the first time it is called."""
    torch.set_num_threads(1)

    @cache
    def read(name: str) -> tuple[TrainedModel, Any]:
        folder = checkpoints[name].write(folders.mktemp("checkpoint") / name)
        return read_model(folder), auto_class.from_pretrained(folder, attn_implementation="eager").eval()

    return read


def tokenizer(special: tuple[str, ...] = BERT) -> str:
    """A WordPiece tokenizer that knows a few words, and reads others letter by letter."""
    roles = _ROLES[special]
    letters = [letter for letter in LETTERS if letter not in WORDS]
    pieces = [*special, *WORDS, *letters, *(f"##{letter}" for letter in LETTERS), ".", ",", "?", "!"]
    made = Tokenizer(models.WordPiece({piece: number for number, piece in enumerate(pieces)}, unk_token=roles["unk"]))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    made.add_special_tokens(list(special))
    cls, sep = roles["cls"], roles["sep"]
    made.post_processor = processors.TemplateProcessing(
        single=f"{cls} $A {sep}",
        pair=f"{cls} $A {sep} $B:1 {sep}:1",
        special_tokens=[(name, made.token_to_id(name)) for name in (cls, sep)],
    )
    assert made.get_vocab_size() == VOCABULARY
    return str(made.to_str())


def write_checkpoint(
    folder: Path, model_class: Any, config: Any, *, special: tuple[str, ...] = BERT, seed: int = 0
) -> Path:
    """Write a model with random weights and its tokenizer; weights of attention are far from uniform."""
    torch.manual_seed(seed)
    model = model_class(config).eval()
    model.save_pretrained(folder)
    (folder / "tokenizer.json").write_text(tokenizer(special))
    roles = {f"{role}_token": token for role, token in _ROLES[special].items()}
    write_json(folder / "tokenizer_config.json", {"model_max_length": TOKENS, "tokenizer_class": GENERIC, **roles})
    return folder


def write_json(path: Path, content: object) -> None:
    """Write a JSON file, its folder included."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def stated_pooling(folder: Path, *, normalised: bool = True) -> None:
    """Write sentence-transformers' files of a model with the mean of its tokens, of length 1 or as it is."""
    names = {"Transformer": "", "Pooling": "1_Pooling", "Normalize": "2_Normalize"}
    modules = [{"type": f"sentence_transformers.models.{name}", "path": path} for name, path in names.items()]
    write_json(folder / "modules.json", modules if normalised else modules[:-1])
    write_json(folder / "1_Pooling" / "config.json", {"pooling_mode_mean_tokens": True})


def change_config(folder: Path, **fields: object) -> None:
    """Change fields of a checkpoint's configuration."""
    content = json.loads((folder / "config.json").read_text())
    write_json(folder / "config.json", content | fields)


def sizes(**changes: Any) -> dict[str, Any]:
    """The sizes of a small model, by the names that most configurations use."""
    return {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": HEADS,
        "intermediate_size": 48,
        "max_position_embeddings": TOKENS,
        "initializer_range": 0.3,
        "num_labels": 3,
        **changes,
    }
