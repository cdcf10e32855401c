"""Token ids of imported models are those of transformers' own tokenizers, or the import is refused with the cause."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers.convert_slow_tokenizer import import_protobuf

from limelight_bundle.text import Encoder
from limelight_bundle.tokenizer_files import load_tokenizer
from limelight_bundle.values import Text
from limelight_export.errors import CheckpointError
from limelight_export.importing.huggingface.checkpoint import read_checkpoint
from limelight_export.importing.huggingface.importer import read_model
from limelight_export.importing.huggingface.text import OUTPUT_TOKENIZER
from limelight_export.importing.huggingface.tokenizer_conversion import with_tokenizer
from limelight_models.cards.card import TrainedModel
from tests.importing.huggingface import test_siglip
from tests.importing.huggingface.checkpoints import write_json
from tests.importing.huggingface.decoders import DECODERS
from tests.importing.huggingface.encoder_decoders import ENCODER_DECODERS
from tests.importing.huggingface.encoders import ENCODERS


def settings(folder: Path, **changes: Any) -> None:
    """Change tokenizer_config.json; None leaves a field out."""
    stated = json.loads((folder / "tokenizer_config.json").read_text()) | changes
    write_json(folder / "tokenizer_config.json", {name: each for name, each in stated.items() if each is not None})


def ids(trained: TrainedModel, text: str) -> list[int]:
    found: list[int] = trained.card.preprocessor().row({"text": Text(text)}).tensors["token_ids"].tolist()
    return found


BERT = {"tokenizer_class": "BertTokenizer"}
GPT2 = {"tokenizer_class": "GPT2Tokenizer"}
CAT = {"content": "cat", "special": False, "lstrip": False, "rstrip": False, "normalized": False, "single_word": False}


@pytest.mark.parametrize(
    ("name", "stated", "changes"),
    [
        ("bert", BERT, {"do_lower_case": False}),
        ("bert", BERT, {"strip_accents": False}),
        ("bert", BERT, {"tokenize_chinese_chars": False}),
        ("bert", BERT, {"split_special_tokens": True}),
        ("bert", BERT, {"additional_special_tokens": ["mat"]}),
        ("bert", BERT, {"added_tokens_decoder": {"69": CAT}}),
        ("bert", {}, {"tokenizer_class": "GPT2Tokenizer"}),
        ("gpt2", GPT2, {"add_prefix_space": True}),
        ("gpt2", {}, {"extra_special_tokens": ["mat"]}),
    ],
)
def test_settings_that_make_other_tokens_are_refused_as_the_cause(
    tmp_path: Path, name: str, stated: dict[str, Any], changes: dict[str, Any]
) -> None:
    folder = {**ENCODERS, **DECODERS}[name].write(tmp_path / "small")
    settings(folder, **stated)
    read_model(folder)
    settings(folder, **changes)
    with pytest.raises(CheckpointError, match=rf"tokenizer_config\.json states {next(iter(changes))} ") as caught:
        read_model(folder)
    assert "was the model trained with?" in caught.value.message


def test_settings_that_make_a_difference_together_are_all_named(tmp_path: Path) -> None:
    folder = ENCODERS["bert"].write(tmp_path / "small")
    settings(folder, **BERT, additional_special_tokens=["cat"], added_tokens_decoder={"69": CAT}, strip_accents=None)
    both = r"states added_tokens_decoder \{.*…, additional_special_tokens \['cat'\], without which both are the same"
    with pytest.raises(CheckpointError, match=both):
        read_model(folder)


def test_settings_that_change_no_token_are_no_reason_to_refuse(tmp_path: Path) -> None:
    folder = ENCODERS["bert"].write(tmp_path / "small")
    settings(folder, **BERT, do_lower_case=True, padding_side="left", clean_up_tokenization_spaces=True, note=None)
    read_model(folder)


def test_a_class_that_makes_another_tokenizer_of_the_vocabulary_is_the_cause(tmp_path: Path) -> None:
    """That of RoBERTa makes byte pairs of a vocabulary of word pieces."""
    folder = ENCODERS["roberta"].write(tmp_path / "small")
    settings(folder, tokenizer_class=None)
    with pytest.raises(CheckpointError) as caught:
        read_model(folder)
    assert caught.value.message == (
        "of the text 'The cat sat on the mat.' tokenizer.json makes the token 'the' (5) in place of 'h' (21) at 2, as "
        "transformers' RobertaTokenizer reads it; that class builds its own tokenizer of the vocabulary: where "
        "tokenizer.json is right, state tokenizer_class PreTrainedTokenizerFast in tokenizer_config.json"
    )
    settings(folder, tokenizer_class="PreTrainedTokenizerFast")
    read_model(folder)


def test_pairs_are_compared_with_their_segments(tmp_path: Path) -> None:
    folder = ENCODERS["bert"].write(tmp_path / "small")
    content = json.loads((folder / "tokenizer.json").read_text())
    content["post_processor"]["pair"][3]["Sequence"]["type_id"] = 0
    (folder / "tokenizer.json").write_text(json.dumps(content))
    settings(folder, **BERT)
    read_model(folder)
    with pytest.raises(CheckpointError, match=r"'Where did the CAT sit\?' and .* makes other segments") as caught:
        read_model(folder, task="cross-encoder")
    assert "state tokenizer_class PreTrainedTokenizerFast" in caught.value.message


def test_a_class_that_cannot_be_made_of_the_files_is_no_reason_to_refuse(tmp_path: Path) -> None:
    """ALBERT's needs pieces of SentencePiece; nobody can have used it with these files."""
    folder = ENCODERS["albert"].write(tmp_path / "small")
    settings(folder, tokenizer_class=None)
    read_model(folder)
    settings(folder, tokenizer_class="Unheard")
    read_model(folder)


