"""From examples to rows: one function for each way in which a task is read."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from limelight_bundle.text import Encoded, Encoder
from limelight_models.catalogue.testbed.text import Texts
from limelight_models.data import tokenizers
from limelight_models.data.dataset import Dataset, Example
from research.mechanisms.data import Part, Row, TaskData, keys_of, sentences_of, text_of, tokens_of

VOCABULARY = 8000
LONGEST = 64  # tokens of a sentence; what is longer is cut
FACTS = 64  # the latest of a story
END = "[end]"

One = tuple[Row, Sequence[str], np.ndarray | None]  # an example: what is read, right classes, right places


def classified(dataset: Dataset, *, longer: Dataset | None = None, fields: Sequence[str] = ("text",)) -> TaskData:
    """One class for one text, or for several: `token_ids`, or ids by the names of the fields."""
    corpus = [text_of(example, field) for example in dataset.train for field in fields]
    tokenizer = tokenizers.words(corpus, vocabulary=VOCABULARY)
    labels = tuple(sorted({example.label for example in dataset.train}))
    gold = any(example.gold for example in dataset.train)
    most = longest(tokenizer, dataset, longer) if gold else LONGEST
    texts = Texts(tokenizer=tokenizer, labels=labels, max_tokens=most, dropout=0.0 if gold else 0.3)
    encoder = Encoder(tokenizer, maximum=most)

    def read(examples: Sequence[Example]) -> list[One]:
        columns = [encoder.encode([text_of(each, field) for each in examples]) for field in fields]
        names = ["token_ids"] if len(fields) == 1 else [f"{field.rpartition('.')[2]}_ids" for field in fields]
        return [
            (
                {name: ids(one) for name, one in zip(names, row, strict=True)},
                (example.label,),
                keys_of(example.gold[0], row[0])[None] if gold else None,
            )
            for example, *row in zip(examples, *columns, strict=True)
        ]

    return together(texts, dataset, longer, read)


def written(dataset: Dataset, *, longer: Dataset | None = None, words: bool = True) -> TaskData:
    """A text that is put out token by token, and its end; words or characters are tokens.

    `source_ids`, and `written_ids`: what was put out before each step, classes from 1, one more at the beginning.
    """
    sources, targets = ([text_of(example, name) for example in dataset.train] for name in ("text", "target"))
    if words:
        source, target = (tokenizers.words(texts, vocabulary=VOCABULARY) for texts in (sources, targets))
    else:
        source, target = (tokenizers.characters(texts, lower=True, output=False) for texts in (sources, targets))
    labels = (*sorted(tokenizers.vocabulary(target).values()), END)
    most = longest(source, dataset, longer)
    encoder, writer = Encoder(source, maximum=most), Encoder(target)
    number = {label: place + 1 for place, label in enumerate(labels)}

    def read(examples: Sequence[Example]) -> list[One]:
        found: list[One] = []
        both = (tokens_of(e, [text_of(x, n) for x in examples]) for e, n in ((encoder, "text"), (writer, "target")))
        for example, one, out in zip(examples, *both, strict=True):
            gold = np.zeros((len(out.ids) + 1, len(one.ids)), bool)  # the end comes from nowhere
            for each in example.gold:
                for step, (start, end) in enumerate(zip(out.starts, out.ends, strict=True)):
                    if each.of is not None and start < each.of.end and end > each.of.start:
                        gold[step] = keys_of(each, one)
            before = np.array([len(labels) + 1, *(number[each] for each in out.texts)])
            found.append(({"source_ids": ids(one), "written_ids": before}, (*out.texts, END), gold))
        return found

    texts = Texts(tokenizer=source, labels=labels, max_tokens=most, dropout=0.0)
    return together(texts, dataset, longer, read)


def asked(dataset: Dataset, *, longer: Dataset | None = None) -> TaskData:
    """Values of keys that are named again: `token_ids`, and `asked_ids`, which are places (from 1) of those keys."""
    tokenizer = tokenizers.words([text_of(each, "text") for each in dataset.train], vocabulary=VOCABULARY)
    labels = tuple(sorted({word for each in dataset.train for word in text_of(each, "target").split()}))
    most = longest(tokenizer, dataset, longer)
    encoder = Encoder(tokenizer, maximum=most)

    def read(examples: Sequence[Example]) -> list[One]:
        found: list[One] = []
        for example, one in zip(examples, tokens_of(encoder, [text_of(x, "text") for x in examples]), strict=True):
            gold = np.array([keys_of(each, one) for each in example.gold])
            keys = [one.texts[place - 1] for place in gold.argmax(-1)]  # a key stands before its value
            last = {word: place for place, word in enumerate(one.texts)}
            places = np.array([1 + last[key] for key in keys])
            found.append(({"token_ids": ids(one), "asked_ids": places}, text_of(example, "target").split(), gold))
        return found

    return together(Texts(tokenizer=tokenizer, labels=labels, max_tokens=most, dropout=0.0), dataset, longer, read)


def beside(dataset: Dataset, *, longer: Dataset | None = None) -> TaskData:
    """As `classified`, but what is known is where the right word should look: at the mark before it, [query, key]."""
    data = classified(dataset, longer=longer)

    def turned(part: Part) -> Part:
        gold = []
        for (place,) in part.gold:
            looks = np.zeros((len(place), len(place)), bool)
            looks[place.argmax(), place.argmax() - 1] = True
            gold.append(looks)
        return Part(part.rows, part.targets, gold)

    train, dev, test = (turned(part) for part in (data.train, data.dev, data.test))
    return replace(data, train=train, dev=dev, test=test, longer=data.longer and turned(data.longer))


def told(dataset: Dataset) -> TaskData:
    """Questions about the latest facts of a story: `fact_ids` [fact, word], `word_ids`, and the facts that matter."""
    corpus = [text for each in dataset.train for text in (*sentences_of(each, "document"), text_of(each, "question"))]
    tokenizer = tokenizers.words(corpus, vocabulary=VOCABULARY)
    labels = tuple(sorted({each.label for each in dataset.train}))
    encoder = Encoder(tokenizer)
    most = max(len(one.ids) for one in encoder.encode(sorted(set(corpus))))  # a word's weight is of its place in these

    def read(examples: Sequence[Example]) -> list[One]:
        found: list[One] = []
        for example in examples:
            sentences = sentences_of(example, "document")
            table = np.zeros((len(sentences[-FACTS:]), most), np.int64)
            for place, fact in zip(table, encoder.encode(sentences[-FACTS:]), strict=True):
                place[: len(fact.ids)] = fact.ids[:most]
            gold = np.zeros((1, len(sentences)), bool)
            gold[0, [key.sentence for key in example.gold[0].keys]] = True
            (question,) = encoder.encode([text_of(example, "question")])
            words = np.zeros(most, np.int64)
            words[: len(question.ids)] = question.ids[:most]
            found.append(({"fact_ids": table, "word_ids": words}, (example.label,), gold[:, -FACTS:]))
        return found

    return together(Texts(tokenizer=tokenizer, labels=labels, dropout=0.0), dataset, None, read)


def ids(encoded: Encoded) -> np.ndarray:
    """The ids of a text; a text without any has one unknown token, since a model needs something to read."""
    return np.array(encoded.ids or (1,), dtype=np.int64)


def longest(tokenizer: str, *datasets: Dataset | None) -> int:
    """The most tokens of a text, longer ones included."""
    encoder = Encoder(tokenizer)
    examples = [each for dataset in datasets if dataset for each in (*dataset.train, *dataset.dev, *dataset.test)]
    return max(len(one.ids) for one in encoder.encode([text_of(each, "text") for each in examples]))


def together(
    texts: Texts, dataset: Dataset, longer: Dataset | None, read: Callable[[Sequence[Example]], list[One]]
) -> TaskData:
    """Read all parts; the longer one is the test part of its data set."""
    numbers = {label: number for number, label in enumerate(texts.labels)}

    def part(examples: Sequence[Example]) -> Part:
        found = read(examples)
        targets = [np.array([numbers[label] for label in labels], dtype=np.int64) for _, labels, _ in found]
        gold = [places for _, _, places in found if places is not None]
        return Part([row for row, _, _ in found], targets, gold)

    of = hashlib.sha256("".join(each.fingerprint for each in (dataset, longer) if each).encode()).hexdigest()[:12]
    return TaskData(
        texts=texts,
        train=part(dataset.train),
        dev=part(dataset.dev),
        test=part(dataset.test),
        longer=part(longer.test) if longer else None,
        of=of,
    )
