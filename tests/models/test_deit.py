"""The data-efficient image Transformer against transformers', and what its distillation token learns from."""

import math
from collections.abc import Iterable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import kl_div
from transformers import DeiTConfig, DeiTForImageClassificationWithTeacher

from limelight_models.index import recipe
from limelight_models.zoo.vision.deit import DataEfficientTransformer
from limelight_models.zoo.vision.patched import PatchedConfig, PatchEncoder
from tests.kit import small


def sizes(config: PatchedConfig) -> dict[str, Any]:
    """The sizes of an encoder of pictures, as transformers calls them, and LayerNorm's ε of the authors' code."""
    return {
        "image_size": (config.rows, config.columns), "patch_size": config.patch, "num_channels": 1,
        "hidden_size": config.d_model, "num_hidden_layers": config.layers, "num_attention_heads": config.heads,
        "intermediate_size": config.d_hidden, "layer_norm_eps": 1e-6, "attn_implementation": "eager",
    }  # fmt: skip


def copy(theirs: nn.Module, ours: PatchEncoder, heads: Iterable[tuple[nn.Module, nn.Module]]) -> None:
    """Give transformers' encoder, and its classifiers, our weights."""
    pairs = [(theirs.embeddings.patch_embeddings.projection, ours.project), (theirs.layernorm, ours.norm), *heads]
    for layer, own in zip(theirs.layers, ours.layers, strict=True):
        maps = (own.attention.query_map, own.attention.key_map, own.attention.value_map, own.attention.merge)
        named = ("q_proj", "k_proj", "v_proj", "o_proj")
        pairs += [(getattr(layer.attention, name), each) for name, each in zip(named, maps, strict=True)]
        pairs += [(layer.layernorm_before, own.attention_norm), (layer.layernorm_after, own.hidden_norm)]
        pairs += [(layer.mlp.fc1, own.hidden[0]), (layer.mlp.fc2, own.hidden[2])]
    with torch.no_grad():
        for other, own in pairs:
            other.weight.copy_(own.weight.reshape(other.weight.shape))
            other.bias.copy_(own.bias)
        theirs.embeddings.position_embeddings.copy_(ours.position)
        theirs.embeddings.cls_token.copy_(ours.leading[:, :1])


def theirs_of(ours: DataEfficientTransformer) -> DeiTForImageClassificationWithTeacher:
    """Transformers' model with the same weights."""
    config, encoder = ours.config, ours.encoder
    described = DeiTConfig(num_labels=config.classes, **sizes(config))
    theirs = DeiTForImageClassificationWithTeacher(described).double().eval()
    heads = [(theirs.cls_classifier, ours.classify), (theirs.distillation_classifier, ours.distil)]
    copy(theirs.deit, encoder, heads)
    with torch.no_grad():
        theirs.deit.embeddings.distillation_token.copy_(encoder.leading[:, 1:])
    return theirs


def pixels() -> torch.Tensor:
    card = small.card("deit")
    rows = [card.preprocessor().row(each.instance) for each in small.data("deit").test]
    return small.batch(card, rows)["pixels"].double()


def test_both_classifiers_and_every_map_are_those_of_transformers() -> None:
    ours = small.make("deit")
    assert isinstance(ours, DataEfficientTransformer)
    found = ours(pixels=pixels())
    wanted = theirs_of(ours)(pixels(), output_attentions=True)
    both = (wanted.cls_logits.softmax(-1) + wanted.distillation_logits.softmax(-1)) / 2
    torch.testing.assert_close(found.outputs["logits"].exp(), both, atol=1e-5, rtol=0)  # its softmax is in float32
    for number, weights in enumerate(wanted.attentions):
        torch.testing.assert_close(
            found.maps[f"encoder.{number}.self"], weights, atol=1e-5, rtol=0
        )  # its softmax is in float32


@pytest.mark.parametrize("name", ["deit", "deit-soft", "deit-label"])
def test_the_second_token_learns_of_what_the_variant_says(name: str) -> None:
    """Eq. 2 and 3 of the paper, over the batch."""
    network, target = small.make(name).train(), torch.tensor([0, 1, 1])
    network.encoder.dropout.p = 0.0
    answer = network(pixels=pixels())
    found = network.objective(torch.zeros(3), answer, target)
    own, second, taught = (answer.signals[each] for each in ("class", "distillation", "teacher"))
    rows, first = torch.arange(3), own.log_softmax(-1)
    of_class = -first[rows, target].sum()
    if name == "deit-soft":
        config = network.config
        apart = kl_div(
            (second / config.temperature).log_softmax(-1), (taught / config.temperature).softmax(-1), reduction="sum"
        )
        wanted = (1 - config.weight) * of_class + config.weight * config.temperature**2 * apart
    else:
        said = target if name == "deit-label" else taught.argmax(-1)
        wanted = (of_class - second.log_softmax(-1)[rows, said].sum()) / 2
    torch.testing.assert_close(found, wanted)


def test_a_teacher_learns_its_pictures_and_then_stays_as_it_is() -> None:
    chosen, blueprint = recipe("deit"), small.blueprint("deit")
    network = chosen.build(blueprint)
    assert isinstance(network, DataEfficientTransformer)
    given = pixels().float()
    target = torch.tensor([blueprint.labels.index(each.label) for each in small.data("deit").test])
    before = torch.nn.functional.cross_entropy(network.teacher(given), target).item()
    chosen.start(network, small.data("deit"), blueprint)
    after = torch.nn.functional.cross_entropy(network.teacher(given), target).item()
    assert after < before and math.isfinite(after)
    answer = network.train()(pixels=given)
    network.objective(torch.zeros(3), answer, target).backward()
    assert all(each.grad is None for each in network.teacher.parameters())