def test_a_tokenizer_that_is_a_program_is_refused(tmp_path: Path) -> None:
    """RoFormer's, unless the model was trained with another."""
    folder = ENCODERS["roformer"].write(tmp_path / "small")
    for tokenizer_class in ("RoFormerTokenizer", "RoFormerTokenizerFast", None):
        settings(folder, tokenizer_class=tokenizer_class)
        with pytest.raises(CheckpointError, match=r"dictionary of jieba, which no tokenizer\.json can hold"):
            read_model(folder)
    settings(folder, **BERT)
    read_model(folder)


EARLY = {
    "tokenizer.json": "has no tokenizer.json, and no vocabulary that is converted (vocab.txt; vocab.json and",
    "model.safetensors": "has no model.safetensors",
    "config.json": "has no config.json",
    "rope_interleaved": "states rope_interleaved 2, which is not classified for llama",
    "broken": "tokenizer.json: the tokenizer file is invalid",
}


def test_files_and_fields_are_checked_before_the_libraries_are_imported(tmp_path: Path) -> None:
    whole = DECODERS["llama"].write(tmp_path / "whole")
    for change in EARLY:
        folder = Path(shutil.copytree(whole, tmp_path / change))
        if change == "broken":
            (folder / "tokenizer.json").write_text('{"model": {}}')
        elif (folder / change).exists():
            (folder / change).unlink()
        else:
            write_json(folder / "config.json", json.loads((folder / "config.json").read_text()) | {change: 2})
    program = (
        "import sys\nfrom limelight.cli import main\nfor folder in sys.argv[1:]:\n"
        "    assert main(['import', 'hf', folder, '--repository', 'none']) == 1\n"
        "print(sorted({'torch', 'transformers', 'onnxruntime'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", program, *(str(tmp_path / change) for change in EARLY)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for message, line in zip(EARLY.values(), done.stderr.splitlines(), strict=True):
        assert message in line
    assert done.stdout == "[]\n"


# Vocabularies that are converted.
PIECES = {
    "\u2581": -3.0,
    "\u2581the": -2.0,
    "\u2581cat": -4.0,
    "\u2581sat": -4.5,
    "\u2581c": -5.0,
    "at": -3.2,
    "s": -4.0,
    "e": -4.1,
    "th": -4.2,
    "\u00e9": -6.0,
    **{letter: -7.0 - number / 10 for number, letter in enumerate("abcdfghijklmnopqrtuvwxyz.")},
}


def pieces(scores: dict[str, float], special: tuple[str, ...] = ("<unk>", "<s>", "</s>")) -> bytes:
    """A model of SentencePiece, a unigram model without a character map."""
    made: Any = import_protobuf().ModelProto()
    for number, each in enumerate(special):
        made.pieces.add(piece=each, score=0.0, type=2 if each == "<unk>" else 3)
        if each == "<unk>":
            made.trainer_spec.unk_id = number
    for piece, score in scores.items():
        made.pieces.add(piece=piece, score=score, type=1)
    made.trainer_spec.model_type = 1
    content: bytes = made.SerializeToString()
    return content


def best(text: str, scores: dict[str, float]) -> list[str]:
    """The most probable pieces of a text, by trying every division."""
    whole = "\u2581" + text.strip().replace(" ", "\u2581")
    found: list[tuple[float, list[str]]] = [(0.0, [])]
    for end in range(1, len(whole) + 1):
        ways = [
            (found[begin][0] + scores[whole[begin:end]], [*found[begin][1], whole[begin:end]])
            for begin in range(end)
            if whole[begin:end] in scores and np.isfinite(found[begin][0])
        ]
        found.append(max(ways, default=(-np.inf, [])))
    return found[-1][1]


TEXTS = ("the cat sat", "the  caf\u00e9 ", " that tease. the cat", "a")


def marian(folder: Path) -> tuple[Path, dict[str, int], dict[str, float]]:
    """Write a checkpoint with Marian's own files: the source and the output have pieces of their own."""
    of_output = {**PIECES, "\u2581cats": -3.0, "ca": -2.5}
    names = ["</s>", "<unk>", *sorted({*PIECES, *of_output}, reverse=True), ">>deu<<", "<pad>"]
    numbers = {name: number for number, name in enumerate(names)}
    ids = {"pad_token_id": numbers["<pad>"], "eos_token_id": 0, "decoder_start_token_id": numbers["<pad>"]}
    ENCODER_DECODERS["marian"].write(folder, vocab_size=len(names), **ids)
    (folder / "tokenizer.json").unlink()
    (folder / "source.spm").write_bytes(pieces(PIECES))
    (folder / "target.spm").write_bytes(pieces(of_output))
    write_json(folder / "vocab.json", numbers)
    write_json(folder / "tokenizer_config.json", {"source_lang": "en", "target_lang": "de"})
    return folder, numbers, of_output


def test_marians_own_files_are_converted(tmp_path: Path) -> None:
    folder, numbers, of_output = marian(tmp_path / "marian")
    checkpoint = with_tokenizer(read_checkpoint(folder))
    for name, scores in (("tokenizer.json", PIECES), (OUTPUT_TOKENIZER, of_output)):
        text = checkpoint.text(name)
        assert text is not None
        encoder, loaded = Encoder(text, special_tokens=True), load_tokenizer(text)
        for each in TEXTS:
            expected = best(" ".join(each.split()), scores)
            assert list(encoder.encode([each])[0].ids) == [*(numbers[piece] for piece in expected), numbers["</s>"]]
            assert loaded.decode(list(encoder.encode([each])[0].ids)) == " ".join(each.split())
        code = [numbers[">>deu<<"], *(numbers[piece] for piece in best("a", scores)), numbers["</s>"]]
        assert list(encoder.encode([">>deu<< a"])[0].ids) == code
        assert numbers["<unk>"] in encoder.encode(["\u732b"])[0].ids
    both = {}
    for name in ("tokenizer.json", OUTPUT_TOKENIZER):
        text = checkpoint.text(name)
        assert text is not None
        both[name] = list(Encoder(text).encode(["cats"])[0].ids)
    assert both["tokenizer.json"] != both[OUTPUT_TOKENIZER] == [numbers["\u2581cats"]]
    card = read_model(folder).card
    assert card.generation is not None
    assert card.generation.tokenizer == OUTPUT_TOKENIZER


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("source.spm", None, "no vocabulary that is converted (source.spm and target.spm and vocab.json)"),
        ("source.spm", b"", "source.spm is a model of SentencePiece without pieces"),
        ("target.spm", b"\xff" * 40, "target.spm is not a model of SentencePiece"),
        ("vocab.json", b"{}", "vocab.json of the checkpoint has no token <unk>"),
        ("vocab.json", b'{"<unk>": 0, "</s>": 7}', "does not number its tokens from 0 on"),
        ("vocab.json", b'{"<unk>": 0, "</s>": 1}', "source.spm is not a unigram model with pieces of vocab.json"),
    ],
)
def test_files_of_marian_that_cannot_be_converted_are_refused(
    tmp_path: Path, file: str, content: bytes | None, message: str
) -> None:
    folder, *_ = marian(tmp_path / "marian")
    if content is None:
        (folder / file).unlink()
    else:
        (folder / file).write_bytes(content)
    with pytest.raises(CheckpointError) as caught:
        read_model(folder)
    assert message in caught.value.message


