"""The tokenizer that transformers makes of a checkpoint: what a served model's token ids are compared with.

transformers 5 does not take tokenizer.json as it is: many classes take its vocabulary alone, and build the rest by
tokenizer_config.json. Both files are of the checkpoint, and where they contradict each other, one of them gives the
model tokens that it was not trained with.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from limelight_bundle.text import Encoder
from limelight_bundle.tokenizer_files import load_tokenizer
from limelight_export.errors import CheckpointError
from limelight_export.importing.huggingface.checkpoint import TOKENIZER, TOKENIZER_CONFIG, Checkpoint
from limelight_export.importing.huggingface.fields import short
from limelight_export.importing.huggingface.loading import first_line, quiet
from limelight_models.cards.inputs import Tokenizer

# Texts of all kinds; what is not in a vocabulary is no matter of it.
_TEXTS = (
    "The cat sat on the mat.",
    "the quick brown fox jumps over the lazy dog",
    "HELLO World, it's McDonald's! Don't we'll I'VE",
    "Café naïve Ångström ÉCOLE Straße İstanbul",
    "cafe\u0301 a\u030angstro\u0308m",
    "你好世界。猫坐在垫子上,东京、こんにちは 안녕하세요",
    "Привет мир, Ελλάδα, שלום, مرحبا, हिन्दी, ไทย",
    " a space in front",
    "  two in front, and  two  within",
    "and behind ",
    "\tA tab, a\nline\r\nand\n\nmore\u00a0spaces\u3000here\u200b.",
    "control\x00s\x07and\x1b[0m\ufffd \ufeffmarks \u202e and \u00ad",
    "😀 👩‍👩‍👧 🇩🇪 ❤️ ﬁne Ⅷ ½ ™ ｆｕｌｌ",
    "3.14159 1,000,000 12345678 2026-11-27 50% $5 #tag @name a_b-c/d\\e",
    "def f(x):\n    return {'a': [x ** 2, \"b\"]}  # <html> &amp; https://example.org/?q=1",
    "'single' \"double\" “curly” ‘quotes’ … – — ``tex''",
    "Supercalifragilisticexpialidocious Donaudampfschifffahrtsgesellschaft aaaaaaaaaaaa",
    ".",
    " ",
    "",
)
_PAIRS = (
    ("Where did the CAT sit?", "The cat sat on the mat."),
    (" Größe", "東京 😀 "),
    ("", "an empty one in front"),
)
# Most added tokens that texts are made of.
_MOST_ADDED = 40
# Fields and files that transformers' tokenizers read, and that are tried as causes of a difference.
_SWITCHES = """
    do_lower_case strip_accents tokenize_chinese_chars add_prefix_space add_bos_token add_eos_token legacy
    split_special_tokens do_basic_tokenize never_split remove_space keep_accents trim_offsets fix_mistral_regex
    added_tokens_decoder additional_special_tokens extra_special_tokens
