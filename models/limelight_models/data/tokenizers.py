"""Tokenizers, trained on the training part with the `tokenizers` library.

Id 0 is padding and id 1 the unknown. No file holds a regular expression. Where no token is put out (documents, sources)
no string stands for a special token: what somebody writes is always read as text.
"""

import json
from collections.abc import Iterable, Sequence

from tokenizers import Tokenizer
from tokenizers.decoders import Fuse
from tokenizers.decoders import Metaspace as FromMetaspace
from tokenizers.models import BPE, WordLevel
from tokenizers.normalizers import NFC, Lowercase
from tokenizers.normalizers import Sequence as Normalizers
from tokenizers.pre_tokenizers import Metaspace, Punctuation, Whitespace, WhitespaceSplit
from tokenizers.pre_tokenizers import Sequence as PreTokenizers
from tokenizers.processors import TemplateProcessing
from tokenizers.trainers import BpeTrainer, WordLevelTrainer

from limelight_bundle.values import Pair, Sentences, Text

PAD, UNKNOWN, BEGIN, END = "[pad]", "[unk]", "[begin]", "[end]"
_READ = [PAD, UNKNOWN]
_PUT_OUT = [PAD, UNKNOWN, BEGIN, END]


def words(texts: Iterable[str], *, vocabulary: int) -> str:
    """A lower-cased word a token, and punctuation: the most frequent `vocabulary` of them."""
    tokenizer = Tokenizer(WordLevel({UNKNOWN: 1}, unk_token=UNKNOWN))
    tokenizer.normalizer = Normalizers([NFC(), Lowercase()])
    tokenizer.pre_tokenizer = Whitespace()
    trainer = WordLevelTrainer(vocab_size=vocabulary, special_tokens=_READ, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    return _plain(tokenizer)


def characters(texts: Iterable[str], *, lower: bool, output: bool) -> str:
    """A character a token; `output`: for sequences that are put out, which end with a token of their own."""
    tokenizer = Tokenizer(WordLevel({UNKNOWN: 1}, unk_token=UNKNOWN))
    normalizer = Normalizers([NFC(), *([Lowercase()] if lower else [])])
    alphabet = sorted({character for text in texts for character in normalizer.normalize_str(text)})
    special = _PUT_OUT if output else _READ
    vocabulary = {token: number for number, token in enumerate([*special, *alphabet])}
    # BPE without merges: every character stays alone, spaces too.
    tokenizer = Tokenizer(BPE(vocab=vocabulary, merges=[], unk_token=UNKNOWN))
    tokenizer.normalizer = normalizer
    tokenizer.decoder = Fuse()
    return _ending(tokenizer) if output else _plain(tokenizer)


def pieces(texts: Iterable[str], *, vocabulary: int, output: bool) -> str:
    """Pieces of words by byte-pair encoding; a piece that begins a word begins with ▁."""
    tokenizer = Tokenizer(BPE(unk_token=UNKNOWN))
    tokenizer.normalizer = NFC()
    tokenizer.pre_tokenizer = PreTokenizers([Metaspace(), Punctuation()])
    tokenizer.decoder = FromMetaspace()
    trainer = BpeTrainer(
        vocab_size=vocabulary, special_tokens=_PUT_OUT if output else _READ, min_frequency=2, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return _ending(tokenizer) if output else _plain(tokenizer)


def symbols(texts: Iterable[str]) -> str:
    """A token for each string between spaces, of sequences that are put out."""
    tokenizer = Tokenizer(WordLevel({UNKNOWN: 1}, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    tokenizer.train_from_iterator(texts, WordLevelTrainer(special_tokens=_PUT_OUT, show_progress=False))
    return _ending(tokenizer)


def within_words(words: Iterable[str], *, vocabulary: int) -> str:
    """Pieces inside of words that come one by one: byte-pair encoding, whose pieces are whole words where frequent."""
    tokenizer = Tokenizer(BPE(unk_token=UNKNOWN))
    tokenizer.normalizer = NFC()
    trainer = BpeTrainer(vocab_size=vocabulary, special_tokens=_READ, min_frequency=2, show_progress=False)
    tokenizer.train_from_iterator(words, trainer)
    return _plain(tokenizer)


def reading(tokenizer: str, *, ends: bool = True) -> str:
    """The same tokenizer for what somebody writes: no string stands for a special token.

    ends: whether what is read ends with the end token as well.
    """
    content = {**json.loads(tokenizer), "added_tokens": []}
    return _write(content if ends else {**content, "post_processor": None})


def shared(texts: Iterable[str], *, vocabulary: int) -> str:
    """One for what is read and what is put out: pieces of words, or characters where there is no size."""
    if vocabulary:
        return pieces(texts, vocabulary=vocabulary, output=True)
    return characters(texts, lower=False, output=True)


def size(tokenizer: str) -> int:
    """Number of token ids."""
    return int(Tokenizer.from_str(tokenizer).get_vocab_size())


def special_ids(tokenizer: str) -> tuple[int, int]:
    """Ids of the tokens that begin and end a sequence."""
    loaded = Tokenizer.from_str(tokenizer)
    vocabulary = loaded.get_vocab()
    return vocabulary[BEGIN], vocabulary[END]


def _plain(tokenizer: Tokenizer) -> str:
    """Write without added tokens: in a text, `[pad]` is then five characters like any others."""
    content = json.loads(tokenizer.to_str())
    content["added_tokens"] = []
    return _write(content)


def _ending(tokenizer: Tokenizer) -> str:
    """Write with an end token after every text, and special tokens that decoding leaves out."""
    tokenizer.add_special_tokens(_PUT_OUT)
    end = tokenizer.token_to_id(END)
    tokenizer.post_processor = TemplateProcessing(single=f"$A {END}", special_tokens=[(END, end)])
    return _write(json.loads(tokenizer.to_str()))


def _write(content: object) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n"


def texts_of(values: Sequence[object]) -> list[str]:
    """The texts in values of instances: documents, their sentences, plain texts, both of a pair."""
    return [text for value in values for text in _texts(value)]


def _texts(value: object) -> Sequence[str]:
    match value:
        case Text(text):
            return (text,)
        case Sentences(texts):
            return texts
        case Pair(first, second):
            return first, second
    return ()


def vocabulary(tokenizer: str) -> dict[int, str]:
    """The text of each token by its id, in order: tokens that are read from text, without the special ones."""
    found = Tokenizer.from_str(tokenizer).get_vocab(with_added_tokens=True)
    return {number: token for number, token in sorted((b, a) for a, b in found.items()) if token not in _PUT_OUT}