@pytest.mark.parametrize("name", ["t5", "albert", "big_bird"])
def test_pieces_of_other_architectures_are_converted_by_transformers(tmp_path: Path, name: str) -> None:
    folder = {**ENCODERS, **ENCODER_DECODERS}[name].write(tmp_path / "small")
    (folder / "tokenizer.json").unlink()
    special = ("<pad>", "</s>", "<unk>") if name == "t5" else ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
    (folder / "spiece.model").write_bytes(pieces(PIECES, special))
    roles = {"extra_ids": 0} if name == "t5" else {"unk_token": "<unk>", "pad_token": "<pad>"}
    write_json(folder / "tokenizer_config.json", roles)
    numbers = {piece: number for number, piece in enumerate((*special, *PIECES))}
    found = ids(read_model(folder), "the cat sat")
    expected = [numbers[each] for each in best("the cat sat", PIECES)]
    assert found == ([*expected, 1] if name == "t5" else [2, *expected, 3])


def test_pieces_of_siglip_are_converted_to_a_tokenizer_without_capitals_and_punctuation(tmp_path: Path) -> None:
    folder, special = test_siglip.write(tmp_path / "siglip"), ("<pad>", "</s>", "<unk>")
    settings(folder, tokenizer_class="SiglipTokenizer", pad_token="</s>")
    (folder / "spiece.model").write_bytes(pieces(PIECES, special))
    numbers = {piece: number for number, piece in enumerate((*special, *PIECES))}
    trained = read_model(folder, task="text-embedding")
    for text in ("The CAT, sat!", " the  cat's sat", "(the cat sat)", "the\u2581cat sat."):
        plain = "the cats sat" if "'" in text else "the cat sat"
        found = ids(trained, text)
        expected = [*(numbers[each] for each in best(plain, PIECES)), 1]
        assert found == [*expected, *[1] * (test_siglip.POSITIONS - len(expected))]


def test_a_vocabulary_of_word_pieces_is_converted_where_it_is_the_architectures(tmp_path: Path) -> None:
    whole = ENCODERS["bert"].write(tmp_path / "whole")
    vocabulary = json.loads((whole / "tokenizer.json").read_text())["model"]["vocab"]
    lines = "\n".join(sorted(vocabulary, key=vocabulary.__getitem__)) + "\n"
    folder = ENCODERS["bert"].write(tmp_path / "small")
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").write_text(lines)
    settings(folder, **BERT)
    text = "The cat sat on the mat."
    assert ids(read_model(folder), text) == ids(read_model(whole), text)
    other = ENCODERS["albert"].write(tmp_path / "other")
    (other / "tokenizer.json").unlink()
    (other / "vocab.txt").write_text(lines)
    settings(other, tokenizer_class=None)
    with pytest.raises(
        CheckpointError, match=r"AlbertTokenizer.*spiece\.model|cannot convert its vocabulary"
    ) as caught:
        read_model(other)
    assert "spiece.model" in caught.value.message
