"""Training signals for attention besides the task's loss (rows I of the catalogue; G §4, S §3).

Everything here is a function of weights, scores or log-probabilities that gives a number to add to the loss, already
averaged over what is not padding. Padding takes part in none of it. Half precision is summed in float32.
"""

from limelight_models.attention.signals.auxiliary import syntax_head_loss
from limelight_models.attention.signals.capsule import capsule_loss
from limelight_models.attention.signals.coverage import (
    CoverageVectors,
    Fertility,
    coverage,
    coverage_penalty,
    fertility_coverage,
)
from limelight_models.attention.signals.delay import average_lagging, expected_delays, slowest, spread
from limelight_models.attention.signals.disagreement import output_agreement, position_agreement, subspace_agreement
from limelight_models.attention.signals.distillation import distillation_loss
from limelight_models.attention.signals.doubly_stochastic import doubly_stochastic_penalty
from limelight_models.attention.signals.rationale import RationaleAttention, rationale_loss, rationale_weights, transfer
from limelight_models.attention.signals.reinforce import (
    MovingBaseline,
    reinforce_loss,
    selection_cost,
    selection_log_probability,
)
from limelight_models.attention.signals.span import span_penalty
from limelight_models.attention.signals.supervised import (
    gold_cross_entropy,
    gold_gates,
    gold_overlap,
    gold_squared_error,
)

__all__ = [
    "CoverageVectors",
    "Fertility",
    "MovingBaseline",
    "RationaleAttention",
    "average_lagging",
    "capsule_loss",
    "coverage",
    "coverage_penalty",
    "distillation_loss",
    "doubly_stochastic_penalty",
    "expected_delays",
    "fertility_coverage",
    "gold_cross_entropy",
    "gold_gates",
    "gold_overlap",
    "gold_squared_error",
    "output_agreement",
    "position_agreement",
    "rationale_loss",
    "rationale_weights",
    "reinforce_loss",
    "selection_cost",
    "selection_log_probability",
    "slowest",
    "span_penalty",
    "spread",
    "subspace_agreement",
    "syntax_head_loss",
    "transfer",
]
