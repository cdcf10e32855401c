"""Conversion of vocabularies to tokenizer.json: by transformers, and here for Marian, ESM and SigLIP."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from limelight_export.errors import CheckpointError
from limelight_export.importing.huggingface.checkpoint import TOKENIZER, TOKENIZER_CONFIG, Checkpoint
from limelight_export.importing.huggingface.library_tokenizer import load_library_tokenizer
from limelight_export.importing.huggingface.loading import first_line
from limelight_export.importing.huggingface.text import OUTPUT_TOKENIZER, SENTENCEPIECE_FILES

_SIGLIP = "spiece.model"
_MARIAN = {TOKENIZER: "source.spm", OUTPUT_TOKENIZER: "target.spm"}
# SentencePiece's kind of a piece of text; others are its unknown, control and unused pieces.
_NORMAL, _USER_DEFINED = 1, 4


def with_tokenizer(checkpoint: Checkpoint) -> Checkpoint:
    """Return the checkpoint with a tokenizer.json: its own, or one that is made of its vocabulary.

    Raises:
        CheckpointError: files are missing, or cannot be converted.
    """
    if _is_siglip(checkpoint) and checkpoint.file(_SIGLIP) is not None:
        return replace(checkpoint, made={TOKENIZER: _convert_siglip(checkpoint)})
    if checkpoint.text(TOKENIZER) is not None:
        return checkpoint
    if checkpoint.model_type == "marian":
        made = {name: _convert_marian(checkpoint, source) for name, source in _MARIAN.items()}
    elif checkpoint.model_type == "esm":
        made = {TOKENIZER: _convert_esm(checkpoint)}
    else:
        made = {TOKENIZER: _convert_by_library(checkpoint)}
    return replace(checkpoint, made=made)


def _is_siglip(checkpoint: Checkpoint) -> bool:
    """Whether a checkpoint has the tokenizer of SigLIP; SigLIP 2, of the same modules, has another."""
    stated = checkpoint.table(TOKENIZER_CONFIG).get("tokenizer_class")
    return checkpoint.model_type == "siglip" and stated in (None, "SiglipTokenizer")


def _convert_by_library(checkpoint: Checkpoint) -> str:
    for name in SENTENCEPIECE_FILES:
        if checkpoint.file(name) is not None:
            _read_sentencepiece(checkpoint, name)
    try:
        with _without_sentencepiece():
            library = load_library_tokenizer(checkpoint.folder)
    except Exception as error:  # transformers raises many types
        raise CheckpointError(
            f"the checkpoint has no {TOKENIZER}, and transformers cannot convert its vocabulary: {first_line(error)}"
        ) from error
    kind = type(library)
    wanted = [name for role, name in kind.vocab_files_names.items() if role != "tokenizer_file"]
    missing = [name for name in wanted if checkpoint.file(name) is None]
    # Of a missing file transformers makes a tokenizer without a vocabulary.
    if missing or not hasattr(library, "backend_tokenizer"):
        raise CheckpointError(
            f"the checkpoint has no {TOKENIZER}, and transformers' {kind.__name__} converts "
            f"{' and '.join(wanted) or 'nothing else'}; the folder lacks {' and '.join(missing) or 'none'}: "
            "write the tokenizer that the model was trained with as tokenizer.json (docs/import.md, Tokenizers)"
        )
    return str(library.backend_tokenizer.to_str())


@contextmanager
def _without_sentencepiece() -> Iterator[None]:
    """Let transformers read pieces without the package sentencepiece, which it asks for and does not use."""
    library: Any = import_module("transformers.convert_slow_tokenizer")

    class Extractor(library.SentencePieceExtractor):  # type: ignore[misc]
        """Reads pieces by their protocol alone."""

        def __init__(self, model: str) -> None:
            self.proto = library.import_protobuf().ModelProto()
            self.proto.ParseFromString(Path(model).read_bytes())

    before = library.SentencePieceExtractor
    library.SentencePieceExtractor = Extractor
    try:
        yield
    finally:
        library.SentencePieceExtractor = before


def _convert_marian(checkpoint: Checkpoint, source: str) -> str:
    """Make a tokenizer of SentencePiece's pieces and scores, with the ids of vocab.json.

    A piece that vocab.json lacks is read in smaller ones, and a character without a piece is unknown. An id that has no
    piece gets one that no text has.
    """
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    vocabulary = checkpoint.table("vocab.json")
    if sorted(map(repr, vocabulary.values())) != sorted(map(repr, range(len(vocabulary)))):
        raise CheckpointError("vocab.json of the checkpoint does not number its tokens from 0 on")
    settings = checkpoint.table(TOKENIZER_CONFIG)
    unknown, end, padding = (
        _content(settings.get(f"{role}_token"), default)
        for role, default in (("unk", "<unk>"), ("eos", "</s>"), ("pad", "<pad>"))
    )
    if missing := [each for each in (unknown, end) if each not in vocabulary]:
        raise CheckpointError(f"vocab.json of the checkpoint has no token {missing[0]}")
    pieces = _read_sentencepiece(checkpoint, source)
    scores = {
        each.piece: each.score
        for each in pieces.pieces
        if each.type in (_NORMAL, _USER_DEFINED) and each.piece in vocabulary
    }
    if pieces.trainer_spec.model_type != 1 or not scores:
        raise CheckpointError(f"{source} is not a unigram model with pieces of vocab.json")
    rules = pieces.normalizer_spec
    if not (rules.add_dummy_prefix and rules.remove_extra_whitespaces):
        raise CheckpointError(f"{source} states other rules of spaces than Marian's models have")
    least = min(scores.values())
    by_id = sorted(vocabulary, key=vocabulary.__getitem__)
    # A space never reaches the model, which gets ▁ in its place.
    entries = [(token, scores[token]) if token in scores else (f" {token}", least) for token in by_id]
    special = [each for each in dict.fromkeys((unknown, end, padding)) if each in vocabulary]
    languages = [token for token in by_id if token.startswith(">>") and token.endswith("<<")]
    for token in (*special, *languages):
        entries[vocabulary[token]] = (token, least)
    made = Tokenizer(models.Unigram(entries, unk_id=vocabulary[unknown]))
    charsmap = rules.precompiled_charsmap
    spaces = normalizers.Replace(Regex(" {2,}"), " ")
    steps = [normalizers.Precompiled(charsmap)] if charsmap else []
    made.normalizer = normalizers.Sequence([*steps, normalizers.Strip(), spaces])
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=False)
    made.decoder = decoders.Sequence(
        [decoders.Replace(" ", ""), decoders.Metaspace(prepend_scheme="always", split=False)]
    )
    made.post_processor = processors.TemplateProcessing(
        single=f"$A {end}", pair=f"$A $B {end}", special_tokens=[(end, vocabulary[end])]
    )
    made.add_special_tokens([AddedToken(token, normalized=False) for token in special])
    made.add_special_tokens([AddedToken(token, normalized=False, rstrip=True) for token in languages])
    return str(made.to_str())


def _convert_siglip(checkpoint: Checkpoint) -> str:
    """Make a tokenizer of SentencePiece's pieces that reads texts as `SiglipTokenizer`: in lower case, unpunctuated.

    A tokenizer.json beside them does not, where it was made by the rules of T5. Of a text that holds special tokens,
    each part between them begins a word here; a capital sigma becomes the same letter wherever it stands.
    """
    from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

    pieces, settings = _read_sentencepiece(checkpoint, _SIGLIP), checkpoint.table(TOKENIZER_CONFIG)
    unknown, end = (
        _content(settings.get(f"{role}_token"), default) for role, default in (("unk", "<unk>"), ("eos", "</s>"))
    )
    numbers = {each.piece: number for number, each in enumerate(pieces.pieces)}
    if missing := [each for each in (unknown, end) if each not in numbers]:
        raise CheckpointError(f"{_SIGLIP} has no piece {missing[0]}")
    if pieces.trainer_spec.model_type != 1:
        raise CheckpointError(f"{_SIGLIP} is not a unigram model")
    made = Tokenizer(models.Unigram([(each.piece, each.score) for each in pieces.pieces], unk_id=numbers[unknown]))
    charsmap, spaces = pieces.normalizer_spec.precompiled_charsmap, normalizers.Replace(Regex(" {2,}"), " ")
    steps = [
        normalizers.Replace("\u2581", " "),
        *([normalizers.Lowercase()] if settings.get("do_lower_case", True) else []),
        normalizers.Replace(Regex(r"[!-/:-@\[-`{-~]"), ""),
        normalizers.Replace(Regex(r"\s+"), " "),
        *([normalizers.Precompiled(charsmap)] if charsmap else []),
        spaces,
        normalizers.Strip(),
    ]
    made.normalizer = normalizers.Sequence(steps)
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=False)
    made.post_processor = processors.TemplateProcessing(
        single=f"$A {end}", pair=f"$A {end} $B {end}", special_tokens=[(end, numbers[end])]
    )
    made.add_special_tokens([AddedToken(each, normalized=False, lstrip=True, rstrip=True) for each in (unknown, end)])
    return str(made.to_str())


def _convert_esm(checkpoint: Checkpoint) -> str:
    """Make a tokenizer of the lines of vocab.txt, each a residue or a special token wherever it stands in a text.

    What stands between them is unknown, as one token up to the next space.
    """
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, processors

    lines = (checkpoint.text("vocab.txt") or "").splitlines()
    vocabulary = {line.strip(): number for number, line in enumerate(lines)}
    settings = checkpoint.table(TOKENIZER_CONFIG)
    begin, padding, end, unknown, mask = (
        _content(settings.get(f"{role}_token"), f"<{role}>") for role in ("cls", "pad", "eos", "unk", "mask")
    )
    special = (begin, padding, end, unknown, mask)
    if missing := [each for each in special if each not in vocabulary]:
        raise CheckpointError(f"vocab.txt of the checkpoint has no token {missing[0]}")
    made = Tokenizer(models.WordLevel(vocabulary, unk_token=unknown))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.post_processor = processors.TemplateProcessing(
        single=f"{begin} $A {end}",
        pair=f"{begin} $A {end} $B {end}",
        special_tokens=[(each, vocabulary[each]) for each in (begin, end)],
    )
    made.add_special_tokens([AddedToken(token, normalized=False) for token in special])
    made.add_tokens([AddedToken(token, normalized=False) for token in vocabulary if token not in special])
    return str(made.to_str())


def _read_sentencepiece(checkpoint: Checkpoint, name: str) -> Any:
    """Read the pieces of a model of SentencePiece. Raises CheckpointError where it is none."""
    from google.protobuf.message import DecodeError
    from transformers.convert_slow_tokenizer import import_protobuf

    path = checkpoint.file(name)
    read: Any = import_protobuf().ModelProto()
    try:
        read.ParseFromString(b"" if path is None else path.read_bytes())
    except DecodeError as error:
        raise CheckpointError(f"{name} is not a model of SentencePiece; the checkpoint needs a {TOKENIZER}") from error
    if not read.pieces:
        raise CheckpointError(f"{name} is a model of SentencePiece without pieces")
    return read


def _content(stated: Any, default: str) -> str:
    found = stated.get("content") if isinstance(stated, Mapping) else stated
    return found if isinstance(found, str) else default
