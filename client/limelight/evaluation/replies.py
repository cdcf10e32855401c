"""The part of an answer that is compared: a label, a text, and the probability of each class."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from limelight.base.errors import Internal
from limelight.descriptions import Model
from limelight.predictions import Classification, Prediction

COMPARED = ("classification", "generation", "spans")
"""Tasks whose answers are compared."""


@dataclass(frozen=True)
class Reply:
    """The answer to an instance.

    Attributes:
        distribution: [class], in the model's order; None for a model without classes.
        chances: [token], of a generated text: probability of each token after those before it; None where not known.
    """

    text: str
    probability: float
    distribution: NDArray[np.float64] | None
    chances: NDArray[np.float64] | None = None


def read_reply(model: Model, prediction: Prediction) -> Reply:
    """Read the answer of a model whose task is in `COMPARED`. A span that no text answers is the empty text."""
    if model.task == "classification":
        classes = next((each for each in prediction.results.values() if isinstance(each, Classification)), None)
        if classes is None or not classes.classes:
            return Reply("", float("nan"), None)
        distribution = np.zeros(len(classes.classes))
        if {each.index for each in classes.classes} != set(range(len(distribution))):
            raise Internal(
                f"the server's answer is inconsistent: its {len(distribution)} classes are not numbered as such"
            )
        for each in classes.classes:
            distribution[each.index] = each.probability
        return Reply(classes.classes[0].label, classes.classes[0].probability, distribution)
    if model.task == "spans":
        best = prediction.spans[0] if prediction.spans else None
        none = prediction.none_probability or 0.0
        if best is None or none > best.probability:
            return Reply("", none, None)
        return Reply(best.text, best.probability, None)
    probability = prediction.probability
    logs = np.array(prediction.sequences[0].log_probabilities if prediction.sequences else (), np.float64)
    chances = np.exp(logs) if logs.size else None
    return Reply(prediction.text or "", float("nan") if probability is None else probability, None, chances)
