"""Objects in a picture: their classes, the boxes around them, and where each query looks."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from limelight_export.errors import CheckpointError
from limelight_export.importing.huggingface.architectures.pictures import (
    DetectionArchitecture,
    TokenDetectionArchitecture,
)
from limelight_export.importing.huggingface.attention import run_with_maps
from limelight_export.importing.huggingface.images import stretched_input
from limelight_export.importing.huggingface.loading import load_config, load_model
from limelight_export.importing.huggingface.tasks.classification import labels_of
from limelight_export.importing.huggingface.tasks.layer_maps import layer_maps, self_maps
from limelight_export.importing.huggingface.tasks.pictures import drawn_examples
from limelight_export.importing.huggingface.tasks.task import Source
from limelight_models.attention.weights import Weights
from limelight_models.cards.card import TrainedModel, TrainingData
from limelight_models.cards.hidden import HiddenStates
from limelight_models.cards.inputs import ImageInput
from limelight_models.cards.labels import LabelSet
from limelight_models.cards.maps import Map
from limelight_models.cards.results import Boxes
from limelight_models.network import Answer, Network

_SUMMARY = "Finds objects in a picture."
_THRESHOLD = 0.5
# Rows and columns of the picture that tells how many pixels a cell has.
_TRIAL = 256


class ImportedDetector(Network):
    """A DETR of transformers as a network of this repository.

    All of its pictures have one size. So attention needs no mask of padding, and the positions of cells are constants.

    Args:
        grid: rows and columns of the cells.
    """

    def __init__(self, model: Any, grid: tuple[int, int]) -> None:
        super().__init__()
        self.model = model
        positions = model.model.position_embedding(
            shape=torch.Size((1, 1, *grid)),
            device=torch.device("cpu"),
            dtype=torch.float32,
            mask=torch.ones((1, *grid), dtype=torch.bool),
        )
        self.positions: Tensor
        self.register_buffer("positions", positions.flatten(2).transpose(1, 2))

    def forward(self, **tensors: Tensor) -> Answer:
        pixels, detr = tensors["pixels"], self.model.model
        features = detr.backbone.model(pixels).feature_maps[-1]
        encoded, encoder = run_with_maps(
            detr.encoder,
            inputs_embeds=detr.input_projection(features).flatten(2).transpose(1, 2),
            spatial_position_embeddings=self.positions,
        )
        queries = detr.query_position_embeddings.weight.expand(pixels.shape[0], -1, -1)
        decoded, decoder = run_with_maps(
            detr.decoder,
            inputs_embeds=torch.zeros_like(queries),
            object_queries_position_embeddings=queries,
            spatial_position_embeddings=self.positions,
            encoder_hidden_states=encoded.last_hidden_state,
        )
        found = decoded.last_hidden_state
        outputs = {
            "logits": self.model.class_labels_classifier(found),
            "boxes": self.model.bbox_predictor(found).sigmoid(),
        }
        stacks = {"encoder.{}.self": encoder, "decoder.{}.self": decoder, "decoder.{}.cross": decoded.cross_attentions}
        return Answer(
            outputs, {name.format(layer): each for name, maps in stacks.items() for layer, each in enumerate(maps)}
        )


class _Rolled(nn.Module):
    """A module whose tokens are moved, the last `count` of them before the others: [..., token, feature]."""

    def __init__(self, module: nn.Module, count: int) -> None:
        super().__init__()
        self.module, self._count = module, count

    def forward(self, *arguments: Any) -> Tensor:
        return torch.roll(self.module(*arguments), self._count, -2)


class ImportedTokenDetector(Network):
    """A YOLOS of transformers as a network of this repository, whose detection tokens come before the others.

    So the number of a box's query is that of its row in maps. Attention does not depend on the order of tokens, since
    their positions are added before.

    Args:
        maps: names of the maps, one a layer.
        hidden: names of the hidden states, the embeddings' first.
    """

    def __init__(self, model: Any, maps: Sequence[str], hidden: Sequence[str]) -> None:
        super().__init__()
        self.model, self._maps, self._hidden = model, tuple(maps), tuple(hidden)
        self._count = int(model.config.num_detection_tokens)
        model.vit.embeddings = _Rolled(model.vit.embeddings, self._count)
        if model.vit.encoder.interpolation is not None:
            model.vit.encoder.interpolation = _Rolled(model.vit.encoder.interpolation, self._count)

    def forward(self, **tensors: Tensor) -> Answer:
        output, maps = run_with_maps(self.model.vit, pixel_values=tensors["pixels"])
        found = output.last_hidden_state[:, : self._count]
        outputs = {
            "logits": self.model.class_labels_classifier(found),
            "boxes": self.model.bbox_predictor(found).sigmoid(),
            **dict(zip(self._hidden, output.hidden_states, strict=True)),
        }
        return Answer(outputs, dict(zip(self._maps, maps, strict=True)))


def build_token_detection(source: Source[TokenDetectionArchitecture]) -> TrainedModel:
    """Build a model that finds objects in a picture by tokens beside its patches.

    Raises:
        CheckpointError: its picture has no whole number of patches, or as of `stretched_input` and `load_model`.
    """
    config = load_config(source.checkpoint)
    picture = stretched_input(source.checkpoint, int(config.num_channels), source.options.size)
    _check_cells(picture, config.patch_size)
    queries = _queries(config.num_detection_tokens)
    patches = picture.patches(config.patch_size, leading=(*queries.names, "class"))
    maps = self_maps(int(config.num_hidden_layers), int(config.num_attention_heads), patches, "patch or query")
    hidden = HiddenStates(stack="encoder", labels=patches, layers=len(maps), size=int(config.hidden_size))
    card = source.card(
        summary=_SUMMARY,
        inputs=[picture],
        results=[_boxes(source, config, queries, patches)],
        maps=maps,
        hidden=[hidden],
    )
    model = load_model(source.checkpoint, "AutoModelForObjectDetection")
    network = ImportedTokenDetector(model, list(maps), hidden.names)
    return TrainedModel(network.eval(), card, drawn_examples(source, picture), TrainingData(), ())


def build_object_detection(source: Source[DetectionArchitecture]) -> TrainedModel:
    """Build a model that finds objects in a picture.

    Raises:
        CheckpointError: its picture has no whole number of cells, or as of `stretched_input` and `load_model`.
    """
    # Older versions of transformers wrote null for dilation, which newer ones do not read.
    config = load_config(source.checkpoint, without={"dilation"})
    channels = int(config.backbone_config.num_channels)
    picture = stretched_input(source.checkpoint, channels, source.options.size)
    model = load_model(source.checkpoint, "AutoModelForObjectDetection", config=config)
    cell = _pixels_of_a_cell(model, channels)
    _check_cells(picture, cell)
    grid = picture.rows // cell, picture.columns // cell
    cells, queries = picture.cells(*grid), _queries(config.num_queries)
    card = source.card(
        summary=_SUMMARY,
        inputs=[picture],
        results=[_boxes(source, config, queries, cells)],
        maps=_maps(config, cells, queries),
    )
    network = ImportedDetector(model, grid)
    return TrainedModel(network.eval(), card, drawn_examples(source, picture), TrainingData(), ())


def _check_cells(picture: ImageInput, cell: int) -> None:
    """Check that a picture has a whole number of cells of so many rows and columns. Raises CheckpointError."""
    if picture.rows % cell or picture.columns % cell:
        raise CheckpointError(
            f"pictures of {picture.rows} x {picture.columns} pixels are not whole cells of {cell} x {cell}; "
            f"name multiples of {cell}: --size {_rounded(picture.rows, cell)}x{_rounded(picture.columns, cell)}"
        )


def _queries(count: int) -> LabelSet:
    return LabelSet(name="queries", kind="latents", names=tuple(f"query {number}" for number in range(count)))


def _boxes(source: Source[Any], config: Any, queries: LabelSet, cells: LabelSet) -> Boxes:
    threshold = source.options.threshold
    return Boxes(
        labels=labels_of(config), over=queries, grid=cells, threshold=_THRESHOLD if threshold is None else threshold
    )


def _maps(config: Any, cells: LabelSet, queries: LabelSet) -> Mapping[str, Map]:
    layers, others = int(config.decoder_layers), "Which other queries each query attends to in layer {}."
    looked_at = "The cells of the picture that each query attends to in layer {}."
    decoder = (
        ("decoder.{}.self".format, queries, queries, others),
        ("decoder.{}.cross".format, queries, cells, looked_at),
    )
    return {
        **self_maps(int(config.encoder_layers), int(config.encoder_attention_heads), cells, "cell"),
        **layer_maps(layers, Weights(heads=int(config.decoder_attention_heads)), *decoder),
    }


def _pixels_of_a_cell(model: Any, channels: int) -> int:
    """Return the rows and columns of pixels for which the backbone gives one cell."""
    with torch.no_grad():
        features = model.model.backbone.model(torch.zeros(1, channels, _TRIAL, _TRIAL)).feature_maps[-1]
    return _TRIAL // int(features.shape[-1])


def _rounded(size: int, cell: int) -> int:
    return max(1, round(size / cell)) * cell
