"""Tokenizer files: restrictions on their content, and loading.

Two parts of a tokenizer file can hang or crash the library: regular expressions, of which only those of well-known
tokenizers are accepted, and SentencePiece's compiled character maps, which are checked completely.
"""

import base64
import binascii
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from limelight_bundle.checks.tokenizer_growth import check_growth
from limelight_bundle.errors import BundleError
from limelight_bundle.values import Array

# Parts of o200k's and Tekken's.
_UPPER = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_ENDING = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_OTHERS = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
# Regular expressions of published tokenizer.json files, verbatim. All take linear time.
VETTED_PATTERNS = frozenset(
    {
        # GPT-2 (Radford et al. 2019), where it is explicit instead of part of ByteLevel.
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
        # Llama 3 (cl100k): digits by three.
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        # Qwen 2: digits one by one.
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        # CLIP (Radford et al. 2021), with and without its two special tokens, and its white space.
        r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+",
        r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+",
        r"\s+",
        # o200k, of gpt-oss: capitals begin a word; and Tekken, of later Mistral models: no endings, digits one by one.
        # Where one of its two forms of words stops after a run of capitals, the other takes the run: linear time.
        rf"{_UPPER}*{_LOWER}+{_ENDING}|{_UPPER}+{_LOWER}*{_ENDING}|\p{{N}}{{1,3}}{_OTHERS}",
        rf"{_UPPER}*{_LOWER}+|{_UPPER}+{_LOWER}*|\p{{N}}{_OTHERS}",
        # BLOOM (Le Scao et al. 2022): words up to a stop.
        r" ?[^(\s|[.,!?…。，、।۔،])]+",
        # DeepSeek-V3 (2024), one after the other: digits by three; Chinese and Japanese; the rest.
        r"\p{N}{1,3}",
        r"[一-龥぀-ゟ゠-ヿ]+",
        r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
        r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        # DeBERTa 2 and 3, as transformers writes them: white space.
        r"\s{2,}|[\n\r\t]",
        # T5 (Raffel et al. 2020), XLM-R (Conneau et al. 2020) and others of SentencePiece: repeated spaces.
        r" {2,}",
        # SigLIP (Zhai et al. 2023), as its pieces are converted here: punctuation.
        r"[!-/:-@\[-`{-~]",
    }
)
_MASKS, _UNKNOWN = ("[MASK]", "<mask>", "<|mask|>"), ("[UNK]", "<unk>")  # as published tokenizers write them
# Block size of a double array: any byte can be looked up in any state.
_BLOCK = 256
# Longest text that a map may replace, in bytes; published maps have fewer than twenty.
_MAX_REPLACED_BYTES = 64


