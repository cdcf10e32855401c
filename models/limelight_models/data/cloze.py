"""Sentences with a word taken out, to be found in the rest of their document: made of the docstrings of Python.

As CNN's and the Daily Mail's articles are asked about (Hermann et al. 2015, §2.1), words that come up in several
sentences of a document are called `entity1`, `entity2`, … in an order that is drawn for each example, so that only the
document tells them apart. A pair is the sentence, with `placeholder` for its word, and the document without it.
"""

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from limelight_bundle.splitting import split_sentences
from limelight_bundle.values import Pair, Text
from limelight_models.data import docstrings
from limelight_models.data.dataset import Dataset, Example
from limelight_models.data.gold import Gold, Span

BLANK, ENTITIES = "placeholder", 10
_PASSAGE = "pair.second"
_WORD = re.compile(r"\w+")
_QUESTIONS = 3  # of a document, at most
_DRAWN = 2  # names for each question to learn from
_LONGEST = 100  # words of a document; it ends with the sentence before
_COMMON = frozenset(
    "also been before call called default does each either else from have into more most must none note only other "
    "otherwise returned returns same should such than that their them then there these they this used uses using value "
    "values when where which will with without your".split()
)


def dataset(*, seed: int = 0) -> Dataset:
    """Up to three questions a document, twice with other names to learn from; modules are held out whole."""
    told = docstrings.dataset(seed=seed)
    chance = random.Random(f"cloze/{seed}")
    train, dev, test = (
        tuple(example for each in part for example in _asked(each, chance, drawn))
        for part, drawn in ((told.train, _DRAWN), (told.dev, 1), (told.test, 1))
    )
    return Dataset(
        name="Cloze of Python's docstrings",
        licence=told.licence,
        summary="A sentence of a docstring with a word taken out, which is one of the numbered words of the others.",
        train=train,
        dev=dev,
        test=test,
    )


def _asked(document: Example, chance: random.Random, drawn: int) -> Iterator[Example]:
    text = document.instance["document"]
    assert isinstance(text, Text)
    sentences = _beginning(text.text)
    count = Counter(word for each in sentences for word in _words(each))
    known = sorted(word for word, times in count.items() if times > 1 and _is_content(word))
    questions = [(place, word) for place, each in enumerate(sentences) for word in known if word in _words(each)]
    for place, answer in chance.sample(questions, min(_QUESTIONS, len(questions))):
        others = [word for word in known if word != answer]
        for _ in range(drawn):
            chosen = [answer, *chance.sample(others, min(len(others), ENTITIES - 1))]
            yield question(sentences, place, chosen, chance)


def question(sentences: Sequence[str], place: int, words: Sequence[str], chance: random.Random) -> Example:
    """Take the first of some words out of a sentence; in the document it stands at least once. Names are drawn."""
    numbers = chance.sample(range(1, ENTITIES + 1), len(words))
    names = {word: f"entity{number}" for word, number in zip(words, numbers, strict=True)}
    answer = words[0]
    asked = _renamed(sentences[place], {**names, answer: BLANK}.get)
    told = _renamed(" ".join([*sentences[:place], *sentences[place + 1 :]]), names.get)
    spans = tuple(Span(_PASSAGE, *each.span()) for each in _WORD.finditer(told) if each.group() == names[answer])
    return Example({"pair": Pair(asked, told)}, names[answer], gold=(Gold(spans),))


def _renamed(text: str, names: Callable[[str, str], str]) -> str:
    return _WORD.sub(lambda found: names(found.group().lower(), found.group()), text)


def _beginning(text: str) -> list[str]:
    """The sentences of a text as far as it is short enough, each on one line."""
    found: list[str] = []
    for begin, end in split_sentences(text):
        found.append(" ".join(text[begin:end].split()))
        if sum(len(_WORD.findall(each)) for each in found) > _LONGEST:
            return found[:-1]
    return found


def _words(text: str) -> set[str]:
    return {found.lower() for found in _WORD.findall(text)}


def _is_content(word: str) -> bool:
    return len(word) > 3 and word.isalpha() and word not in _COMMON
