"""Texts with something beside them: the head of each word in a parse, or variables."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from limelight_bundle.values import Array, TensorValue, Text
from limelight_models.data.dataset import Example, shown
from limelight_models.data.rows import Kind, text

_WORD = re.compile(r"\w+|[^\w\s]+")  # as `tokenizers.words` parts a text


def tree_distances(heads: Sequence[int]) -> Array:
    """Number of arcs between words in a dependency tree (survey G §4.3; Chen et al. 2018b, §3).

    heads: the number of each word's head, from 1; 0 of a root. Where no way leads from one word to another, as between
    the trees of two roots, they are `len(heads)` apart, further than on any way.

    Returns: int64 [word, word].
    Raises: ValueError for a head that is no word.
    """
    count = len(heads)
    if not all(0 <= head <= count for head in heads):
        raise ValueError(f"a head is the number of one of {count} words, or 0; they are {shown(list(heads))}")
    near = np.zeros((count, count), bool)
    for word, head in enumerate(heads):
        if head and head - 1 != word:
            near[word, head - 1] = near[head - 1, word] = True
    found = np.full((count, count), count, np.int64)
    reached = np.eye(count, dtype=bool)
    for steps in range(count):
        found[reached & (found == count)] = steps
        reached = reached @ near
    return found


def parsed(content: Mapping[str, Any]) -> Example:
    """A labelled text and the head of each of its words. Raises: ValueError where there are more of one than of the
    other.
    """
    made = text(content)
    heads = _numbers(content, "heads")
    read = made.instance["text"]
    words = _WORD.findall(read.text) if isinstance(read, Text) else []
    if len(words) != len(heads):
        raise ValueError(f"has {len(words)} words and {len(heads)} heads")
    if any(head != int(head) for head in heads):
        raise ValueError('"heads" are whole numbers')
    apart = TensorValue(tree_distances([int(head) for head in heads]))
    return Example({**made.instance, "distances": apart}, made.label, gold=made.gold)


def measured(content: Mapping[str, Any]) -> Example:
    """A labelled text and numbers that are known beside it. Raises: ValueError where there is none."""
    made = text(content)
    numbers = _numbers(content, "variables")
    if not numbers:
        raise ValueError('has no "variables"')
    known = TensorValue(np.array(numbers, np.float32))
    return Example({**made.instance, "variables": known}, made.label, gold=made.gold)


def _numbers(content: Mapping[str, Any], name: str) -> list[float]:
    """A list of numbers, or in a table numbers between spaces."""
    value = content.get(name)
    given = value.split() if isinstance(value, str) else value
    if not isinstance(given, list):
        raise ValueError(f'has no "{name}" that are a list of numbers')
    try:
        numbers = [float(each) for each in given]
    except (TypeError, ValueError) as error:
        raise ValueError(f'"{name}" are no numbers: {shown(given)}') from error
    if not np.isfinite(numbers).all():
        raise ValueError(f'"{name}" are not finite')
    return numbers


PARSED = Kind("texts with the heads of their words", ("label", "text", "heads"), parsed)
MEASURED = Kind("texts with variables", ("label", "text", "variables"), measured)
