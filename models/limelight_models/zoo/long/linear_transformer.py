"""Linear Transformer, M4 (Katharopoulos et al. 2020): softmax's place is taken by a kernel, and sums are of all keys.

§3.2 of the paper: the product φ(Q) (φ(K)ᵀ V) in the place of (φ(Q) φ(K)ᵀ) V, whose cost is linear in the tokens.
"""

from limelight_models.attention import Attention
from limelight_models.attention.effective.kernel import LinearAttention
from limelight_models.attention.score import ScaledDot
from limelight_models.recipes import Blueprint, Card, classifying_texts, preset
from limelight_models.zoo.long.encoder import LongConfig, LongEncoder, builtin, parts, presets


class LinearConfig(LongConfig):
    """Sizes. causal: whether a token looks at those before it alone (§3.3). softmax: attend as Transformers do."""

    causal: bool = False
    softmax: bool = False

    @property
    def looks_back(self) -> bool:
        return self.softmax and self.causal

    def attention(self) -> Attention | LinearAttention:
        return Attention(score=ScaledDot()) if self.softmax else LinearAttention(causal=self.causal)


def card(network: LongEncoder, blueprint: Blueprint[LinearConfig]) -> Card:
    """Describe the model."""
    return blueprint.card(
        network,
        title="Linear Transformer",
        summary="Classifies a long text by attention whose cost is linear in the tokens, as a kernel is summed first.",
        taxonomy="scoring: generalised kernel, self-attentive, multi-head",
        citation="Katharopoulos, Vyas, Pappas, Fleuret (2020): Transformers are RNNs: Fast Autoregressive Transformers "
        "with Linear Attention. ICML",
        **parts(network, blueprint),
    )


# Its encoder of speech (§4.3): 9 layers of 6 heads of 32 features. What it leaves out is as usual.
PRESETS = presets(
    preset(300, 10, 1e-4, patience=300, vocabulary=8000).sized(d_model=192, layers=9, heads=6, d_hidden=768)
)
PRESETS["tiny"] = PRESETS["tiny"].sized(layers=2)

LINEAR_TRANSFORMER = classifying_texts(LinearConfig, LongEncoder, card, PRESETS, builtin=builtin)
LINEAR_TRANSFORMER_CAUSAL = LINEAR_TRANSFORMER.changed(causal=True)
# What the paper and all others of this package are compared with; those that look back, with the second.
LINEAR_TRANSFORMER_SOFTMAX = LINEAR_TRANSFORMER.changed(softmax=True)
LINEAR_TRANSFORMER_SOFTMAX_CAUSAL = LINEAR_TRANSFORMER_SOFTMAX.changed(causal=True)
