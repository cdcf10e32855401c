"""Further inputs of scores and alignments, besides the scores and the mask."""

from dataclasses import dataclass

import torch
from torch import Tensor

from limelight_models.attention.errors import MissingContextError


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """The frozen record that `Attention` hands to its score, alignment and combination.

    `Attention` fills query, key and mask; the caller gives what its mechanism needs, broadcastable to
    the shapes below. Positions default to 0, 1, 2, …

    Shapes: query [batch, head, query, d_q]; key [batch, head, key, d_k]; mask [batch, head, query, key];
        query_positions [batch, head, query]; key_positions [batch, head, key];
        previous_weights, coverage, upper_bounds, distances, noise [batch, head, query, key];
        query_noise [batch, head, query]; previous_context [batch, head, query, d_c].
    """

    query: Tensor | None = None
    key: Tensor | None = None
    mask: Tensor | None = None
    query_positions: Tensor | None = None
    key_positions: Tensor | None = None
    previous_weights: Tensor | None = None  # weights of the previous output step
    coverage: Tensor | None = None  # sum of the weights of all earlier output steps
    upper_bounds: Tensor | None = None  # the most weight that each key may still get
    distances: Tensor | None = None  # between query and key, on a tree or a graph
    noise: Tensor | None = None  # uniform in (0, 1): sampling takes its randomness from here
    query_noise: Tensor | None = None  # likewise, for draws about queries
    previous_context: Tensor | None = None  # context vectors of the previous output step

    def required(self, name: str, owner: object) -> Tensor:
        """The field `name`; MissingContextError where it was not given."""
        value = getattr(self, name)
        if value is None:
            raise MissingContextError(f"{type(owner).__name__} needs Context({name}=…)")
        tensor: Tensor = value
        return tensor

    def positions(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Query positions [..., query, 1] and key positions [..., 1, key] for scores [..., query, key]."""
        rows, columns = self.query_positions, self.key_positions
        if rows is None:
            rows = torch.arange(scores.shape[-2], device=scores.device)
        if columns is None:
            columns = torch.arange(scores.shape[-1], device=scores.device)
        return rows.unsqueeze(-1), columns.unsqueeze(-2)
