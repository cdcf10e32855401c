"""Marks by people in texts: phrases that are reasons for a class, and links between the words of two languages."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from limelight_bundle.values import Text
from limelight_models.data.dataset import Example, shown
from limelight_models.data.gold import Gold, Span, word_spans


def evidence(phrases: object, sentences: Sequence[str]) -> tuple[Gold, ...]:
    """Evidence marked by people: phrases, each of pieces [sentence, first word, last word + 1], by white space.

    The document looks at the sentences with phrases, and each of those sentences at its words.
    """
    if not isinstance(phrases, list):
        raise ValueError('"evidence" is no list of phrases')
    spans: dict[int, list[Span]] = {}
    kept = [number for number, each in enumerate(sentences) if each.strip()]
    for phrase in phrases:
        for piece in phrase if isinstance(phrase, list) else [phrase]:
            match piece:
                case [int(sentence), int(first), int(end)] if sentence in kept:
                    words = word_spans("document", sentences[sentence])[first:end]
                    if first >= 0 and words:
                        place = kept.index(sentence)
                        marked = Span("document", words[0].start, words[-1].end, sentence=place)
                        spans.setdefault(place, []).append(marked)
                        continue
            raise ValueError(f"{shown(piece)} is no [sentence, first word, last word + 1] of the document")
    if not spans:
        return ()
    looks = {n: Span("document", 0, len(sentences[kept[n]]), sentence=n) for n in spans}
    return (Gold(tuple(looks.values())), *(Gold(tuple(spans[n]), of=looks[n]) for n in spans))


def aligned(content: Mapping[str, Any]) -> Example:
    """Words of both sides, and `sure` and `possible` links between them.

    Raises: ValueError where something is no word, or no link.
    """
    words = {name: content.get(name) for name in ("src", "tgt")}
    for name, each in words.items():
        if not isinstance(each, list) or not each or not all(isinstance(word, str) and word for word in each):
            raise ValueError(f'"{name}" is no list of words')
    # Some words are white space (of another width, say): they stay words.
    source, target = (" ".join(re.sub(r"\s", "␣", word) for word in each) for each in words.values() if each)
    sources, targets = word_spans("text", source), word_spans("target", target)
    sure, possible = (_links(content.get(name, []), len(sources), len(targets)) for name in ("sure", "possible"))
    gold = []
    for place, of in enumerate(targets):
        right = sorted(sure | possible)
        keys, others = ([sources[a] for a, b in links if b == place] for links in (sorted(sure), right))
        if others:
            gold.append(Gold(tuple(keys), of=of, possible=tuple(others)))
    return Example({"text": Text(source), "target": Text(target)}, gold=tuple(gold))


def _links(links: object, sources: int, targets: int) -> set[tuple[int, int]]:
    found = set()
    for each in links if isinstance(links, list) else [links]:
        match each:
            case [int(source), int(target)] if 0 <= source < sources and 0 <= target < targets:
                found.add((source, target))
            case _:
                raise ValueError(f"{shown(each)} is no link [source word, target word]")
    return found
