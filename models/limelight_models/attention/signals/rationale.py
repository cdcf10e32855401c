"""Preliminary training (I2): an attention learns from rationales first, and is then plugged into another model."""

from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from limelight_models.attention.alignment import in_single, keep
from limelight_models.attention.combine import weighted_sum
from limelight_models.attention.errors import require_features
from limelight_models.attention.signals.mean import mean_where
from limelight_models.attention.weights import Weights

NEUTRAL = 0  # the class of what is no rationale


def rationale_loss(logits: Tensor, label: Tensor, mask: Tensor | None = None) -> Tensor:
    """Each key learns which rationale it is: of the first class, of the second …, or none (Zhang et al. 2016, §4;
    survey G §4.1.1).

    L = -log softmax(z_l)[y_l], mean over keys; y_l = 0 for a neutral key, c for a rationale of class c

    Shapes: logits [batch, key, 1 + class], label integer [batch, key], mask [batch, key] -> a number.
    """
    losses = cross_entropy(in_single(logits).flatten(0, 1), label.flatten(), reduction="none")
    return mean_where(losses.unflatten(0, label.shape), mask)


def rationale_weights(logits: Tensor, mask: Tensor | None = None) -> Tensor:
    """Probability that a key is a rationale of some class, used as its weight (Zhang et al. 2016, eq. 4).

    a_l = max_{c ≥ 1} softmax(z_l)[c], the neutral class left out

    Shapes: logits [batch, key, 1 + class], mask [batch, key] -> weights [batch, key], which sum to anything.
    """
    return keep(logits.softmax(-1)[..., NEUTRAL + 1 :].amax(-1), mask)


class RationaleAttention(nn.Module):
    """Attention whose weights are a classifier of rationales (Zhang et al. 2016, eq. 3–4; survey G §4.1.1).

    z_l = W k_l + b;  a_l = max_{c ≥ 1} softmax(z_l)[c];  c = Σ_l a_l k_l

    It is trained with `rationale_loss` first, then plugged into a model by `transfer`. With two classes of documents
    keys have three: neutral, for one, for the other.

    Shapes: features [batch, key, d_k], mask [batch, key] -> context vector [batch, d_k], weights [batch, 1, 1, key].
    Raises: ShapeError where d_k differs from what it was built for.
    """

    def __init__(self, *, d_k: int, classes: int = 2) -> None:
        super().__init__()
        self.d_k = d_k
        self.judge = nn.Linear(d_k, 1 + classes)

    @property
    def makes(self) -> tuple[Weights, ...]:
        """Properties of its weights: each is a probability of its own, whatever the others are."""
        return (Weights(normalised=False),)

    def forward(self, features: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        weights = rationale_weights(self.logits(features), mask)[:, None, None, :]
        return weighted_sum(weights, features.unsqueeze(1)).flatten(1), weights

    def logits(self, features: Tensor) -> Tensor:
        """z [batch, key, 1 + class]."""
        require_features(features, "features", self.d_k, self)
        logits: Tensor = self.judge(features)
        return logits


def transfer(source: nn.Module, target: nn.Module, *, freeze: bool = True) -> None:
    """Plug what `source` has learned into `target`, which has the same parameters; frozen unless told otherwise.

    Raises: RuntimeError where the two differ in their parameters.
    """
    target.load_state_dict(source.state_dict())
    target.requires_grad_(not freeze)
