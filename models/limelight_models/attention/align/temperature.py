"""Self-adaptive temperature (C11): the query decides how soft its attention is."""

from torch import Tensor, nn

from limelight_models.attention.alignment import Align, softmax
from limelight_models.attention.context import Context
from limelight_models.attention.errors import ShapeError, require_features


class SelfAdaptiveTemperature(Align):
    """Softmax with a temperature that follows from the query (Lin et al. 2018b, eq. 4–6; survey G §3.3).

    a = softmax(e / τ), τ = λ^β, β = tanh(wᵀ q_t + uᵀ c_{t-1}): softer up to τ = λ, harder down to τ = 1 / λ

    c_{t-1} is context.previous_context, what attention found at the step before; zeros at the first step. Without `d_c`
    the query alone decides, for queries that are no steps.

    Shapes: scores [..., query, key], context.query [batch, head, query, d_q], context.previous_context
        [batch, head, query, d_c] -> weights of the scores' shape.
    Raises: ShapeError where there is no query, or d_q or d_c differ; ValueError where λ ≤ 1.
    """

    needs_query = True

    def __init__(self, *, d_q: int, d_c: int | None = None, base: float = 4.0) -> None:
        super().__init__()
        if base <= 1:
            raise ValueError(f"base (λ) must be greater than 1; it is {base}")
        self.d_q, self.d_c, self.base = d_q, d_c, base
        self.exponent = nn.Linear(d_q, 1, bias=False)
        self.found = None if d_c is None else nn.Linear(d_c, 1, bias=False)
        self.context_fields = () if d_c is None else ("previous_context",)

    def forward(self, scores: Tensor, mask: Tensor | None, context: Context) -> Tensor:
        return softmax(scores / self.temperature(context), mask)

    def temperature(self, context: Context) -> Tensor:
        """τ [batch, head, query, 1]."""
        if context.query is None:
            raise ShapeError("SelfAdaptiveTemperature takes the temperature from the query; there is none")
        require_features(context.query, "query", self.d_q, self)
        exponent = self.exponent(context.query)
        if self.found is not None and context.previous_context is not None:
            require_features(context.previous_context, "previous context", self.d_c, self)
            exponent = exponent + self.found(context.previous_context)
        return self.base ** exponent.tanh()
