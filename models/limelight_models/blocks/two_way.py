"""Attention between two inputs, both ways at once."""

from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.features import Pair
from limelight_models.attention.features.parallel import side
from limelight_models.attention.features.perceptron import both_ways
from limelight_models.attention.flat import over_keys
from limelight_models.attention.scoring import Score
from limelight_models.attention.weights import Weights, weights_of


class TwoWay(nn.Module):
    """Each position of one input to those of the other, and by way of them to its own (Xiong et al. 2017, §2.2).

    S = score(x, y);  A = M₁ Y;  B = M₁ M₂ X;  M₁ = softmax of S along Y, M₂ = softmax of Sᵀ along X

    Context–query attention of QANet (Yu et al. 2018, §2.2), and co-attention of PSAC's code (Li et al. 2019).

    Shapes: first X [batch, first, d], second Y [batch, second, d], their masks bool [batch, position], of X None where
        nothing of it is padding -> Pair of A and B [batch, first, d], Pair of weights [batch, 1, first, second] and
        [batch, 1, second, first], zero at padding.
    """

    def __init__(self, score: Score) -> None:
        super().__init__()
        self.attention = Attention(score=score)

    @property
    def makes(self) -> tuple[Weights, ...]:
        """Those of the first input, over the second; then those of the second, over the first."""
        return weights_of(self.attention, self.attention)

    def forward(
        self, first: Tensor, second: Tensor, mask: Tensor, first_mask: Tensor | None = None
    ) -> tuple[Pair, Pair]:
        x = side(first.unsqueeze(1), over_keys(first_mask), None)
        y = side(second.unsqueeze(1), over_keys(mask), None)
        affinity = self.attention.score(x.features, y.features, y.context)
        to_second, to_first = both_ways(affinity, x, y, self.attention.align)
        to_first = to_first * mask[:, None, :, None]  # padding asks for nothing
        if first_mask is not None:
            to_second = to_second * first_mask[:, None, :, None]
        found, returned = to_second @ y.features, to_second @ (to_first @ x.features)
        return Pair(found.squeeze(1), returned.squeeze(1)), Pair(to_second, to_first)
