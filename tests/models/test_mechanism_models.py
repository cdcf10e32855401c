"""Every mechanism's small task model: it learns, it does not read padding, and its card says what it gives."""

from collections.abc import Mapping

import numpy as np
import pytest
import torch
from torch import Tensor

from limelight_bundle.maps import canonical, cut, nested_mask_name
from limelight_bundle.rows import Row
from limelight_export.execution.random_inputs import collate_rows, neutral_noise
from limelight_export.interface import BATCH, output_specs
from limelight_export.verification.map_invariants import check_map
from limelight_models.attention import CombinationError
from limelight_models.cards.card import Card
from limelight_models.catalogue.parts import ALIGNS, UNIFORM, combine
from limelight_models.catalogue.registry import MECHANISMS
from limelight_models.catalogue.testbed.classifier import SmallModel
from limelight_models.catalogue.testbed.form import Built
from limelight_models.catalogue.testbed.readers import EachToken, Stepwise
from limelight_models.catalogue.testbed.sentence_forms import VARIANTS
from limelight_models.catalogue.testbed.taxonomy import SCALED, SOFT
from limelight_models.tasks.classify import Classify
from limelight_models.tasks.task import Batch
from tests.kit.small_texts import INSTANCES, texts

EVERY = {**{each.name: each.served for each in MECHANISMS if each.served}, **VARIANTS}
TARGET = torch.tensor([0, 1, 2])


def rows(card: Card, task: str) -> list[Row]:
    """The example instances, preprocessed as a server does."""
    preprocessor = card.preprocessor()
    made = []
    for instance in INSTANCES[task]:
        row = preprocessor.row(instance)
        made.append(Row({**row.tensors, **neutral_noise(card, row.sizes)}, row.sizes, row.labels))
    return made


def tensors(card: Card, some: list[Row]) -> dict[str, Tensor]:
    """Rows, padded and stacked."""
    return {name: torch.from_numpy(array) for name, array in collate_rows(card, some).items()}


def loss_of(model: SmallModel, found: dict[str, Tensor]) -> Tensor:
    """Loss, a mean over the examples."""
    loss, terms = Classify().loss(model, Batch(found, tuple(range(len(TARGET))), TARGET))
    return loss / terms


def made(name: str) -> Built:
    torch.manual_seed(0)
    return EVERY[name].make(name, texts())


def test_only_training_signals_have_no_task_model() -> None:
    assert {each.column for each in MECHANISMS if each.served is None} == {"signals"}
    with pytest.raises(ValueError, match="train"):
        next(each for each in MECHANISMS if each.served is None).serve(texts())


@pytest.mark.parametrize("name", EVERY)
def test_maps_and_outputs_are_as_the_card_says_and_padding_changes_nothing(name: str) -> None:
    model, card = made(name)
    some = rows(card, EVERY[name].task)
    with torch.no_grad():
        together = model(**tensors(card, some))
        alone = [model(**tensors(card, [row])) for row in some]
    for place, (row, answer) in enumerate(zip(some, alone, strict=True)):
        torch.testing.assert_close(together.outputs["logits"][place], answer.outputs["logits"][0], atol=1e-5, rtol=1e-4)
        sizes = {BATCH: 1, **row.sizes}
        assert output_specs(card)[0].shape(sizes) == answer.outputs["logits"].shape
        for each in card.description.maps:
            weights = [
                cut(
                    canonical(found.maps[each.name].numpy(), card.map_axes[each.name])[at],
                    each,
                    row.labels,
                    row,
                    nested_mask_name(card.description, each, card.bound()),
                )
                for found, at in ((together, place), (answer, 0))
            ]
            np.testing.assert_allclose(weights[0].weights, weights[1].weights, atol=1e-5)
            check_map(each, weights[1])


@pytest.mark.parametrize("name", EVERY)
def test_a_step_of_training_moves_every_parameter_of_the_attention(name: str) -> None:
    """But for what the mechanism does not read: keys' content where it looks by place alone."""
    model, card = made(name)
    model.train()
    torch.manual_seed(1)
    found = tensors(card, rows(card, EVERY[name].task))
    found |= {each.tensor.name: torch.rand_like(found[each.tensor.name]) for each in card.noise}
    loss = loss_of(model, found)
    assert torch.isfinite(loss)
    loss.backward()
    unused = {key for key, parameter in model.named_parameters() if parameter.requires_grad and parameter.grad is None}
    by_place = {
        "location-based": "reader.module.key_map.weight",
        "selective grid of Gaussians": "reader.module.key_map.weight",
        "selective grid of Gaussians, of a picture": "module.key_map.weight",
    }
    assert unused == ({by_place[name]} if name in by_place else set())


@pytest.mark.parametrize("form", [None, EachToken, Stepwise])
def test_the_unweighted_average_gives_every_word_the_same_weight(form: type | None) -> None:
    model, card = combine(UNIFORM, SOFT, texts(), form=form)
    found: Mapping[str, Tensor] = tensors(card, rows(card, "sentence")[:1])
    weights = model(**found).maps["attention"]
    torch.testing.assert_close(weights, torch.full_like(weights, 1 / weights.shape[-1]))


def test_hard_attention_is_trained_by_what_it_drew() -> None:
    """Weights that are one or zero pass no gradient to the scores: what reaches the query comes from REINFORCE."""
    model, card = made("hard")
    found = tensors(card, rows(card, "sentence"))
    model.train()
    without = {name: tensor for name, tensor in found.items() if name != "noise"}
    loss_of(model, without).backward()
    asking = dict(model.named_parameters())["reader.ask.weight"]
    assert asking.grad is None
    loss_of(model, {**found, "noise": torch.rand_like(found["noise"])}).backward()
    assert asking.grad is not None and asking.grad.abs().max() > 0


def test_a_score_that_is_no_kernel_is_refused_with_the_reason() -> None:
    with pytest.raises(CombinationError, match="kernel"):
        combine(SCALED, "kernel ratio", texts())


def test_every_alignment_can_be_built_with_some_score() -> None:
    assert set(ALIGNS) - set(EVERY) == {"hard, straight-through", "tanh"}  # variants that other forms hold
