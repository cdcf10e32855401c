"""Classes of texts and of pairs of texts, or their numbers, each with a name and a score."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from limelight.v1 import model_pb2
from limelight_service.codecs.doors.rows import Gives, per_model, takes_pairs, takes_texts
from limelight_service.codecs.json.numbers import written
from limelight_service.frontend.calls import CheckedCall, Prediction
from limelight_service.frontend.results import Classes, Numbers, probabilities
from limelight_service.frontend.schema import ModelSchema

NUMBER = 24  # bytes of a number in JSON, at most
# From scores to probabilities, by the names that Hugging Face's pipelines have for them.
FUNCTIONS = {
    "none": model_pb2.ACTIVATION_UNSPECIFIED,
    "sigmoid": model_pb2.ACTIVATION_SIGMOID,
    "softmax": model_pb2.ACTIVATION_SOFTMAX,
}


@per_model
def class_result(schema: ModelSchema) -> model_pb2.ResultDescription | None:
    """Find the result that is classes, or numbers, of a whole text or pair; None where there is none."""
    if not takes_texts(schema) and not takes_pairs(schema):
        return None
    for each in schema.results:
        classes = each.classes
        if each.HasField("regression") or (
            each.HasField("classes") and not (classes.label_set or classes.class_label_set)
        ):
            return each
    return None


def label_names(result: model_pb2.ResultDescription) -> list[str]:
    """Name the classes, or the numbers, in the model's order."""
    if result.HasField("regression"):
        return [each.name for each in result.regression.targets]
    return [name or f"LABEL_{place}" for place, name in enumerate(result.classes.labels)]


@per_model
def pair_result(schema: ModelSchema) -> str:
    """Name the result that is one number for a pair of texts; empty where there is none."""
    found = class_result(schema) if takes_pairs(schema) else None
    return found.name if found is not None and len(label_names(found)) == 1 else ""


def pair_score(checked: CheckedCall, prediction: Prediction, *, name: str) -> tuple[float, int]:
    """Give the number of a pair, as Predict does, and its bytes in JSON at most. name: of `pair_result`."""
    result = prediction.results[name]
    if isinstance(result, Classes):
        return result.probabilities[0], NUMBER
    assert isinstance(result, Numbers)
    return result.numbers[0].value, NUMBER


CLASSIFIES = Gives("classifies a text or a pair", lambda schema: class_result(schema) is not None)
CLASSIFIES_TEXTS = Gives("classifies a text", lambda schema: takes_texts(schema) and CLASSIFIES.of(schema))
CLASSIFIES_PAIRS = Gives("classifies a pair", lambda schema: takes_pairs(schema) and CLASSIFIES.of(schema))
SCORES = Gives("scores a pair of texts", lambda schema: bool(pair_result(schema)))


@dataclass(frozen=True)
class Scoring:
    """Classes with scores, or numbers. function: from raw scores of classes; None for the model's own. most: None for
    all.
    """

    result: model_pb2.ResultDescription
    function: str | None
    most: int | None

    @property
    def outputs(self) -> tuple[str, ...]:
        """Name the raw outputs that are read."""
        return () if self.function is None else (self.result.classes.output,)

    def read(self, checked: CheckedCall, prediction: Prediction) -> tuple[bytes, int]:
        """Write the classes of a row, highest score first."""
        names, found = label_names(self.result), prediction.results[self.result.name]
        pairs: Sequence[tuple[int, float]]
        if self.function is not None:
            raw = prediction.outputs[self.result.classes.output].reshape(-1)
            scores = probabilities(raw, FUNCTIONS[self.function])
            pairs = [(int(place), float(scores[place])) for place in np.argsort(-scores, kind="stable")]
        elif isinstance(found, Classes):
            pairs = list(zip(found.indices, found.probabilities, strict=True))
        else:
            assert isinstance(found, Numbers)
            values = [each.value for each in found.numbers]
            pairs = sorted(enumerate(values), key=lambda each: -each[1])
        rows: list[dict[str, Any]] = [{"score": score, "label": names[place]} for place, score in pairs[: self.most]]
        data = written(rows)
        return data, len(data)
