"""Interventions through the socket: the same change in PyTorch gives the same answer, alone and in a batch."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

import limelight
from bundle.preprocess import Preprocessor
from bundle.values import Array, Instance
from bundle.wire import instance_to_wire
from export.execution import pytorch_runner
from export.execution.random_inputs import collate_rows
from export.pipeline import export_model
from limelight.interventions import with_interventions
from models.attention import Attention
from models.attention.context import Context
from models.cards.card import TrainedModel
from tests.export import tiny
from tests.models import small
from tests.service.serving import serving

pytestmark = pytest.mark.timeout(900)

# A model of each kind, a map, and the module that makes it.
KINDS: Mapping[str, tuple[str, str]] = {
    "reader": ("encoder.0.self", "attention.attention"),
}


@contextmanager
def changed(
    module: Attention,
    *,
    factors: Tensor | None = None,
    weights: Callable[[Tensor, Tensor | None], Tensor] | None = None,
) -> Iterator[None]:
    """Change an attention in PyTorch: its weights as a function of them and the mask, its results by head."""
    plain = Attention.forward

    def forward(
        self: Attention,
        query: Tensor | None,
        key: Tensor,
        value: Tensor | None = None,
        mask: Tensor | None = None,
        context: Context | None = None,
    ) -> tuple[Tensor, Tensor]:
        found, made = plain(self, query, key, value, mask, context)
        if self is not module:
            return found, made
        if weights is not None:
            made = weights(made, mask)
        found = made @ (key if value is None else value)  # the sum that softmax attention is
        return found if factors is None else found * factors[None, :, None, None], made

    Attention.forward = forward  # type: ignore[method-assign]
    try:
        yield
    finally:
        Attention.forward = plain  # type: ignore[method-assign]


def uniform(weights: Tensor, mask: Tensor | None) -> Tensor:
    """Equal weights over the keys that a mask allows."""
    allowed = torch.ones_like(weights) if mask is None else mask.expand_as(weights).to(weights.dtype)
    return allowed / allowed.sum(-1, keepdim=True).clamp(min=1)


@dataclass(frozen=True)
class Served:
    """A server, and its models in PyTorch."""

    client: limelight.Client
    trained: Mapping[str, TrainedModel]
    preprocessors: Mapping[str, Preprocessor]

    def instances(self, kind: str) -> list[Instance]:
        """Examples of several lengths."""
        return list(self.trained[kind].examples)

    def expected(self, kind: str, instance: Instance) -> dict[str, Array]:
        """PyTorch's outputs and maps for an instance alone."""
        trained, row = self.trained[kind], self.preprocessors[kind].row(instance)
        return pytorch_runner.run_model(trained.model, trained.card, collate_rows(trained.card, [row]))

    def sizes(self, kind: str, instance: Instance) -> list[int]:
        """The sizes of the map's queries and keys."""
        described = next(each for each in self.trained[kind].card.description.maps if each.name == KINDS[kind][0])
        labels = self.preprocessors[kind].row(instance).labels
        return [labels[name].size for name in (described.query_labels, described.key_labels)]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    repository = tmp_path_factory.mktemp("interventions")
    trained, preprocessors = {}, {}
    for name in KINDS:
        torch.manual_seed(0)
        texts = ("the cat sat on a mat .", "dog", "a dog ran on the mat")
        made = tiny.trained(tiny.Reader(), tiny.reader_card(), *texts) if name == "reader" else small.trained(name)
        folder = export_model(made, repository, interventions=True)
        trained[name], preprocessors[name] = made, Preprocessor(folder)
    with serving(repository) as running, limelight.Client(running.server.address) as client:
        yield Served(client, trained, preprocessors)


@dataclass(frozen=True)
class Change:
    """What happens to the attention of one row. head: the one that changes."""

    kind: str
    head: int
    factor: float


changes = st.builds(Change, st.sampled_from(["none", "scale", "uniform", "given"]), st.integers(0, 1), st.floats(-2, 2))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn=st.lists(changes, min_size=1, max_size=4))
def test_a_change_over_the_socket_is_the_same_change_in_pytorch(served: Served, kind: str, drawn: list[Change]) -> None:
    name, path = KINDS[kind]
    model, instances = served.trained[kind].model, served.instances(kind)
    module = model.get_submodule(path)
    assert isinstance(module, Attention)
    heads = next(each.heads for each in served.trained[kind].card.description.maps if each.name == name)
    asked, wanted = [], []
    for place, change in enumerate(drawn):
        instance, head = instances[place % len(instances)], min(change.head, heads - 1)
        usual = served.expected(kind, instance)
        own = usual[name].reshape(heads, *served.sizes(kind, instance))
        given_weights = own[[head]] ** 2 / np.maximum((own[[head]] ** 2).sum(-1, keepdims=True), 1e-30)

        def altered(weights: Tensor, mask: Tensor | None, change: Change = change, head: int = head) -> Tensor:
            weights = weights.clone()
            new = uniform(weights, mask) if change.kind == "uniform" else torch.from_numpy(given_weights)[None]  # noqa: B023
            weights[:, head] = new[:, head if change.kind == "uniform" else 0]
            return weights

        message = instance_to_wire(instance)
        match change.kind:
            case "none":
                wanted.append(usual)
            case "scale":
                factors = torch.ones(heads)
                factors[head] = change.factor
                with changed(module, factors=factors):
                    wanted.append(served.expected(kind, instance))
                message = with_interventions(message, [limelight.scale_heads(name, {head: change.factor})])
            case "uniform":
                with changed(module, weights=altered):
                    wanted.append(served.expected(kind, instance))
                message = with_interventions(message, [limelight.replace(name, "uniform", heads=head)])
            case _:
                with changed(module, weights=altered):
                    wanted.append(served.expected(kind, instance))
                message = with_interventions(message, [limelight.replace(name, given_weights, heads=head)])
        asked.append(message)
    for answers, rows in [(served.client.attend(kind, asked), wanted), (served.client.attend(kind, asked[:1]), wanted)]:
        for answer, row in zip(answers, rows, strict=False):
            for output, array in answer.prediction.outputs.items():
                np.testing.assert_allclose(array, row[output][0], rtol=1e-4, atol=1e-5)
            found = answer[name].weights
            np.testing.assert_allclose(found, row[name].reshape(found.shape), rtol=1e-4, atol=1e-5)
