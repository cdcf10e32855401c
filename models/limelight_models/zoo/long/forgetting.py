"""Forgetting Transformer, T8 (Lin et al. 2025): softmax attention in which every token says how much of all before it
is to be forgotten.

§3 of the paper: logarithms of forget gates are added up from key to query, as a bias of the scores; without any
positions. Its weights are a matrix as ever, and as quadratic. Of the paper's two blocks this is the plain one, "LLaMA".
"""

from torch import Tensor

from limelight_models.attention import Attention
from limelight_models.attention.alignment import log_sigmoid
from limelight_models.attention.context import Context
from limelight_models.attention.queries.gated_keys import GatedKeys
from limelight_models.attention.scoring import Score
from limelight_models.recipes import Blueprint, Card, classifying_texts, preset
from limelight_models.zoo.long.encoder import LongConfig, LongEncoder, builtin, parts, presets


class Forgetting(Score):
    """e_ij = q_iᵀ k_j / √d + D_ij,  D_ij = Σ_{l=j+1}^{i} log f_l,  f = sigmoid(g) (eq. 5–7).

    Of a sequence to itself, j ≤ i. gated: whether tokens forget; else f = 1.

    Shapes: query [batch, head, token, d], key [k; g] [batch, head, token, d + 1] -> scores [batch, head, token, token].
    """

    key_order = True

    def __init__(self, *, gated: bool = True) -> None:
        super().__init__()
        self.gated = gated

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        scores = query @ key[..., :-1].transpose(-2, -1) * query.shape[-1] ** -0.5
        if not self.gated:
            return scores
        # Differences of the sums are small where weights are not, and the sums may be large.
        total = log_sigmoid(key[..., -1]).double().cumsum(-1)
        return scores + (total.unsqueeze(-1) - total.unsqueeze(-2)).clamp(max=0).to(scores.dtype)


class ForgettingConfig(LongConfig):
    """Sizes. gated: whether tokens forget."""

    placed, looks_back = False, True
    gated: bool = True

    def attention(self) -> Attention:
        return Attention(score=Forgetting(gated=self.gated))

    def multi_head(self, number: int) -> GatedKeys:
        return GatedKeys(self.attention(), d_model=self.d_model, heads=self.heads)


def card(network: LongEncoder, blueprint: Blueprint[ForgettingConfig]) -> Card:
    """Describe the model."""
    return blueprint.card(
        network,
        title="Forgetting Transformer",
        summary="Classifies a long text by attention in which each token says how much before it is forgotten.",
        taxonomy="scaled multiplicative, self-attentive, multi-head",
        citation="Lin, Nikishin, He, Courville (2025): Forgetting Transformer: Softmax Attention with a Forget Gate. "
        "ICLR",
        **parts(network, blueprint),
    )


# Its model of 760 million parameters: 24 layers of 24 heads. What it leaves out is as usual.
PRESETS = presets(
    preset(10, 32, 1e-3, patience=2, vocabulary=8000).sized(d_model=1536, layers=24, heads=24, d_hidden=4096)
)

FORGETTING_TRANSFORMER = classifying_texts(ForgettingConfig, LongEncoder, card, PRESETS, builtin=builtin)
FORGETTING_TRANSFORMER_UNGATED = FORGETTING_TRANSFORMER.changed(gated=False)
