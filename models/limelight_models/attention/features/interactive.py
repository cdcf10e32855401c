"""Interactive co-attention (G2): each input is asked with the average of the other."""

from torch import Tensor, nn

from limelight_models.attention.features.pair import Pair
from limelight_models.attention.flat import Contexts, contexts_for
from limelight_models.attention.queries.specialised import AverageQuery
from limelight_models.attention.weights import Weights, weights_of


class Interactive(nn.Module):
    """Interactive, coarse-grained co-attention (Ma et al. 2017, eq. 3–6; survey BF eq. 10–11).

    q¹ = average(F²), q² = average(F¹);  c¹ = attention of q¹ over F¹;  c² = attention of q² over F²

    Shapes: first [batch, first, d_1], second [batch, second, d_2], masks [batch, position]
        -> Pair of context vectors [batch, d], Pair of weights [batch, head, 1, position].
    """

    def __init__(self, *, over_first: nn.Module, over_second: nn.Module) -> None:
        super().__init__()
        self.over_first, self.over_second = AverageQuery(attention=over_first), AverageQuery(attention=over_second)

    @property
    def makes(self) -> tuple[Weights, ...]:
        """Those over the first input, then those over the second."""
        return weights_of(self.over_first, self.over_second)

    def forward(
        self,
        first: Tensor,
        second: Tensor,
        first_mask: Tensor | None = None,
        second_mask: Tensor | None = None,
        contexts: Contexts = None,
    ) -> tuple[Pair, Pair]:
        first_context, second_context = contexts_for(contexts, Pair._fields)
        of_first, first_weights = self.over_first(second, first, second_mask, first_mask, first_context)
        of_second, second_weights = self.over_second(first, second, first_mask, second_mask, second_context)
        return Pair(of_first, of_second), Pair(first_weights, second_weights)
