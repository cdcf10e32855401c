"""Target-object hierarchy (E4): what a span says is the question to its text."""

from typing import NamedTuple

from torch import Tensor, nn

from limelight_models.attention.flat import Contexts, attend, contexts_for, over_keys
from limelight_models.attention.queries.pool import SelfAttentivePool
from limelight_models.attention.weights import Weights, weights_of


class TargetObjectWeights(NamedTuple):
    """Weights of both steps over the text [batch, head, 1, position]; `target` is zero outside the span."""

    target: Tensor
    text: Tensor


class TargetObject(nn.Module):
    """Attention over a target span, then over the text with it (Ma et al. 2018, §3.2–3.3; survey G §3.1.1).

    c^t = attention over the positions of the span;  c = attention of c^t over the text

    Shapes: text [batch, position, d], span boolean [batch, position], mask [batch, position]
        -> context vector [batch, d_v], TargetObjectWeights.
    """

    def __init__(self, *, over_target: SelfAttentivePool, over_text: nn.Module) -> None:
        super().__init__()
        self.over_target, self.over_text = over_target, over_text

    @property
    def makes(self) -> tuple[Weights, ...]:
        """Those of the target, then those of the text."""
        return weights_of(self.over_target, self.over_text)

    def forward(
        self, text: Tensor, span: Tensor, mask: Tensor | None = None, contexts: Contexts = None
    ) -> tuple[Tensor, TargetObjectWeights]:
        target_context, text_context = contexts_for(contexts, TargetObjectWeights._fields)
        inside = span if mask is None else span & mask
        target, target_weights = self.over_target(text, None, inside, target_context)
        vector, text_weights = attend(self.over_text, target.unsqueeze(1), text, None, over_keys(mask), text_context)
        return vector.flatten(1), TargetObjectWeights(target_weights, text_weights)
