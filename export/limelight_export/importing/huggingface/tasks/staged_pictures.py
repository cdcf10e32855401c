"""Encoders of pictures in stages of ever fewer cells: classes of a picture, or of each cell of the first stage."""

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from limelight_export.errors import CheckpointError
from limelight_export.importing.huggingface.architectures.pictures import StagedArchitecture
from limelight_export.importing.huggingface.attention import run_with_maps
from limelight_export.importing.huggingface.images import image_input
from limelight_export.importing.huggingface.loading import load_config, load_model
from limelight_export.importing.huggingface.tasks.classification import labels_of
from limelight_export.importing.huggingface.tasks.pictures import drawn_examples
from limelight_export.importing.huggingface.tasks.task import Source
from limelight_models.attention.weights import Weights
from limelight_models.cards.card import TrainedModel, TrainingData
from limelight_models.cards.inputs import ImageInput
from limelight_models.cards.labels import LabelSet
from limelight_models.cards.maps import Map
from limelight_models.cards.results import Classes
from limelight_models.network import Answer, Network

_SUMMARY = "What each cell of stage {} attends to in layer {{}}; keys are {} x {} cells."


class ImportedStages(Network):
    """A SegFormer of transformers as a network of this repository. per_cell: whether each cell has classes."""

    def __init__(self, model: Any, *, per_cell: bool) -> None:
        super().__init__()
        self.model, self._per_cell = model, per_cell

    def forward(self, **tensors: Tensor) -> Answer:
        output, maps = run_with_maps(self.model, pixel_values=tensors["pixels"])
        # Of each cell: [batch, class, row, column] -> [batch, cell, class].
        logits = output.logits.flatten(2).transpose(1, 2) if self._per_cell else output.logits
        return Answer({"logits": logits}, {f"encoder.{layer}.self": each for layer, each in enumerate(maps)})


def build_classifier(source: Source[StagedArchitecture]) -> TrainedModel:
    """Build a model that classifies a picture. Raises CheckpointError as of `_grids`, `image_input`, `load_model`."""
    return _build(source, "AutoModelForImageClassification", "Classifies a picture.", per_cell=False)


def build_segmentation(source: Source[StagedArchitecture]) -> TrainedModel:
    """Build a model that classifies each cell of a picture, as many as its first stage has. Raises likewise."""
    return _build(source, "AutoModelForSemanticSegmentation", "Classifies each part of a picture.", per_cell=True)


def _build(source: Source[StagedArchitecture], auto_class: str, summary: str, *, per_cell: bool) -> TrainedModel:
    config = load_config(source.checkpoint)
    picture = image_input(source.checkpoint, None, int(config.num_channels))
    grids = list(_grids(config, picture))
    card = source.card(
        summary=summary,
        inputs=[picture],
        results=[Classes(labels=labels_of(config), over=grids[0][0] if per_cell else None)],
        maps=_maps(config, grids),
    )
    network = ImportedStages(load_model(source.checkpoint, auto_class), per_cell=per_cell)
    return TrainedModel(network.eval(), card, drawn_examples(source, picture), TrainingData(), ())


def _grids(config: Any, picture: ImageInput) -> Iterator[tuple[LabelSet, LabelSet]]:
    """Yield the cells of each stage, and those that its layers attend to, by the sizes of their convolutions.

    Raises:
        CheckpointError: keys of a stage do not cover its cells.
    """
    rows, columns = picture.rows, picture.columns
    for stage, (kernel, stride, ratio) in enumerate(
        zip(config.patch_sizes, config.strides, config.sr_ratios, strict=True)
    ):
        rows, columns = ((size + 2 * (kernel // 2) - kernel) // stride + 1 for size in (rows, columns))
        if rows % ratio or columns % ratio:
            raise CheckpointError(
                f"pictures of {picture.rows} x {picture.columns} pixels have {rows} x {columns} cells in stage "
                f"{stage}; its keys are made of {ratio} x {ratio} of them"
            )
        cells = picture.cells(rows, columns, name=f"cells_{stage}")
        yield cells, picture.cells(rows // ratio, columns // ratio, name=f"keys_{stage}") if ratio > 1 else cells


def _maps(config: Any, grids: list[tuple[LabelSet, LabelSet]]) -> dict[str, Map]:
    found: dict[str, Map] = {}
    for stage, (depth, heads, (cells, keys)) in enumerate(
        zip(config.depths, config.num_attention_heads, grids, strict=True)
    ):
        before, summary = len(found), _SUMMARY.format(stage, *(keys.grid or ()))
        for layer in range(before, before + depth):
            found[f"encoder.{layer}.self"] = Map(
                weights=Weights(heads=heads), kind="self", queries=cells, keys=keys, summary=summary.format(layer)
            )
    return found
