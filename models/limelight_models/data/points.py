"""Points and the order in which they are wanted: numbers to sort, convex hulls (Vinyals et al. 2015, §4.1)."""

import random
from collections.abc import Callable, Sequence

import numpy as np

from limelight_bundle.values import TensorValue
from limelight_models.data.dataset import Dataset, Example

Point = tuple[float, ...]


def sort(*, seed: int = 0, training: int = 10_000, held_out: int = 500, points: tuple[int, int] = (5, 10)) -> Dataset:
    """Numbers from 0 to 1, the smallest first. points: the fewest and the most."""
    return _dataset("Numbers to sort", ascending, 1, seed, training, held_out, points)


def hull(*, seed: int = 0, training: int = 10_000, held_out: int = 500, points: tuple[int, int] = (5, 10)) -> Dataset:
    """Points of a square: those of their convex hull, anticlockwise from the leftmost one."""
    return _dataset("Convex hulls", around, 2, seed, training, held_out, points)


def ascending(points: Sequence[Point]) -> list[int]:
    """Their order by size."""
    return sorted(range(len(points)), key=lambda place: points[place])


def around(points: Sequence[Point]) -> list[int]:
    """Their convex hull, anticlockwise from the leftmost (Andrew 1979)."""
    order = ascending(points)
    lower, upper = _half(points, order), _half(points, order[::-1])
    return [*lower[:-1], *upper[:-1]] or order


def _half(points: Sequence[Point], order: Sequence[int]) -> list[int]:
    found: list[int] = []
    for place in order:
        while len(found) > 1 and _turn(*(points[each] for each in (*found[-2:], place))) <= 0:
            found.pop()
        found.append(place)
    return found


def _turn(a: Point, b: Point, c: Point) -> float:
    """Above 0 where the way from a over b to c turns left."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def _dataset(
    name: str,
    order: Callable[[Sequence[Point]], list[int]],
    coordinates: int,
    seed: int,
    training: int,
    held_out: int,
    counts: tuple[int, int],
) -> Dataset:
    chance = random.Random(f"{name}/{seed}")

    def example() -> Example:
        points = [tuple(round(chance.random(), 3) for _ in range(coordinates)) for _ in range(chance.randint(*counts))]
        labels = tuple(map(str, order(points)))
        return Example({"points": TensorValue(np.array(points, np.float32))}, labels=labels)

    least, most = counts
    return Dataset(
        name=name,
        licence="none: generated",
        summary=f"{least} to {most} points of {coordinates} numbers from 0 to 1, generated from seed {seed}.",
        train=tuple(example() for _ in range(training)),
        dev=tuple(example() for _ in range(held_out)),
        test=tuple(example() for _ in range(held_out)),
    )
