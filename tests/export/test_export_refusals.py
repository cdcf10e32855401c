"""Refusals of an export and their messages. Nothing is left behind."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from limelight.base import installing
from limelight_bundle.errors import BundleError
from limelight_bundle.samples import Sample
from limelight_bundle.values import Text
from limelight_export import pipeline
from limelight_export.errors import ExportError
from limelight_export.execution.pytorch_runner import PyTorchReference, copy_for_export
from limelight_export.pipeline import export_model
from limelight_export.tracing.build import build_graphs
from limelight_export.verification.verify import verify
from limelight_models.cards.card import Card
from limelight_models.network import Answer
from tests.kit import tiny


def export(model: torch.nn.Module, folder: Path, card: object = None) -> None:
    export_model(tiny.trained(model, card or tiny.reader_card()), folder)  # type: ignore[arg-type]


def left(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def swap_query_and_key(model: tiny.Reader) -> None:
    maps = model.attention
    maps.query_map, maps.key_map = maps.key_map, maps.query_map


def drop_the_mask(model: tiny.Reader) -> None:
    model.mask = lambda tensors: torch.ones_like(tensors["ids_mask"])[:, None, None, :]  # type: ignore[method-assign]


@pytest.mark.parametrize("sabotage", [swap_query_and_key, drop_the_mask])
def test_graphs_of_a_sabotaged_model_are_told_from_the_true_one(sabotage: object) -> None:
    torch.manual_seed(0)
    model, card = tiny.Reader(), tiny.reader_card()
    broken = copy_for_export(model)
    sabotage(broken)  # type: ignore[operator]
    graphs = build_graphs(broken, card)
    with pytest.raises(ExportError, match=r"answer differs from PyTorch's: \S+ differs by up to 0?\.?\d.* \(.+\)"):
        verify(graphs, PyTorchReference(copy_for_export(model), card), card)


def test_a_model_that_reads_padding_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ExportError, match=r"answer in a batch differs from its answer alone: .* differs by .*padded rows"
    ):
        export(tiny.ReaderOfPadding(), tmp_path)
    assert left(tmp_path) == []


def test_a_loop_over_the_length_is_refused_instead_of_frozen(tmp_path: Path) -> None:
    with pytest.raises(ExportError):
        export(tiny.ReaderOfFewWords(), tmp_path)
    assert left(tmp_path) == []


def test_weights_that_do_not_sum_to_one_though_the_card_says_so(tmp_path: Path) -> None:
    class Doubling(tiny.Reader):
        def forward(self, **tensors: torch.Tensor) -> Answer:
            answer = super().forward(**tensors)
            return Answer(answer.outputs, {**answer.maps, "pool": answer.maps["pool"] * 2})

    with pytest.raises(ExportError, match="a row of the map pool sums to 2"):
        export(Doubling(), tmp_path)


def test_negative_weights_that_the_card_does_not_announce(tmp_path: Path) -> None:
    class Negating(tiny.Reader):
        def forward(self, **tensors: torch.Tensor) -> Answer:
            answer = super().forward(**tensors)
            return Answer(answer.outputs, {**answer.maps, "pool": -answer.maps["pool"]})

    with pytest.raises(ExportError, match="the map pool has a weight of -"):
        export(Negating(), tmp_path)


def test_an_output_that_the_model_does_not_return(tmp_path: Path) -> None:
    card = tiny.reader_card()
    card.description.outputs[0].name = "probabilities"
    with pytest.raises(
        ExportError, match="the card states the output 'probabilities', which the model does not return"
    ):
        export(tiny.Reader(), tmp_path, card)


def test_a_map_of_other_axes_than_the_card_states(tmp_path: Path) -> None:
    card = tiny.reader_card()
    wrong = replace(card, map_axes={**card.map_axes, "pool": (tiny.BATCH, tiny.QUERY, tiny.HEAD, tiny.KEY)})
    with pytest.raises(ExportError, match="pool has"):
        export(tiny.Reader(), tmp_path, wrong)


def test_another_number_of_classes_than_the_card_states(tmp_path: Path) -> None:
    card = tiny.reader_card()
    card.description.outputs[0].dimensions[0].size = 4
    with pytest.raises(ExportError, match=r"logits has shape \[\d+, 3\]; the card states \[batch, 4\]"):
        export(tiny.Reader(), tmp_path, card)


def test_an_example_that_the_model_cannot_read(tmp_path: Path) -> None:
    trained = replace(
        tiny.trained(tiny.Reader(), tiny.reader_card()), examples=({"text": Text("a")}, {"text": Text(" ")})
    )
    with pytest.raises(ExportError, match=r'examples\[1\].inputs\["text"\] is empty'):
        export_model(trained, tmp_path)
    with pytest.raises(ExportError, match="at least one example"):
        export_model(replace(trained, examples=()), tmp_path)


def shift_outputs(sample: Sample) -> Sample:
    return replace(sample, outputs={name: array + np.float32(1e-3) for name, array in sample.outputs.items()})


def exchange_tokens(sample: Sample) -> Sample:
    return replace(sample, token_ids=[each + 1 for each in sample.token_ids])


@pytest.mark.parametrize(
    ("model", "card", "changed", "message"),
    [
        (tiny.Reader, tiny.reader_card, shift_outputs, r"answer differs from PyTorch's: logits .* \(example 0\)"),
        (tiny.Writer, tiny.writer_card, shift_outputs, r"answer differs from PyTorch's: scores .* \(example 0\)"),
        (tiny.Writer, tiny.writer_card, exchange_tokens, "generate other tokens than PyTorch for example 0"),
    ],
)
def test_samples_that_a_server_would_refuse(
    model: type[torch.nn.Module],
    card: Callable[[], Card],
    changed: Callable[[Sample], Sample],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make = pipeline.make_samples
    monkeypatch.setattr(pipeline, "make_samples", lambda trained: [changed(each) for each in make(trained)])
    torch.manual_seed(0)
    with pytest.raises(ExportError, match=message):
        export(model(), tmp_path, card())
    assert left(tmp_path) == []


def test_a_name_that_no_repository_may_hold(tmp_path: Path) -> None:
    card = tiny.reader_card()
    card.description.name = "../reader"
    with pytest.raises(BundleError, match="is not a model name"):
        export(tiny.Reader(), tmp_path, card)
    assert left(tmp_path) == []


def test_without_a_runtime_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    # How it is installed depends on where it runs: `make dev` in the environment of a checkout, pip elsewhere.
    with pytest.raises(ExportError, match=r"ONNX Runtime, which is not installed: ") as refused:
        export(tiny.Reader(), tmp_path)
    assert str(refused.value).endswith(installing.extra("train,serve"))


class InBfloat16(tiny.Reader):
    """Computes with a type that ONNX Runtime has no code for, as the biases of Falcon are."""

    def forward(self, **tensors: torch.Tensor) -> Answer:
        answer = super().forward(**tensors)
        outputs = {name: (each.to(torch.bfloat16) * 2).float() for name, each in answer.outputs.items()}
        return Answer(outputs, answer.maps)


@torch.library.custom_op("limelight_tests::doubled", mutates_args=())
def doubled(values: torch.Tensor) -> torch.Tensor:
    return values * 2


@doubled.register_fake
def _(values: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(values)


class ByAnOperatorOfItsOwn(tiny.Reader):
    """Computes with an operator that ONNX lacks, as transformers' experts do."""

    def forward(self, **tensors: torch.Tensor) -> Answer:
        answer = super().forward(**tensors)
        return Answer({name: doubled(each) for name, each in answer.outputs.items()}, answer.maps)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            InBfloat16,
            r"the graph main: it has no Mul of bfloat16 on CPUs; let the module compute that with another type",
        ),
        (ByAnOperatorOfItsOwn, r"PyTorch cannot export the model: ONNX has no operator for limelight_tests\.doubled"),
    ],
)
def test_an_operator_that_cannot_be_computed_is_named_in_a_sentence(
    model: type[tiny.Reader], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ExportError, match=message) as caught:
        export(model(), tmp_path)
    assert "\n" not in caught.value.message
    assert left(tmp_path) == []
