"""The general attention module around `Attention` (A1, A2) and attention as regression (A4)."""

from torch import Tensor, nn

from limelight_models.attention.context import Context
from limelight_models.attention.core import Attention
from limelight_models.attention.errors import require_axes
from limelight_models.attention.flat import attend
from limelight_models.attention.score.similarity import GaussianKernel
from limelight_models.attention.weights import AroundAttention, Weights, weights_of


class FeatureAttention(AroundAttention, nn.Module):
    """The general attention module: keys and values are linear maps of the features (survey BF eq. 1–4, Fig. 2).

    K = W_K F, V = W_V F;  e = score(q, K);  a = align(e);  c = Σ_l a_l v_l

    Shapes: features [batch, key, d_f], query [batch, query, d_q] or None (for a query-free score), mask broadcastable
        to [batch, head, query, key] -> context vectors [batch, query, head · d_v], the heads of a score that makes some
        side by side, weights [batch, head, query, key(, feature)].
    Raises: ShapeError where features or query do not fit.
    """

    attention: Attention

    def __init__(self, *, attention: Attention, d_f: int, d_k: int, d_v: int) -> None:
        super().__init__()
        self.attention = attention
        self.key_map = nn.Linear(d_f, d_k, bias=False)
        self.value_map = nn.Linear(d_f, d_v, bias=False)

    def forward(
        self, query: Tensor | None, features: Tensor, mask: Tensor | None = None, context: Context | None = None
    ) -> tuple[Tensor, Tensor]:
        require_axes(features, "features", "batch, key, d_f")
        return attend(self.attention, query, self.key_map(features), self.value_map(features), mask, context)


class TaskModel(nn.Module):
    """A task model: feature model, query model, attention model, output model (survey BF §2, Fig. 1).

    F = feature(x);  q = query(F);  c, a = attention(q, F);  ŷ = output(c)

    `query_model` maps the features to queries, or is None where the score needs no query.

    Shapes: inputs whatever the feature model takes -> outputs of the output model, weights of the attention model.
    """

    def __init__(
        self,
        *,
        feature_model: nn.Module,
        query_model: nn.Module | None,
        attention_model: nn.Module,
        output_model: nn.Module,
    ) -> None:
        super().__init__()
        self.feature_model, self.query_model = feature_model, query_model
        self.attention_model, self.output_model = attention_model, output_model

    @property
    def makes(self) -> tuple[Weights, ...]:
        """Properties of the attention model's weights."""
        return weights_of(self.attention_model)

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        features = self.feature_model(inputs)
        query = None if self.query_model is None else self.query_model(features)
        context_vectors, weights = self.attention_model(query, features, mask=mask)
        return self.output_model(context_vectors), weights


class NadarayaWatson(Attention):
    """Kernel regression as attention (Nadaraya 1964, Watson 1964; survey C §2).

    ŷ(x) = Σ_i a_i y_i, a_i = K(x - x_i) / Σ_j K(x - x_j), K(u) = exp(-‖u‖² / 2h²)

    Shapes: query x [batch, head, query, d], key x_i [batch, head, key, d], value y_i [batch, head, key, d_y]
        -> predictions [batch, head, query, d_y], weights [batch, head, query, key].
    """

    def __init__(self, *, bandwidth: float) -> None:
        super().__init__(score=GaussianKernel(bandwidth=bandwidth, log=True))
