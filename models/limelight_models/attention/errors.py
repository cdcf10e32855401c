"""Errors in building or calling attention; each message says what to change."""

from torch import Tensor


class ShapeError(ValueError):
    """A tensor or a size does not fit the mechanism it was given to."""


class CombinationError(ValueError):
    """A score, an alignment and a combination that cannot work together; the message gives the reason."""


class MissingContextError(ValueError):
    """A mechanism needs something besides query, key and mask (distances, bounds, …) and did not get it."""


def require_features(tensor: Tensor, name: str, size: int | None, owner: object) -> None:
    """Raise ShapeError unless the last axis of `tensor` has `size` features (None: any)."""
    if size is not None and tensor.shape[-1] != size:
        raise ShapeError(f"{name} has {tensor.shape[-1]} features; {type(owner).__name__} was built for {size}")


def require_axes(tensor: Tensor, name: str, axes: str) -> None:
    """Raise ShapeError unless `tensor` has as many axes as the comma-separated names in `axes`."""
    expected = axes.count(",") + 1
    if tensor.dim() != expected:
        raise ShapeError(f"{name} must be [{axes}]; it has {tensor.dim()} axes, shape {list(tensor.shape)}")
