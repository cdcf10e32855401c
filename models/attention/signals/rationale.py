"""Preliminary training (I2): an attention learns from rationales first, and is then plugged into another model."""

from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from models.attention.align.base import in_single, keep
from models.attention.signals.mean import mean_where


def rationale_loss(scores: Tensor, rationale: Tensor, mask: Tensor | None = None) -> Tensor:
    """Scores learn to say whether a key belongs to a rationale (Zhang et al. 2016, §4; survey G §4.1.1).

    L = -[r_l log sigmoid(e_l) + (1 - r_l) log(1 - sigmoid(e_l))], mean over keys

    Shapes: scores and rationale (0 or 1, or people's agreement between) [batch, head, query, key], mask broadcastable
        to it -> a number.
    """
    losses = binary_cross_entropy_with_logits(in_single(scores), in_single(rationale), reduction="none")
    return mean_where(losses, mask)


def rationale_weights(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """The probability that a key belongs to a rationale, used as its weight (Zhang et al. 2016, eq. 4).

    It is what `Sigmoid` alignment gives, so `Attention(score=…, align=Sigmoid())` is the model that is plugged in.

    Shapes: scores [..., query, key] -> weights of the same shape.
    """
    return keep(scores.sigmoid(), mask)


def transfer(source: nn.Module, target: nn.Module, *, freeze: bool = True) -> None:
    """Plug what `source` has learned into `target`, which has the same parameters; frozen unless told otherwise.

    Raises: RuntimeError where the two differ in their parameters.
    """
    target.load_state_dict(source.state_dict())
    target.requires_grad_(not freeze)
