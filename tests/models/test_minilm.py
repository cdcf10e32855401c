"""Distillation of MiniLM's student from its teacher."""

from dataclasses import replace

import pytest
import torch
from torch.nn.functional import kl_div
from transformers import ViTConfig, ViTForImageClassification

from limelight_models.index import recipe
from limelight_models.zoo.vision.minilm import Classifier, Minilm
from limelight_models.zoo.vision.patched import PatchedConfig
from tests.kit import small
from tests.models.test_deit import copy, sizes


def pixels() -> torch.Tensor:
    card = small.card("minilm")
    rows = [card.preprocessor().row(each.instance) for each in small.data("minilm").test]
    return small.batch(card, rows)["pixels"]


def theirs_of(ours: Classifier, config: PatchedConfig) -> ViTForImageClassification:
    """Transformers' Vision Transformer with the same weights."""
    theirs = ViTForImageClassification(ViTConfig(num_labels=config.classes, **sizes(config))).double().eval()
    copy(theirs.vit, ours.encoder, [(theirs.classifier, ours.classify)])
    return theirs


def last_layer(theirs: ViTForImageClassification, given: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights of the last layer, and its value relations: values against values, scaled as queries and keys are."""
    values: list[torch.Tensor] = []
    layer = theirs.vit.layers[-1].attention
    layer.v_proj.register_forward_hook(lambda _, read, made: values.append(made))
    weights = theirs(given, output_attentions=True).attentions[-1]
    heads = values[0].unflatten(-1, (theirs.config.num_attention_heads, -1)).transpose(1, 2)
    return weights, torch.einsum("bhqd,bhkd->bhqk", heads, heads).div(heads.shape[-1] ** 0.5).softmax(-1)


def test_weights_and_value_relations_differ_by_what_the_paper_says() -> None:
    """Against transformers' Vision Transformer and PyTorch's divergence; its softmax is in float32."""
    torch.manual_seed(0)
    network, given = small.build("minilm").double().eval(), pixels().double()
    assert isinstance(network, Minilm)
    for norm in (each for each in network.modules() if isinstance(each, torch.nn.LayerNorm)):
        torch.nn.init.constant_(norm.weight, 3)  # so that weights are not almost equal
    config = network.config
    student = theirs_of(network.student, config)
    d = config.teacher
    teacher = theirs_of(network.teacher, replace(config, d_model=d, layers=config.teacher_layers, d_hidden=2 * d))
    torch.testing.assert_close(network(pixels=given).outputs["logits"], student(given).logits, atol=1e-6, rtol=0)
    pairs = zip(last_layer(student, given), last_layer(teacher, given), strict=True)
    rows = len(given) * config.heads * (1 + config.grid[0] * config.grid[1])
    wanted = sum(kl_div(ours.log(), taught, reduction="sum").item() / rows for ours, taught in pairs)
    assert network.apart(given).item() == pytest.approx(wanted, rel=1e-6) and wanted > 0.01


def test_a_student_comes_nearer_to_a_teacher_that_stays() -> None:
    torch.manual_seed(0)
    chosen, plan = recipe("minilm"), small.blueprint("minilm")
    network = chosen.build(plan).eval()
    assert isinstance(network, Minilm) and chosen.start is not None
    begun = {name: each.clone() for name, each in network.state_dict().items()}
    chosen.start(network, small.data("minilm"), plan)
    learned = network.apart(pixels()).item()
    taught = {name: each for name, each in network.state_dict().items() if name.startswith("teacher")}
    network.load_state_dict({**begun, **taught})
    assert learned < network.apart(pixels()).item()
    assert not any(each.requires_grad for each in network.teacher.parameters())
