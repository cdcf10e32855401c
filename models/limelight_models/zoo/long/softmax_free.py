"""SOFT, M12 (Lu et al. 2021): a Gaussian kernel of distances takes softmax's place, through a few landmarks.

Fig. 2 of the paper. Queries are their own keys (§3.1). The paper pools the tokens of a picture by a convolution; a text
has no grid, and its landmarks are means of its segments.
"""

from torch import Tensor

from limelight_models.attention.effective.latents import Latents, LatentSums, gaussian, segment_means
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.recipes import Blueprint, Card, classifying_texts, preset
from limelight_models.zoo.long.encoder import LongConfig, LongEncoder, builtin, parts, presets


class SoftAttention(LatentSums):
    """Ŝ V, Ŝ = Pᵀ A⁺ P, A = κ(Q̃, Q̃), P = κ(Q̃, K) with K = Q, κ(x, y) = exp(-‖x - y‖² / 2√d) (§3.1–3.2).

    Q̃ are landmarks of the queries, A⁺ an inverse by Newton's steps. Weights have any sum, and may be negative.

    Shapes: as `LatentSums`, of as many queries as keys.
    """

    normalised, signed = False, True

    def __init__(self, *, landmarks: int) -> None:
        super().__init__()
        self.landmarks = landmarks

    def prepare(self, query: Tensor, key: Tensor, mask: Tensor | None) -> Latents:
        means = segment_means(query, key, mask, self.landmarks)
        there, pooled = means.sum(-1, keepdim=True) > 0, means @ query
        among = gaussian(pooled, pooled) * there * there.transpose(-2, -1)
        inward = gaussian(pooled, key) * (there if mask is None else there & mask)
        return Latents(gaussian(query, pooled) @ newton_inverse(among), inward)


def newton_inverse(kernel: Tensor, steps: int = 20) -> Tensor:
    """Approach the Moore–Penrose inverse of symmetric, positive kernel values (Algorithm 1).

    A_{k+1} = 2 A_k - A_k A A_k,  A_0 = A / ‖A‖₁²

    Twice that A_0 is the paper's bound; at it the steps never leave it where all rows have one sum.

    Shapes: [batch, head, landmark, landmark] -> the same; rows and columns of zeros stay such.
    """
    largest = kernel.sum(-1).amax(-1).clamp(min=1)  # less than 1 only where there are no landmarks
    found = kernel / largest.square()[..., None, None]
    for _ in range(steps):
        found = 2 * found - found @ kernel @ found
    return found


class SoftConfig(LongConfig):
    """Sizes. landmarks: segments of a text."""

    landmarks: int = 49

    def attention(self) -> SoftAttention:
        return SoftAttention(landmarks=self.landmarks)

    def multi_head(self, number: int) -> MultiHead:
        """Queries are the keys."""
        made = super().multi_head(number)
        made.key_map = made.query_map
        return made


def card(network: LongEncoder, blueprint: Blueprint[SoftConfig]) -> Card:
    """Describe the model."""
    return blueprint.card(
        network,
        title="SOFT",
        summary="Classifies a long text by a Gaussian kernel of its tokens' distances, estimated from landmarks.",
        taxonomy="scoring: similarity, alignment: none, self-attentive, multi-head",
        citation="Lu, Yao, Zhang, Zhu, Xu, Gao, Xu, Xiang, Zhang (2021): SOFT: Softmax-free Transformer with Linear "
        "Complexity. NeurIPS",
        **parts(network, blueprint),
    )


# The sizes of a deep stage of SOFT-Tiny, whose four stages of pictures shrink; a text keeps its length.
PRESETS = presets(
    preset(300, 1024, 5e-4, patience=300, vocabulary=8000).sized(d_model=320, layers=12, heads=5, d_hidden=1280)
)

SOFTMAX_FREE = classifying_texts(SoftConfig, LongEncoder, card, PRESETS, builtin=builtin)
