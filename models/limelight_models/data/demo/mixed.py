"""One set of two: what a model is for, and what strangers send it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice, repeat

from limelight_bundle.values import Image, Text
from limelight_models.data.dataset import Dataset, Example, shuffled


def mixed(base: Dataset, more: Sequence[Sequence[Example]], *, seed: int) -> Dataset:
    """Add examples to the parts of a set, train, dev and test; none whose inputs are in another part.

    The set's own part to learn from stays whole, and may hold the same twice: what people try first has few texts.
    """
    first = {_key(each) for each in base.train}
    dev, test = (
        _new([*own, *(each for each in added if _key(each) not in first)])
        for own, added in zip((base.dev, base.test), more[1:], strict=True)
    )
    held_out = {_key(each) for each in (*dev, *test)}
    train = [each for each in (*base.train, *more[0]) if _key(each) not in held_out]
    learned = {_key(each) for each in dev}
    return replace(
        base,
        train=tuple(shuffled(train, seed)),
        dev=tuple(dev),
        test=tuple(each for each in test if _key(each) not in learned),
    )


def drawn(make: Callable[[], Example], *counts: int) -> list[list[Example]]:
    """So many examples for each part."""
    examples = (make() for _ in repeat(None))
    return [list(islice(examples, count)) for count in counts]


def _new(examples: Sequence[Example]) -> list[Example]:
    """Each input once."""
    return list({_key(each): each for each in examples}.values())


def _key(example: Example) -> tuple[object, ...]:
    """The inputs of an example."""
    values = (value for name, value in sorted(example.instance.items()) if name != "target")
    return tuple(
        each.text.lower() if isinstance(each, Text) else each.data if isinstance(each, Image) else each
        for each in values
    )
