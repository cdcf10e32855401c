"""What limelight.v1 answers, to compare doors with, and what other people's clients do."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from limelight.v1 import values_pb2
from limelight_bundle.wire import to_array
from tests.kit.serving import Running, predict, text


def pair(one: str, other: str) -> values_pb2.Instance:
    """An instance of two texts."""
    value = values_pb2.Value(pair=values_pb2.Pair(first=one, second=other))
    return values_pb2.Instance(inputs={"pair": value})


def results(running: Running, model: str, *instances: values_pb2.Instance) -> list[Any]:
    """The result of each instance by gRPC's Predict."""
    return [each.results[0] for each in running.stub.Predict(predict(model, *instances)).predictions]


def vectors(running: Running, *texts: str) -> list[np.ndarray]:
    """The vector of each text."""
    return [to_array(each.embedding.vector, "vector") for each in results(running, "embedder", *map(text, texts))]


def scores(running: Running, query: str, *texts: str) -> list[float]:
    """The score of each text for a query."""
    found = results(running, "reranker", *(pair(query, each) for each in texts))
    return [each.regression.numbers[0].value for each in found]


def base(running: Running) -> str:
    """The URL of a server's HTTP port."""
    return f"http://{running.server.settings.host}:{running.server.http_port}"


def found_by(python: Path, script: str, *arguments: str) -> Any:
    """What a script prints, as JSON."""
    command = [str(python), str(Path(__file__).with_name(script)), *arguments]
    online = {**os.environ, "HF_HUB_OFFLINE": "0"}  # or Hugging Face's client calls nobody
    result = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, env=online)
    assert not result.returncode, result.stderr
    return json.loads(result.stdout)
