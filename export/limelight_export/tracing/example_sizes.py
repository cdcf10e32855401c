"""Example sizes of the axes that vary."""

from collections.abc import Iterable, Mapping, Sequence

from limelight_export.errors import ExportError
from limelight_export.interface import BATCH, AxisSize

_CANDIDATES = (3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47)


def example_sizes(max_sizes: Mapping[str, int], *, avoid: Mapping[str, int] | None = None) -> dict[str, int]:
    """Choose sizes for the batch and every axis that varies: all different, and above 1.

    The exporter takes equal sizes for one axis, and size 1 for a constant.

    Args:
        avoid: for each axis, a size that it must not get.
    Raises:
        ExportError: an axis cannot be larger than 2.
    """
    avoid = avoid or {}
    sizes: dict[str, int] = {}
    # Axes with a small maximum choose first.
    for name, maximum in sorted({BATCH: 0, **max_sizes}.items(), key=lambda item: (item[1] or 2**31, item[0] != BATCH)):
        if maximum in (1, 2):
            raise ExportError(
                f"the axis {name} has a maximum of {maximum}: declare a fixed size, or raise the maximum above 2"
            )
        taken = {*sizes.values(), avoid.get(name, 0)}
        possible = [size for size in (*_CANDIDATES, *range(2, 48)) if not maximum or size <= maximum]
        free = [size for size in possible if size not in taken] or [
            size for size in possible if size != avoid.get(name)
        ]
        sizes[name] = free[0]
    return sizes


def infer_axes(
    name: str, shapes: Sequence[tuple[int, ...]], sizes: Sequence[Mapping[str, int]], prefer: Iterable[str] = (BATCH,)
) -> tuple[AxisSize, ...]:
    """Infer which axes of a tensor vary, from its shapes at several sizes.

    An axis that follows a size gets that size's name; one that follows none gets a name of its own.

    Raises:
        ExportError: the number of axes varies.
    """
    if len({len(shape) for shape in shapes}) != 1:
        raise ExportError(
            f"{name} has a number of axes that depends on the input's size: {[list(shape) for shape in shapes]}"
        )
    order = [*prefer, *(axis for axis in sizes[0] if axis not in prefer)]
    axes: list[AxisSize] = []
    for place, found in enumerate(zip(*shapes, strict=True)):
        if len(set(found)) == 1:
            axes.append(found[0])
            continue
        follows = (axis for axis in order if tuple(each[axis] for each in sizes) == found)
        axes.append(next(follows, f"{name}_{place}"))
    return tuple(axes)
