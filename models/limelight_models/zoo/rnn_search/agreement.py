"""Agreement-based joint training, R8 (Cheng et al. 2016): two translators, one each way, which look at the same words.

§3 of the paper: RNNsearch from source to target and another from target to source learn together, and pay where their
alignments differ. What is served is the first; the other is a teacher, and no part of its answers. Ours begins with
random weights, where the paper's two have been trained alone before.
"""

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from limelight_models.network import Answer
from limelight_models.recipes import Blueprint, Card
from limelight_models.recipes.rewriting import rewriting
from limelight_models.zoo.rnn_search.rnn_search import PRESETS, RnnSearch, RnnSearchConfig, parts


class AgreementConfig(RnnSearchConfig):
    """Sizes of either direction. agreement: λ, what disagreement of one pair of texts costs; the paper has 1."""

    agreement: float = 1.0


class Agreement(RnnSearch):
    """Text -> text, taught together with a network of the other direction.

    J = Σ_n log p(y|x) + log p(x|y) - λ Δ(A, B),  Δ(A, B) = -log Σ_ij A_ij B_ji (paper §3, agreement by multiplication)

    A_ij is the weight of output i over source token j, B_ji that of the other direction's output j over its source
    token i. Of the target's end token, which has no partner in the source, no agreement is asked.

    Shapes: as `RnnSearch`; in training target_mask bool [batch, output] as well, and signals `other` [batch], the
        other direction's -log p(x|y), and `disagreement` [batch], Δ.
    """

    def __init__(self, config: AgreementConfig) -> None:
        super().__init__(config)
        self.price = config.agreement
        # Its sequences begin with padding, a vector that stays as it was drawn: a source has no token to begin with.
        turned = replace(
            config, source_vocabulary=config.target_vocabulary, target_vocabulary=config.source_vocabulary, begin=0
        )
        self.other = RnnSearch(turned)

    def forward(self, **tensors: Tensor) -> Answer:
        answer = super().forward(**tensors)
        if not self.training:
            return answer
        source, target, mask = tensors["source_ids"], tensors["target_ids"], tensors["source_mask"]
        other = self.other(source_ids=target, source_mask=tensors["target_mask"], target_ids=source)
        losses = cross_entropy(other.outputs["scores"].transpose(1, 2), source, reduction="none") * mask
        inner = tensors["target_mask"] & (target != self.config.end)
        apart = disagreement(answer.maps["decoder.cross"], other.maps["decoder.cross"], mask, inner)
        return replace(answer, signals={"other": losses.sum(1), "disagreement": apart})

    def objective(self, losses: Tensor, answer: Answer, target: Tensor) -> Tensor:
        """Both directions' losses, and the price of each pair of texts that they align otherwise."""
        if not answer.signals:
            return losses.sum()
        return losses.sum() + (answer.signals["other"] + self.price * answer.signals["disagreement"]).sum()


def disagreement(onward: Tensor, back: Tensor, source: Tensor, target: Tensor) -> Tensor:
    """-log Σ_ij A_ij B_ji, over tokens that masks allow.

    Shapes: onward A [batch, 1, target, source], back B [batch, 1, source, target], masks bool [batch, source] and
        [batch, target] -> [batch]; a pair without such tokens gives a large number and no gradient.
    """
    both = (onward * back.transpose(-2, -1))[:, 0] * (target.unsqueeze(-1) & source.unsqueeze(-2))
    return -torch.log(both.sum((1, 2)).clamp(min=torch.finfo(both.dtype).tiny))


def card(network: Agreement, blueprint: Blueprint[AgreementConfig]) -> Card:
    """Describe the model."""
    return blueprint.card(
        network,
        title="RNNsearch with agreement of two directions",
        summary="Rewrites a text token by token, looking where a model that rewrites it back would look.",
        taxonomy="additive",
        citation="Cheng, Shen, He, He, Wu, Sun, Liu (2016): Agreement-Based Joint Training for Bidirectional "
        "Attention-Based Neural Machine Translation. IJCAI",
        **parts(network, blueprint),
    )


AGREEMENT = rewriting(AgreementConfig, Agreement, card, PRESETS)
# Both directions learn beside each other, and never hear of each other.
AGREEMENT_APART = AGREEMENT.changed(agreement=0.0)
