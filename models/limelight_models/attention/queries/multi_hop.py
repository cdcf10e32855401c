"""Multi-hop attention (H5): the same features asked again, with what was found."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from limelight_models.attention.context import Context
from limelight_models.attention.errors import CombinationError
from limelight_models.attention.flat import attend, require_one_row, share
from limelight_models.attention.queries.transforms import AddContext, QueryTransform
from limelight_models.attention.weights import Weights, weights_of


class MultiHop(nn.Module):
    """Several rounds of attention over the same features (survey BF eq. 41–42; Tran & Niederée 2018).

    q⁽ˢ⁺¹⁾ = transform(q⁽ˢ⁾, c⁽ˢ⁾);  e = score(q⁽ˢ⁺¹⁾, k), or score([q⁽ˢ⁺¹⁾; c⁽ˢ⁾], k) with `context_in_query`

    `hops=[attention] * 3` shares weights between hops, `hops=[a, b, c]` gives each its own. With `average_first`, as in
    the survey, c⁽⁰⁾ is the average of the values and the first query is transformed as well; without, as in memory
    networks, the first hop takes the query as it is.

    Shapes: query [batch, query, d_q], key [batch, key, d_k], value [batch, key, d_v] (default: key),
        mask broadcastable to [batch, head, query, key], context one for all hops or one a hop
        -> context vectors of the last hop [batch, query, d_v],
        weights [batch, head, hop · query, key(, feature)], the first hop's rows first.
    Raises: CombinationError at construction where there is no hop, an alignment gives several rows a query, or
        `context_in_query` is set without `average_first`, since the first query would have no context beside it.
    """

    def __init__(
        self,
        *,
        hops: Sequence[nn.Module],
        transform: QueryTransform | None = None,
        context_in_query: bool = False,
        average_first: bool = False,
    ) -> None:
        super().__init__()
        if not hops:
            raise CombinationError("multi-hop attention needs at least one hop")
        if context_in_query and not average_first:
            raise CombinationError(
                "context_in_query puts c beside the query of every hop, so the first needs average_first"
            )
        for attention in hops:
            require_one_row(attention, "the next hop asks one question for each")
        self.hops = nn.ModuleList(hops)
        self.transform = AddContext() if transform is None else transform
        self.context_in_query, self.average_first = context_in_query, average_first

    @property
    def makes(self) -> tuple[Weights, ...]:
        """Properties of the rows of all hops."""
        each = weights_of(*self.hops)
        return (
            replace(
                each[0],
                normalised=all(one.normalised for one in each),
                signed=any(one.signed for one in each),
            ),
        )

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor | None = None,
        mask: Tensor | None = None,
        context: Context | Sequence[Context] | None = None,
    ) -> tuple[Tensor, Tensor]:
        each = context if isinstance(context, Sequence) else [context] * len(self.hops)
        found = average_values(query, key if value is None else value, mask) if self.average_first else None
        maps = []
        for attention, hop_context in zip(self.hops, each, strict=True):
            if found is not None:
                query = self.transform(query, found)
            question = torch.cat([query, found], -1) if self.context_in_query and found is not None else query
            found, weights = attend(attention, question, key, value, mask, hop_context)
            maps.append(weights)
        assert found is not None
        return found, torch.cat(maps, 2)


def average_values(query: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """The first context c⁽⁰⁾: for each query the average of the values that it may attend to [batch, query, d_v]."""
    if mask is None:
        return value.mean(-2, keepdim=True).expand(-1, query.shape[-2], -1)
    allowed = mask.any(1).expand(value.shape[0], query.shape[-2], value.shape[-2])
    return share(allowed, value) @ value
