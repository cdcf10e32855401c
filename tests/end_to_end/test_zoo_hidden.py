"""Hidden states of the zoo's Transformers, through a socket, are what the layers of the network read in PyTorch."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import limelight
from limelight_bundle.wire import instance_to_wire
from limelight_models.cards.card import TrainedModel
from limelight_models.network import GeneratingNetwork, PromptedNetwork
from tests.kit import small
from tests.kit.exports import export_model
from tests.kit.serving import serving

# Of each model, its stacks' layers, and the norm behind the last.
STACKS: Mapping[str, tuple[Mapping[str, str], str]] = {
    "vit": ({"encoder": "encoder.layers"}, "encoder.norm"),
    "deit": ({"encoder": "encoder.layers"}, "encoder.norm"),
    "minilm": ({"encoder": "student.encoder.layers"}, "student.encoder.norm"),
    "cct": ({"encoder": "layers"}, "norm"),
    "mme": ({"encoder": "encoder"}, "norm"),
    "transformer": ({"encoder": "encoder", "decoder": "decoder"}, ""),
    "transparent": ({"encoder": "encoder", "decoder": "decoder"}, ""),
    "gpt": ({"decoder": "layers"}, "norm"),
    "latent-attention": ({"decoder": "layers"}, "norm"),
    "image-transformer": ({"decoder": "layers"}, "norm"),
}


@pytest.fixture(scope="module")
def trained() -> dict[str, TrainedModel]:
    return {name: small.telling(name) for name in STACKS}  # which the tests of the zoo export as well


@pytest.fixture(scope="module")
def client(trained: dict[str, TrainedModel], tmp_path_factory: pytest.TempPathFactory) -> Iterator[limelight.Client]:
    repository = tmp_path_factory.mktemp("repository")
    for each in trained.values():
        export_model(each, repository)
    with serving(repository) as running, limelight.Client(running.server.address) as found:
        yield found


def read_by_layers(name: str, model: nn.Module, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Give the input of each layer of a model's stacks, and the output of the last, normed."""
    stacks, norm = STACKS[name]
    found: dict[str, Tensor] = {}
    hooks = []
    for stack, path in stacks.items():
        layers: Any = model.get_submodule(path)
        for number, layer in enumerate(layers):

            def keep(_: Any, given: Any, made: Any, *, stack: str = stack, number: int = number) -> None:
                found[f"{stack}.hidden.{number}"] = given[0]
                found[f"{stack}.hidden.{number + 1}"] = model.get_submodule(norm)(made[0]) if norm else made[0]

            hooks.append(layer.register_forward_hook(keep))
    with torch.no_grad():
        model(**tensors)
    for each in hooks:
        each.remove()
    return found


@pytest.mark.parametrize("name", STACKS)
def test_hidden_states_are_what_the_layers_read(
    name: str, client: limelight.Client, trained: dict[str, TrainedModel]
) -> None:
    model, card = trained[name].model, trained[name].card
    instances = trained[name].examples[:3]
    sent = [instance_to_wire(each) for each in instances]
    answers = client.predict(name, sent, hidden=limelight.Hidden())
    for instance, answer in zip(instances, answers, strict=True):
        row = card.preprocessor().row(instance)
        tensors = small.batch(card, [row])
        if isinstance(model, GeneratingNetwork):
            tensors["target_ids"] = torch.tensor([answer.sequences[0].token_ids])
        expected = read_by_layers(name, model, tensors)
        assert sorted(answer.hidden) == sorted(expected)
        for state, vectors in ((answer.hidden[each], expected[each][0]) for each in expected):
            if isinstance(model, PromptedNetwork):  # of its prompt nothing is labelled
                vectors = vectors[row.sizes["prompt"] :]
            np.testing.assert_allclose(state.vectors, vectors, atol=1e-5 * max(1, float(vectors.abs().max())))
            assert len(answer.label_sets[state.label_set]) == len(vectors)
    assert not client.predict(name, sent[0]).hidden
