"""What small task models have besides answers: a loss, with what their mechanism wants to be trained by."""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from models.attention.signals.capsule import capsule_loss
from models.attention.signals.reinforce import MovingBaseline, reinforce_loss
from models.network import Network

ENTROPY_WEIGHT = 0.01  # λ_e of Xu et al. 2015, small beside rewards of the size of a cross-entropy


class SmallModel(Network):
    """A classifier that knows its own loss.

    In training `forward` puts out, beside the logits, what its mechanism is trained by:
    `log_probability` [batch] of what was drawn: REINFORCE, the reward being the log-probability of the right class
    (Xu et al. 2015, §4.1); `cost` [batch] of what was kept, which the reward pays for (Shen et al. 2018b, eq. 15);
    `entropy` [batch] of the draw, which is rewarded (Xu et al. 2015, eq. 13); `probability`, `reconstruction` and
    `average` of capsules: their joint loss in place of cross-entropy (Wang et al. 2018, eq. 6–8); `penalty`: added as
    it is.
    """

    def __init__(self) -> None:
        super().__init__()
        self.baseline = MovingBaseline()

    def loss(self, target: Tensor, **tensors: Tensor) -> Tensor:
        """Shapes: target integer [batch], tensors as for `forward` -> a number."""
        outputs = self(**tensors).outputs
        if "reconstruction" in outputs:
            capsules = outputs["probability"], outputs["reconstruction"], outputs["average"]
            return capsule_loss(*capsules, target)
        each = cross_entropy(outputs["logits"], target, reduction="none")
        loss = each.mean()
        if "log_probability" in outputs:
            reward = -each.detach() - outputs.get("cost", torch.zeros_like(each))
            loss = loss + reinforce_loss(
                outputs["log_probability"], reward, self.baseline(reward), outputs.get("entropy"), ENTROPY_WEIGHT
            )
        return loss + outputs["penalty"] if "penalty" in outputs else loss
