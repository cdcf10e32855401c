"""Stick-breaking attention, T10 (Tan et al. 2024): back from a token, each one breaks its share off what is left.

§2 of the paper: the nearest token that fits takes most, so that no positions are needed. Its weights are a matrix as
ever, and as quadratic. The block around is the plain Transformer's.
"""

from torch import Tensor

from limelight_models.attention import Attention
from limelight_models.attention.alignment import Align, both, keep, log_sigmoid
from limelight_models.attention.context import Context
from limelight_models.attention.score import ScaledDot
from limelight_models.recipes import Blueprint, Card, classifying_texts, preset
from limelight_models.zoo.long.encoder import LongConfig, LongEncoder, builtin, parts, presets


class StickBreaking(Align):
    """a_ij = β_ij Π_{j<l<i} (1 - β_il),  β = sigmoid(e), over the keys before the query (eq. 1–3).

    In logarithms (eq. 5): log a_ij = e_ij - Σ_{j≤l<i} log(1 + exp(e_il)). A query before which there is nothing gets
    zeros. What is left of the stick is given to nothing.

    Shapes: scores [..., query, key] -> weights of the same shape, whose sums are at most 1.
    """

    normalised = False
    shift_invariant = False
    scale_hardens = False
    key_order = True

    def forward(self, scores: Tensor, mask: Tensor | None, context: Context) -> Tensor:
        query, key = context.positions(scores)
        allowed = both(mask, key < query)
        left = keep(log_sigmoid(-scores), allowed).double()
        # From the query back: Σ_{j<l<i}, as what is broken off up to j is taken from all.
        passed = left.sum(-1, keepdim=True) - left.cumsum(-1)
        return keep((log_sigmoid(scores) + passed.to(scores.dtype)).exp(), allowed)


class StickBreakingConfig(LongConfig):
    """Sizes. softmax: attend as Transformers do, without positions too."""

    placed, looks_back = False, True
    softmax: bool = False

    def attention(self) -> Attention:
        return Attention(score=ScaledDot(), align=None if self.softmax else StickBreaking())


def card(network: LongEncoder, blueprint: Blueprint[StickBreakingConfig]) -> Card:
    """Describe the model."""
    return blueprint.card(
        network,
        title="Stick-breaking Transformer",
        summary="Classifies a long text by attention in which nearer tokens take their shares first.",
        taxonomy="scaled multiplicative, alignment: stick-breaking, self-attentive, multi-head",
        citation="Tan, Yang, Courville, Panda, Shen (2024): Scaling Stick-Breaking Attention: An Efficient "
        "Implementation and In-depth Study. ICLR",
        **parts(network, blueprint),
    )


# Its model of a billion parameters: 40 layers of 24 heads. What it leaves out is as usual.
PRESETS = presets(
    preset(10, 32, 3e-4, patience=2, vocabulary=8000).sized(d_model=1536, layers=40, heads=24, d_hidden=4096)
)

STICK_BREAKING = classifying_texts(StickBreakingConfig, LongEncoder, card, PRESETS, builtin=builtin)
STICK_BREAKING_SOFTMAX = STICK_BREAKING.changed(softmax=True)
