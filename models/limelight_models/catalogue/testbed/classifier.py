"""Answers of small task models, and the training signals that their mechanism needs."""

import torch
from torch import Tensor

from limelight_models.attention.signals.capsule import capsule_loss
from limelight_models.attention.signals.reinforce import MovingBaseline, reinforce_loss
from limelight_models.network import Answer, Network

ENTROPY_WEIGHT = 0.01  # λ_e of Xu et al. 2015, small beside rewards of the size of a cross-entropy
PRICE = 0.01  # λ of reinforced sampling, for keeping every token
SPAN_PRICE = 0.01  # λ of adaptive spans, a word


class SmallModel(Network):
    """A classifier whose mechanism may have a training signal of its own.

    Signals: `log_probability` [batch] of what was drawn: REINFORCE, the reward being the log-probability of the right
    class (Xu et al. 2015, §4.1), less the `cost` [batch] of what was kept (Shen et al. 2018b, eq. 15), and the
    `entropy` [batch] of the draw being rewarded (Xu et al. 2015, eq. 13); `span`: paid for; `probability`,
    `reconstruction` and `average` of capsules: their joint loss in place of cross-entropy (Wang et al. 2018, eq. 6–8);
    `penalty`: added as it is.
    """

    def __init__(self) -> None:
        super().__init__()
        self.baseline = MovingBaseline()

    def objective(self, losses: Tensor, answer: Answer, target: Tensor) -> Tensor:
        """Signals are means over the batch, so each counts once an example."""
        signals, count = answer.signals, len(losses)
        if "reconstruction" in signals:
            capsules = signals["probability"], signals["reconstruction"], signals["average"]
            return count * capsule_loss(*capsules, target)
        loss = losses.sum()
        if "log_probability" in signals:
            reward = -losses.detach() - PRICE * signals.get("cost", torch.zeros_like(losses))
            drawn = signals["log_probability"], reward, self.baseline(reward), signals.get("entropy"), ENTROPY_WEIGHT
            loss = loss + count * reinforce_loss(*drawn)
        if "span" in signals:
            loss = loss + count * SPAN_PRICE * signals["span"]
        return loss + count * signals["penalty"] if "penalty" in signals else loss