""".split()
_CAUSES = [
    *_SWITCHES,
    *(f"{role}_token" for role in ("bos", "eos", "unk", "sep", "cls", "mask", "pad")),
    "tokenizer_class",
]
_CAUSE_FILES = ("added_tokens.json", "special_tokens_map.json")
# The class of transformers that takes tokenizer.json as it is.
_GENERIC = "PreTrainedTokenizerFast"
# Ids, and of a pair the segments.
_Read = tuple[list[int], list[int] | None]


def load_library_tokenizer(folder: Path) -> Any:
    """Load the tokenizer that transformers takes for a checkpoint. Raises: what transformers raises."""
    from transformers import AutoTokenizer

    with quiet():
        return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)


class TokenizerComparison:
    """Compares the token ids of a served model with those of transformers.

    Where transformers' class for the architecture cannot be made of the checkpoint's files, or reads no text, nobody
    can have used it: the class counts that takes tokenizer.json as it is.

    Args:
        tokenizer: of the served model.
        special_tokens: whether texts get the tokenizer's special tokens.
    Raises:
        CheckpointError: transformers can load no tokenizer.
    """

    def __init__(self, checkpoint: Checkpoint, tokenizer: Tokenizer, *, special_tokens: bool = True) -> None:
        self._folder, self._settings = checkpoint.folder, checkpoint.table(TOKENIZER_CONFIG)
        self._is_made = TOKENIZER in checkpoint.made
        # Marian looks characters that the source's pieces lack up among those of the output; we do not.
        is_marian = self._is_made and checkpoint.model_type == "marian"
        self._unknown = json.loads(tokenizer.text)["model"]["unk_id"] if is_marian else None
        self._own = load_tokenizer(tokenizer.text)
        self._encoder = Encoder(tokenizer.text, special_tokens=special_tokens)
        self._special_tokens = special_tokens
        added = [each.content for each in self._own.get_added_tokens_decoder().values()]
        # Its codes of languages are codes at the beginning alone.
        added = [f"{each} a" if is_marian else f"a {each} B{each}c" for each in (*_stated(self._settings), *added)]
        if self._is_made and checkpoint.model_type == "siglip":  # as `_convert_siglip` says
            added = []
        texts = (*_TEXTS, *dict.fromkeys(added))
        self._texts = [(text,) for text in texts[: len(_TEXTS) + _MOST_ADDED]]
        self._library = self._load()

    @property
    def is_possible(self) -> bool:
        """Whether transformers has a tokenizer here; it needs SentencePiece for some, which are converted without."""
        return self._library is not None

    def check_kinds(self, *, pairs: bool) -> None:
        """Compare texts of all kinds, those with added tokens included. Raises CheckpointError as of `check`."""
        self.check([*self._texts, *(_PAIRS if pairs else ())])

    def check(self, texts: Iterable[Sequence[str]]) -> None:
        """Compare texts, or pairs of them. Raises CheckpointError for the first that differs, with the cause."""
        for text in texts if self.is_possible else ():
            own, expected = self._read(text), self._read_by(self._library, text)
            if self._unknown not in own[0] and not _is_same(own, expected):
                raise CheckpointError(self._difference(text, own, expected))

    def _load(self) -> Any:
        try:
            return self._reading(load_library_tokenizer(self._folder))
        except Exception as error:  # transformers and tokenizers raise many types
            if self._is_made:
                return None
            if not isinstance(error, ImportError):
                return self._load_generic()
            raise CheckpointError(
                f"token ids cannot be compared with transformers', since {first_line(error)}; install it, or where "
                f"{TOKENIZER} is right, state tokenizer_class {_GENERIC} in {TOKENIZER_CONFIG}"
            ) from error

    def _reading(self, library: Any) -> Any:
        """Return a tokenizer that reads every text; raises what it raises."""
        for text in self._texts:
            self._read_by(library, text)
        return library

    def _load_generic(self) -> Any:
        from transformers import PreTrainedTokenizerFast

        try:
            with quiet():
                return self._reading(PreTrainedTokenizerFast.from_pretrained(self._folder, local_files_only=True))
        except Exception as error:  # as above
            raise CheckpointError(f"transformers cannot load the tokenizer: {first_line(error)}") from error

    def _read(self, text: Sequence[str]) -> _Read:
        """Return the ids of a text or a pair, and of a pair the segments."""
        if len(text) == 1:
            return list(self._encoder.encode(text)[0].ids), None
        encoded = self._encoder.encode_pair(*text)
        return list(encoded.ids), list(encoded.segments)

    def _read_by(self, library: Any, text: Sequence[str]) -> _Read:
        """Do the same with a tokenizer of transformers."""
        read = library(*text, add_special_tokens=self._special_tokens, truncation=False, verbose=False)
        segments = read.get("token_type_ids") if len(text) > 1 else None
        return list(read["input_ids"]), None if segments is None else list(segments)

    def _difference(self, text: Sequence[str], own_read: _Read, library_read: _Read) -> str:
        own, expected = own_read[0], library_read[0]
        places = range(max(len(own), len(expected)))
        place = next((each for each in places if own[each : each + 1] != expected[each : each + 1]), None)
        shown = " and ".join(map(repr, text))
        if place is None:
            where = "other segments"
        else:
            pieces = (_piece(ids[place : place + 1], self._own.id_to_token) for ids in (own, expected))
            where = "the token {} in place of {} at {}".format(*pieces, place + 1)
        return (
            f"of the text {shown} {TOKENIZER} makes {where}, as transformers' {type(self._library).__name__} reads it; "
            f"{self._cause(text)}"
        )

    def _cause(self, text: Sequence[str]) -> str:
        """Find out what makes the difference, by leaving out a field or a file at a time."""
        own = self._read(text)
        stated = [name for name in _CAUSES if self._settings.get(name) is not None]
        alone = next(([name] for name in stated if self._agrees(own, text, [name])), [])
        if causes := alone or self._together(own, text, [name for name in stated if name in _SWITCHES]):
            states = ", ".join(f"{name} {short(self._settings[name])}" for name in causes)
            return (
                f"{TOKENIZER_CONFIG} states {states}, without which both are the same: "
                "which of them was the model trained with?"
            )
        for file in _CAUSE_FILES:
            if (self._folder / file).exists() and self._agrees(own, text, [file]):
                return f"without {file} both are the same: which of them was the model trained with?"
        if self._agrees(own, text, [], {"tokenizer_class": _GENERIC}):
            return (
                "that class builds its own tokenizer of the vocabulary: where "
                f"{TOKENIZER} is right, state tokenizer_class {_GENERIC} in {TOKENIZER_CONFIG}"
            )
        return (
            f"that class builds its own tokenizer of the vocabulary, whatever {TOKENIZER_CONFIG} states: "
            f"is {TOKENIZER} of this model?"
        )

    def _together(self, own: _Read, text: Sequence[str], names: list[str]) -> list[str]:
        """Return those of several fields that make a difference only together; empty where they make none."""
        if len(names) < 2 or not self._agrees(own, text, names):
            return []
        for name in list(names):
            if self._agrees(own, text, [each for each in names if each != name]):
                names.remove(name)
        return names

    def _agrees(
        self, own: _Read, text: Sequence[str], without: Sequence[str], others: Mapping[str, Any] | None = None
    ) -> bool:
        """Tell whether transformers gives our ids without some fields or files, and with other fields."""
        stated = {name: value for name, value in self._settings.items() if name not in without}
        stated.update(others or {})
        with TemporaryDirectory() as scratch:
            for path in self._folder.iterdir():
                if path.is_file() and path.suffix != ".safetensors" and path.name not in (TOKENIZER_CONFIG, *without):
                    (Path(scratch) / path.name).symlink_to(path.resolve())
            (Path(scratch) / TOKENIZER_CONFIG).write_text(json.dumps(stated), encoding="utf-8")
            try:
                return _is_same(own, self._read_by(load_library_tokenizer(Path(scratch)), text))
            except Exception:  # as above
                return False


def _is_same(own: _Read, expected: _Read) -> bool:
    """Compare; the library may give no segments."""
    return own[0] == expected[0] and (expected[1] is None or own[1] == expected[1])


def _stated(settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield the special and added tokens that tokenizer_config.json states, in any of its forms."""
    for name, value in settings.items():
        if name != "added_tokens_decoder" and not name.endswith(("_token", "_special_tokens")):
            continue
        if isinstance(value, Mapping) and "content" not in value:
            value = list(value.values())
        for each in value if isinstance(value, list) else [value]:
            content = each.get("content") if isinstance(each, Mapping) else each
            if isinstance(content, str) and content:
                yield content


def _piece(ids: Sequence[int], name: Callable[[int], str | None]) -> str:
    return f"{name(ids[0])!r} ({ids[0]})" if ids else "none"
