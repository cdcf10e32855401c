"""Properties of weights, declared by the module that makes them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # cards of models that PyTorch did not make need none
    from torch import nn


@dataclass(frozen=True, kw_only=True)
class Weights:
    """One tensor of weights [batch, head, query, key(, feature)].

    heads: how many, of an input without heads. rows: rows of weights that a query gets. normalised: each row sums to 1
    (to 0 where there is nothing to attend to). signed: weights may be negative. by_feature: there is an axis of the
    value's features. quantities: what is returned beside them, by the names of `limelight_models.attention.quantities`.
    """

    heads: int = 1
    rows: int = 1
    normalised: bool = True
    signed: bool = False
    by_feature: bool = False
    quantities: tuple[str, ...] = ()


def weights_of(*modules: "nn.Module") -> tuple[Weights, ...]:
    """Properties of the weights of these modules, in the order in which they return them.

    Raises: TypeError for a module that does not say: its class needs a property `makes`.
    """
    found: list[Weights] = []
    for module in modules:
        made = getattr(module, "makes", None)
        if not isinstance(made, tuple):
            raise TypeError(f"{type(module).__name__} does not say what its weights are: give it a property `makes`")
        found += made
    return tuple(found)
