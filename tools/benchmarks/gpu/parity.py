"""Stage `parity`: the answers of a GPU beside those of the CPU, and the nodes that the GPU leaves to the CPU."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import cycle, islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import limelight
from benchmarks.demo_calls import DEMO
from benchmarks.gpu.models import BASE, ENCODERS, GENERATING, SMALL
from benchmarks.gpu.setup import Setup, start
from benchmarks.serving.runtime_alone import CPU, open_session
from limelight.attended import Attended

ROWS = 5
# What the CUDA provider may differ by: outputs from themselves, weights from the largest of their row.
_ABSOLUTE, _OF_OUTPUTS, _OF_WEIGHTS = 1e-4, 1e-3, 1e-2


@dataclass(frozen=True)
class Parity:
    """A model on the GPU beside the same on the CPU.

    Attributes:
        refused: why the server does not serve it on the GPU; empty where it does.
        answers: calls that were compared, alone and in a batch.
        outputs, maps: the largest difference, as a share of the tolerance.
        same_texts: generated tokens are the same.
        nodes: by graph and provider. on_cpu: operators that the GPU's provider leaves to the CPU, by their number.
    """

    model: str
    refused: str = ""
    answers: int = 0
    outputs: float = 0.0
    maps: float = 0.0
    same_texts: bool = True
    nodes: Mapping[str, Mapping[str, int]] | None = None
    on_cpu: Mapping[str, int] | None = None

    @property
    def holds(self) -> bool:
        """True where it is served, and within the tolerances."""
        return not self.refused and self.outputs <= 1 and self.maps <= 1 and self.same_texts


def run(setup: Setup) -> Iterator[Parity]:
    """Compare the models of all repositories but float16."""
    repositories = {"demo": DEMO, **{name: setup.models / name for name in (ENCODERS, GENERATING, SMALL)}}
    repositories = {name: folder for name, folder in repositories.items() if folder.is_dir()}
    servers = {
        (name, provider): setup.server(f"parity-{name}-{provider}", folder, provider=provider)
        for name, folder in repositories.items()
        for provider in dict.fromkeys((setup.provider, "cpu"))
    }
    with ExitStack() as stack:
        start(stack, list(servers.values()))
        for name, folder in repositories.items():
            ours = stack.enter_context(limelight.Client(servers[name, setup.provider].target, timeout=120))
            cpu = stack.enter_context(limelight.Client(servers[name, "cpu"].target, timeout=120))
            for status in sorted(ours.models(), key=lambda each: each.name):
                model = f"{name}/{status.name}"
                if status.name == BASE:
                    continue  # it is slow on a CPU
                if status.state != "ready":
                    yield Parity(model, refused=f"{status.state}: {status.reason}")
                    continue
                try:
                    found, expected = (_answers(client, status.name) for client in (ours, cpu))
                except limelight.Error as error:
                    yield Parity(model, refused=str(error))
                else:
                    nodes = {each.name: dict(each.nodes) for each in ours.model(status.name).graphs}
                    on_cpu = left_to_cpu(folder / status.name, setup.provider)
                    yield replace(_compared(model, found, expected), nodes=nodes, on_cpu=dict(on_cpu))


def left_to_cpu(model: Path, provider: str) -> Counter[str]:
    """Count the operators of a model's graphs that stay on the CPU though another provider is asked for."""
    found: Counter[str] = Counter()
    for file in sorted(model.glob("*/*.onnx")):
        for part in open_session(file, 1, provider=provider).get_provider_graph_assignment_info():
            if part.ep_name == CPU:
                found.update(node.op_type for node in part.get_nodes())
    return found


def _answers(client: limelight.Client, name: str) -> list[Attended]:
    """Answer examples alone and in a batch; then a batch with parts of maps in float16, and with changed maps."""
    model = client.model(name)
    rows = list(islice(cycle(model.examples), ROWS))
    found = [client.attend(name, row) for row in model.examples] + client.attend(name, rows)
    found += client.attend(name, rows, heads=[-1], queries=[0], encoding="float16")
    for each in model.maps:
        if each.interventions:
            for change in (limelight.scale_heads(each.name, {0: 0.5}), limelight.replace(each.name, "uniform")):
                found += client.attend(name, rows, interventions=[change])
    return found


def _compared(model: str, found: Sequence[Attended], expected: Sequence[Attended]) -> Parity:
    pairs = list(zip(found, expected, strict=True))
    return Parity(
        model=model,
        answers=len(pairs),
        outputs=max(_outputs(a, b) for a, b in pairs),
        maps=max(_maps(a, b) for a, b in pairs),
        same_texts=all(_tokens(a) == _tokens(b) for a, b in pairs),
    )


def _outputs(found: Attended, expected: Attended) -> float:
    """Give the largest difference of an output, or of the log-probability of a token, as a share of the tolerance."""
    ours, theirs = dict(found.prediction.outputs), dict(expected.prediction.outputs)
    for answer, outputs in ((found, ours), (expected, theirs)):
        outputs |= {
            f"sequence {place}": np.array(each.log_probabilities)
            for place, each in enumerate(answer.prediction.sequences)
        }
    return max((_share(ours[name], theirs[name], np.abs(theirs[name]) * _OF_OUTPUTS) for name in theirs), default=0.0)


def _maps(found: Attended, expected: Attended) -> float:
    shares = [0.0]
    for name, theirs in expected.items():
        rows = np.abs(theirs.weights).max(axis=-1, keepdims=True, initial=0)
        shares.append(_share(found[name].weights, theirs.weights, rows * _OF_WEIGHTS))
    return max(shares)


def _share(found: NDArray[np.generic], expected: NDArray[np.generic], relative: NDArray[np.floating]) -> float:
    if found.shape != expected.shape or not np.isfinite(found.astype(float)).all():
        return float("inf")
    difference = np.abs(found.astype(float) - expected.astype(float))
    return float((difference / (_ABSOLUTE + relative)).max(initial=0))


def _tokens(answer: Attended) -> Sequence[tuple[int, ...]]:
    return [each.token_ids for each in answer.prediction.sequences]
