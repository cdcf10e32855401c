"""Texts beside expected ones, by words, stems or phones."""

from collections.abc import Sequence
from typing import Any

from nltk.translate.meteor_score import single_meteor_score

# Of the ARPAbet, and what TIMIT's transcripts add: closures of stops, reduced sounds, silences (Garofolo et al. 1993).
PHONES = frozenset(
    """
    aa ae ah ao aw ax ax-h axr ay b bcl ch d dcl dh dx eh el em en eng epi er ey f g gcl h# hh hv ih ix iy jh k kcl l m
    n ng nx ow oy p pau pcl q r s sh sil sp t tcl th uh uw ux v w y z zh
    """.split()
)


def are_phones(text: str) -> bool:
    """Tell whether a text is phones between spaces, with or without stress."""
    return PHONES.issuperset(word.lower().rstrip("012") for word in text.split())


def meteor(pairs: Sequence[tuple[str, str]]) -> list[float]:
    """Return METEOR of each pair of a found and an expected text, from 0 to 1 (Banerjee and Lavie 2005).

    Words match that are the same, or have the same stem (Porter 1980); WordNet's synonyms are not asked.
    """
    return [
        float(single_meteor_score(expected.split(), found.split(), wordnet=_NoSynonyms())) for found, expected in pairs
    ]


class _NoSynonyms:
    """Stands in WordNet's place, which is no part of NLTK's package."""

    def synsets(self, word: str) -> Sequence[Any]:
        """No word has another of its meaning."""
        return ()