def read_tokenizer(path: Path) -> str:
    """Read a tokenizer.json as text. Raises BundleError if it is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise BundleError("the tokenizer file is not UTF-8") from error


def load_tokenizer(text: str) -> Any:
    """Load a tokenizer.json without truncation and padding.

    Raises:
        BundleError: it is invalid, has a regular expression of no well-known tokenizer, a character map that would lead
            the library out of bounds, or steps that make a short text long.
    """
    from tokenizers import Tokenizer

    try:
        content = json.loads(text)
        for pattern in strings_of(content, "Regex"):
            if pattern not in VETTED_PATTERNS:
                raise BundleError("the tokenizer has a regular expression of no well-known tokenizer")
        for charsmap in strings_of(content, "precompiled_charsmap"):
            check_charsmap(charsmap)
        check_growth(content)
        content["truncation"] = content["padding"] = None
        tokenizer = Tokenizer.from_str(json.dumps(content))
        _disable_cache(tokenizer.model)
        return tokenizer
    except BundleError:
        raise
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # the library raises bare Exception, and its panics are not Exceptions
        raise BundleError("the tokenizer file is invalid") from error


def token_text(tokenizer: Any, token_id: int) -> str:
    """Return a token as the vocabulary writes it; empty for an unknown id, which the library may reject."""
    return str(tokenizer.id_to_token(token_id) or "") if 0 <= token_id < 2**32 else ""


def blank_ids(tokenizer: Any) -> tuple[int, ...]:
    """Return the ids of tokens that stand for any word, where a tokenizer has such: the mask, then the unknown one."""
    names = (*_MASKS, getattr(tokenizer.model, "unk_token", None), *_UNKNOWN)
    return tuple(dict.fromkeys(token for name in names if name and (token := tokenizer.token_to_id(name)) is not None))


def _disable_cache(model: Any) -> None:
    """Disable a tokenizer's cache of words.

    By default it caches the pieces of the first 10,000 words of up to 256 bytes. If each text is one word, such as a
    date, that is 1 kB a text and 10 MB in total; and a lookup took as long as tokenizing the word.
    """
    if resize := getattr(model, "_resize_cache", None):
        resize(0)


def character_maps(text: str) -> list[Any]:
    """Return the character maps of a loaded tokenizer.json, as normalisers."""
    if "precompiled_charsmap" not in text:  # most have none, and some files are large
        return []
    from tokenizers import normalizers

    return [
        normalizers.Precompiled(base64.b64decode(each)) for each in strings_of(json.loads(text), "precompiled_charsmap")
    ]


def strings_of(content: Any, key: str) -> Iterator[str]:
    """Yield every string value of a key.

    A vocabulary may contain the key as a word, with a number as value.
    """
    if isinstance(content, dict):
        if isinstance(content.get(key), str):
            yield content[key]
        content = list(content.values())
    if isinstance(content, list):
        for each in content:
            yield from strings_of(each, key)


def check_charsmap(charsmap: str) -> None:
    """Check that no text can lead the library out of a character map, whose bounds it does not check.

    The map (SentencePiece's `precompiled_charsmap`, base64) is the size in bytes of a double array, the array in units
    of four bytes, and the replacement texts, each ended by a zero byte. A unit holds a label (bits 0-7 and 31), whether
    its state has a value (bit 8), and the offset of its children (from bit 10, shifted by 8 if bit 9 is set); a value
    is an index into the texts. Every state that a text can reach is visited once.

    Raises:
        BundleError: the map is invalid.
    """
    try:
        data = base64.b64decode(charsmap, validate=True)
    except (binascii.Error, ValueError) as error:
        raise BundleError("the tokenizer's character map is not base64") from error
    size = int.from_bytes(data[:4], "little")
    texts = data[4 + size :]
    if len(data) < 4 or size % 4 or not size or len(data) < 4 + size:
        raise BundleError("the tokenizer's character map is truncated")
    try:
        texts.decode()
    except UnicodeDecodeError as error:
        raise BundleError("the tokenizer's character map is not UTF-8") from error
    units = np.frombuffer(data, "<u4", size // 4, 4).astype(np.int64)
    begins = np.append((np.frombuffer(texts, np.uint8) & 0xC0) != 0x80, True)  # starts of characters, and the end
    labels = units & 0x800000FF
    offsets = (units >> 10) << ((units & 0x200) >> 6)
    seen = np.zeros(len(units), dtype=np.bool_)
    states = offsets[:1]
    for _ in range(_MAX_REPLACED_BYTES + 2):
        if not len(states):
            return
        if int(states.max()) | (_BLOCK - 1) >= len(units):
            raise BundleError("the tokenizer's character map leads out of its bounds")
        seen[states] = True
        states = _next_states(states, units, labels, offsets, begins)
        states = np.unique(states[~seen[np.minimum(states, len(units) - 1)] | (states >= len(units))])
    raise BundleError(f"the tokenizer's character map replaces texts of more than {_MAX_REPLACED_BYTES} bytes")


def _next_states(states: Array, units: Array, labels: Array, offsets: Array, begins: Array) -> Array:
    """Follow every byte from every state; values found on the way must be starts of texts."""
    found = []
    for begin in range(0, len(states), 1024):  # each state has 255 lookups
        bytes_ = np.arange(1, 256)
        places = states[begin : begin + 1024, None] ^ bytes_
        places = places[labels[places] == bytes_]
        children = places ^ offsets[places]
        inside = children[(units[places] >> 8 & 1 == 1) & (children < len(units))]
        values = units[inside] & 0x7FFFFFFF
        if (values >= len(begins)).any() or not begins[values].all():
            raise BundleError("the tokenizer's character map has a text outside its bounds")
        found.append(children)
    return np.concatenate(found)
