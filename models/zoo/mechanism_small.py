"""What small task models have besides answers: a loss, with what their mechanism wants to be trained by."""

from torch import Tensor
from torch.nn.functional import cross_entropy

from models.attention.signals.reinforce import MovingBaseline, reinforce_loss
from models.card import TaskModel


class SmallModel(TaskModel):
    """A classifier that knows its own loss.

    Where `forward` gives a `log_probability` [batch] of what was drawn, REINFORCE trains what drew it, the reward
    being the log-probability of the right class (Xu et al. 2015, §4.1); a `penalty` is added as it is.
    """

    def __init__(self) -> None:
        super().__init__()
        self.baseline = MovingBaseline()

    def loss(self, target: Tensor, **tensors: Tensor) -> Tensor:
        """Shapes: target integer [batch], tensors as for `forward` -> a number."""
        outputs = self(**tensors).outputs
        each = cross_entropy(outputs["logits"], target, reduction="none")
        loss = each.mean()
        if "log_probability" in outputs:
            reward = -each.detach()
            loss = loss + reinforce_loss(outputs["log_probability"], reward, self.baseline(reward))
        return loss + outputs["penalty"] if "penalty" in outputs else loss
