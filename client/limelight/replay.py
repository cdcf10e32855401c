"""Records of explanations: what made one, as plain JSON, and whether it comes out again.

A record is `{"format": 1, "model": …, "input": …, "request": …, "explanation": …}`. `request` is what
`POST /v1/models/NAME:explain` takes; without the instances where only the input's hash is recorded.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from google.protobuf import json_format

from limelight.base.version import version
from limelight.explanations import Explanation
from limelight.v1 import service_pb2, values_pb2

FORMAT = 1


def recorded(request: service_pb2.ExplainRequest, why: Explanation, *, with_input: bool) -> dict[str, Any]:
    """Record what made the explanation of the one instance of a request.

    Args:
        with_input: whether the instance is recorded. Without it, its hash is, and texts that come from it are hashes.
    """
    sent = service_pb2.ExplainRequest()
    sent.CopyFrom(request)
    (instance,) = sent.instances
    if why.prediction.seed is not None:  # the same random choices again
        instance.seed = why.prediction.seed
    digest = input_digest(instance)
    if not with_input:
        instance.inputs.clear()
    made_by = why.prediction.provenance
    return {
        "format": FORMAT,
        "recorded": datetime.now(UTC).isoformat(timespec="seconds"),
        "client": version(),
        "model": {
            "name": made_by.model,
            "version": made_by.version,
            "bundle_digest": made_by.bundle_digest,
            "provider": made_by.provider,
        },
        "input": {"sha256": digest, "seed": why.prediction.seed},
        "request": json_format.MessageToDict(sent),
        "explanation": _figures(why, with_input=with_input),
    }


def _figures(why: Explanation, *, with_input: bool) -> dict[str, Any]:
    """Return what is recorded of an explanation. Without its input, the text of an answer may quote it."""
    whole = why.to_dict()
    figures = {name: whole[name] for name in ("target", "ways", "agreements", "rows")}
    units = {"labels": whole["units"]["labels"], "offsets": whole["units"]["offsets"]}
    if not with_input:
        units["labels"] = len(units["labels"])
        if why.target.index is None:
            figures["target"]["label"] = _hash(why.target.label)
    return {**figures, "units": units}


def input_digest(instance: values_pb2.Instance) -> str:
    """Return the SHA-256 of the inputs of an instance: of their JSON with sorted keys and no spaces, as UTF-8."""
    inputs = json_format.MessageToDict(values_pb2.Instance(inputs=instance.inputs)).get("inputs", {})
    return _hash(json.dumps(inputs, sort_keys=True, separators=(",", ":"), ensure_ascii=False))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def read_request(record: Any) -> service_pb2.ExplainRequest:
    """Read the request of a record. Raises ValueError for a record that is none, or of a newer format."""
    if not isinstance(record, dict) or not {"format", "model", "input", "request", "explanation"} <= set(record):
        raise ValueError("it is no record of an explanation")
    if record["format"] != FORMAT:
        raise ValueError(f"it has format {record['format']!r}, and this version reads format {FORMAT}")
    try:
        request: service_pb2.ExplainRequest = json_format.ParseDict(record["request"], service_pb2.ExplainRequest())
        _check(record)
    except (json_format.ParseError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise ValueError(f"its content is damaged: {type(error).__name__}: {error}") from None
    if len(request.instances) != 1:
        raise ValueError(f"it has {len(request.instances)} instances, not 1")
    return request


def _check(record: Mapping[str, Any]) -> None:
    """Read every part that is compared. Raises TypeError, LookupError or AttributeError for one that is not there."""
    dict(_numbers(record["explanation"]))
    _facts(record["explanation"])
    str(record["model"]["bundle_digest"] + record["input"]["sha256"])


@dataclass(frozen=True)
class Replay:
    """An explanation beside its record."""

    other: str
    """What is another than recorded and no number: the target, the units, the ways; empty for nothing."""
    difference: float
    """The largest difference of a number."""
    where: str
    """The number that differs most, with both values."""
    digest: str
    """The recorded digest of the model's bundle if it is another now; else empty."""

    def holds(self, tolerance: float) -> bool:
        """Return whether the explanation came out again, every number within a tolerance."""
        return not self.other and self.difference <= tolerance


def compared(record: Mapping[str, Any], why: Explanation) -> Replay:
    """Compare an explanation with its record, which `read_request` has read."""
    before = record["explanation"]
    after = _figures(why, with_input=isinstance(before["units"]["labels"], list))
    was, now = _facts(before), _facts(after)
    other = [f"{name} {_short(was[name])}, now {_short(now[name])}" for name in was if was[name] != now[name]]
    difference, where = 0.0, ""
    if not other:
        numbers = dict(_numbers(after))
        for name, value in _numbers(before):
            apart = abs(numbers[name] - value)
            if not apart <= difference:
                difference, where = apart, f"{_named(name, why)} was {value:.6g}, is {numbers[name]:.6g}"
    digest, made_by = record["model"]["bundle_digest"], why.prediction.provenance
    return Replay("; ".join(other), difference, where, "" if digest == made_by.bundle_digest else digest)


Number = tuple[str, int]
"""A way, or "score", and the place of a unit."""


def _numbers(explanation: Mapping[str, Any]) -> Iterator[tuple[Number, float]]:
    yield ("score", 0), float(explanation["target"]["score"])
    for each in explanation["ways"]:
        yield from (((str(each["way"]), place), float(value)) for place, value in enumerate(each["values"]))


def _facts(explanation: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return what has to be the same."""
    units, target = explanation["units"], explanation["target"]
    return {
        "target": [target[name] for name in ("result", "label", "index", "entry", "score_kind")],
        "units": [units["labels"], units["offsets"] and [list(each) for each in units["offsets"]]],
        "ways": [[each["way"], list(each["maps"]), len(each["values"])] for each in explanation["ways"]],
    }


def _named(number: Number, why: Explanation) -> str:
    way, place = number
    return "the score" if way == "score" else f"{way.replace('_', ' ')} of {why.units.labels[place]!r}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:79]}…"
