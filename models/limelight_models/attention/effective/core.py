"""What attention without a matrix has in common: values summed at once, and the effective map row by row."""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from limelight_models.attention.context import Context
from limelight_models.attention.errors import ShapeError, require_axes
from limelight_models.attention.export_markers import asked_queries, marked_effective
from limelight_models.attention.weights import Weights

P = TypeVar("P")


class Effective(nn.Module, ABC, Generic[P]):
    """Attention whose context vectors are computed without its weights; those are its effective map.

    c_i = Σ_j a_ij v_j, where the a_ij of a query are computed only if they are asked for

    A subclass prepares queries and keys once (`P`), sums values in time that grows with the number of tokens, and
    computes the weights of any queries from what was prepared.

    causal: whether a query attends to no key behind it. moves: whether training moves what has no gradient, if it has
    such. chooses: whether a query reads some keys alone, by what is prepared, in which `query` makes the scores. shown:
    whether weights are computed; else they are of no query, [batch, head, 0, key].

    Shapes: query [batch, head, query, d_q], key [batch, head, key, d_k], value [batch, head, key, d_v], mask boolean,
        True = is there, [batch, 1, 1, key] -> context vectors [batch, head, query, d_v], weights [batch, head, query,
        key].
    Raises: ShapeError where tensors do not fit.
    """

    takes_heads = True
    normalised = True  # the weights of a query sum to 1, to 0 where there is nothing to attend to
    signed = False
    moves = True
    chooses = False
    shown = True

    def __init__(self, *, causal: bool = False) -> None:
        super().__init__()
        self.causal = causal

    @abstractmethod
    def prepare(self, query: Tensor, key: Tensor, mask: Tensor | None) -> P:
        """What both the sums and the weights are made of."""

    @abstractmethod
    def sums(self, prepared: P, value: Tensor) -> Tensor:
        """Context vectors [batch, head, query, d_v]."""

    @abstractmethod
    def rows(self, prepared: P, index: Tensor) -> Tensor:
        """Weights of the queries `index` INT64 [row]: [batch, head, row, key]."""

    @property
    def makes(self) -> tuple[Weights, ...]:
        """Properties of its weights."""
        return (Weights(normalised=self.normalised, signed=self.signed),)

    def allowed(self, prepared: P, index: Tensor, key: Tensor, mask: Tensor | None) -> Tensor:
        """Keys that the queries `index` may attend to, broadcastable to [batch, head, row, key]."""
        if not self.causal:
            return key.new_ones((1, 1, 1, key.shape[2]), dtype=torch.bool) if mask is None else mask
        before = index.unsqueeze(-1) >= torch.arange(key.shape[2], device=key.device)
        return before if mask is None else before & mask

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor | None = None,
        mask: Tensor | None = None,
        context: Context | None = None,
    ) -> tuple[Tensor, Tensor]:
        value = key if value is None else value
        prepared = self._prepared(query, key, value, mask)
        index = asked_queries(query) if self.shown else torch.arange(0, device=query.device)
        weights = self.rows(prepared, index)
        return marked_effective(self.sums(prepared, value), weights, value, self.allowed(prepared, index, key, mask))

    def context_vectors(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor | None = None,
        mask: Tensor | None = None,
        context: Context | None = None,
    ) -> Tensor:
        """The context vectors alone."""
        value = key if value is None else value
        return self.sums(self._prepared(query, key, value, mask), value)

    def _prepared(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> P:
        for tensor, name in ((query, "query"), (key, "key"), (value, "value")):
            require_axes(tensor, name, f"batch, head, {'query' if name == 'query' else 'key'}, d")
        if mask is not None and (mask.dim() != 4 or mask.shape[-2] != 1):
            raise ShapeError(f"mask must be [batch, 1, 1, key], of keys alone; its shape is {list(mask.shape)}")
        if self.causal and not torch.compiler.is_exporting() and query.shape[2] != key.shape[2]:
            raise ShapeError(f"causal attention is of a sequence to itself; {query.shape[2]} and {key.shape[2]} differ")
        return self.prepare(query, key, mask)


@contextlib.contextmanager
def without_maps(network: nn.Module) -> Iterator[None]:
    """Compute no effective map of a network in this block, whose time and memory then grow with the tokens alone."""
    hidden: list[Effective[Any]] = [each for each in network.modules() if isinstance(each, Effective) and each.shown]
    for each in hidden:
        each.shown = False
    try:
        yield
    finally:
        for each in hidden:
            each.shown = True
