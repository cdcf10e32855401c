"""Explain through the socket: each of its numbers is what the same change gives, asked one by one."""

import json
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import json_format

from limelight.v1 import service_pb2 as pb
from limelight.v1 import values_pb2
from limelight_bundle.wire import to_tensor
from limelight_export.importing.huggingface.importer import import_checkpoint
from tests.importing.huggingface.encoders import ENCODERS
from tests.kit.serving import Running, attend, free_port, predict, serving, text

TEXT = "The cats sat, on a mat."
MASK = 4
CHANGES = (pb.WAY_LOOK_AWAY, pb.WAY_LOOK_ONLY, pb.WAY_ERASE, pb.WAY_ERASE_OTHERS)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of imported models, each of another task."""
    root, found = tmp_path_factory.mktemp("checkpoints"), tmp_path_factory.mktemp("repository")
    import_checkpoint(ENCODERS["bert"].write(root / "mood"), found, interventions=True)
    return found


@pytest.fixture(scope="module")
def served(repository: Path) -> Iterator[Running]:
    with serving(repository, http_port=free_port()) as running:
        yield running


def explain(served: Running, model: str, *instances: Any, **fields: Any) -> pb.ExplainResponse:
    """Ask for explanations by gRPC."""
    found = [text(each) if isinstance(each, str) else each for each in instances]
    request = pb.ExplainRequest(model=values_pb2.Model(name=model), instances=found, **fields)
    answer: pb.ExplainResponse = served.stub.Explain(request, timeout=60)
    return answer


def by_http(served: Running, model: str, **fields: Any) -> Any:
    """Ask for explanations by HTTP."""
    url = f"http://127.0.0.1:{served.server.http_port}/v1/models/{model}:explain"
    request = urllib.request.Request(url, json.dumps(fields).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read())


def log_probability(prediction: pb.Prediction, index: int) -> float:
    """The logarithm of a class's probability."""
    (found,) = (each.probability for each in prediction.results[0].classification.classes if each.index == index)
    return float(np.log(found))


def away_from(units: Any, places: Sequence[int], maps: Sequence[str]) -> list[values_pb2.Intervention]:
    """Look away from some units of a text, in some maps."""
    spans = [values_pb2.TextSpan(start=units.starts[each], end=units.ends[each]) for each in places]
    keys = values_pb2.Group(spans=spans)
    return [values_pb2.Intervention(map=each, key_factor=values_pb2.KeyFactor(factor=0, keys=keys)) for each in maps]


def masked(served: Running, tokens: Any, units: Any, places: Sequence[int]) -> values_pb2.Instance:
    """The token ids of a text, with the mask in the place of some units."""
    starts, ends = np.array(tokens.starts), np.array(tokens.ends)
    ids = np.array(tokens.ids, np.int64)
    for each in places:
        ids[(starts < units.ends[each]) & (ends > units.starts[each]) & (ends > starts)] = MASK
    described = served.stub.GetModel(pb.GetModelRequest(model=values_pb2.Model(name="mood"))).description
    names = [each.name for each in described.inputs[0].tensors]
    tensors = dict(zip(names, (ids, np.zeros_like(ids)), strict=False))  # one text: every segment is 0
    return values_pb2.Instance(
        inputs={name: values_pb2.Value(tensor=to_tensor(each)) for name, each in tensors.items()}
    )


def test_each_change_is_that_of_the_same_change_asked_alone(served: Running) -> None:
    (found,) = explain(served, "mood", TEXT, ways=CHANGES).explanations
    units, index = found.units, found.target.index
    assert list(units.texts) == ["The", "cats", "sat,", "on", "a", "mat."]
    assert found.rows == 1 + len(CHANGES) * len(units.texts)
    (usual,) = served.stub.Predict(predict("mood", text(TEXT))).predictions
    assert found.target.score == pytest.approx(log_probability(usual, index), abs=1e-5)
    assert [each.probability for each in found.prediction.results[0].classification.classes] == pytest.approx(
        [each.probability for each in usual.results[0].classification.classes], abs=1e-5
    )
    tokens = served.stub.Attend(attend("mood", text(TEXT))).results[0].prediction.label_sets[0]
    for place in range(units.size):
        others = [each for each in range(units.size) if each != place]
        for number, way in enumerate(CHANGES):
            chosen = others if way in (pb.WAY_LOOK_ONLY, pb.WAY_ERASE_OTHERS) else [place]
            instance = masked(served, tokens, units, chosen)
            if way in (pb.WAY_LOOK_AWAY, pb.WAY_LOOK_ONLY):
                maps = [each.name for each in served.stub.Attend(attend("mood", text(TEXT))).results[0].maps]
                assert list(found.ways[number].maps) == maps
                instance = text(TEXT)
                instance.interventions.extend(away_from(units, chosen, maps))
            (alone,) = served.stub.Predict(predict("mood", instance)).predictions
            wanted = log_probability(alone, index) - found.target.score
            assert found.ways[number].values[place] == pytest.approx(wanted, abs=2e-5)


def test_shares_are_of_the_maps_that_attend_returns(served: Running) -> None:
    ways = [pb.WAY_ATTENTION, pb.WAY_ROLLOUT]
    (found,) = explain(served, "mood", TEXT, ways=ways).explanations
    answered = served.stub.Attend(attend("mood", text(TEXT))).results[0]
    rolled = served.stub.Attend(attend("mood", text(TEXT), rollout=True)).results[0]
    tokens = answered.prediction.label_sets[0]
    for way, maps in zip(found.ways, (answered.maps, rolled.maps), strict=True):
        weights = [np.frombuffer(each.weights.data, np.float32).reshape(each.weights.shape) for each in maps]
        mean = np.mean([each.mean((0, 1)) for each in weights], 0)
        for place in range(found.units.size):
            start, end = found.units.starts[place], found.units.ends[place]
            inside = [n for n in range(tokens.size) if tokens.starts[n] < end and tokens.ends[n] > start]
            assert way.values[place] == pytest.approx(mean[inside].sum(), abs=1e-6)


def test_http_gives_what_grpc_does(served: Running) -> None:
    (wanted,) = explain(served, "mood", TEXT).explanations
    (found,) = by_http(served, "mood", instances=[TEXT])["explanations"]
    message = json_format.ParseDict(found, pb.Explanation())
    assert [each.way for each in message.ways] == [pb.WAY_ATTENTION, pb.WAY_LOOK_AWAY]
    for one, other in zip(message.ways, wanted.ways, strict=True):
        assert list(one.values) == pytest.approx(list(other.values), abs=1e-5)
    assert message.units == wanted.units and message.target.label == wanted.target.label
    assert message.prediction.results[0].classification.classes[0].label == message.target.label
