"""Parts of all tasks of pictures: the network around an encoder of transformers, its input and its maps."""

from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from typing import Any

import numpy as np
from PIL import Image as Pillow
from torch import Tensor, nn

from limelight_bundle.values import Image, Instance
from limelight_export.errors import CheckpointError, ExportError
from limelight_export.importing.huggingface.architectures.architecture import VisionArchitecture
from limelight_export.importing.huggingface.attention import run_with_maps
from limelight_export.importing.huggingface.images import image_input
from limelight_export.importing.huggingface.pooling_attention import POOLING, pool_by_attention
from limelight_export.importing.huggingface.tasks.layer_maps import self_maps
from limelight_export.importing.huggingface.tasks.task import Source
from limelight_models.cards.card import TrainedModel, TrainingData
from limelight_models.cards.hidden import HiddenStates
from limelight_models.cards.inputs import ImageInput
from limelight_models.cards.labels import LabelSet, one
from limelight_models.cards.maps import Map
from limelight_models.cards.results import Result
from limelight_models.network import Answer, Network

# The outputs of a card from what a transformers model returns.
PictureHead = Callable[[Any], Mapping[str, Tensor]]


class ImportedPictureEncoder(Network):
    """An encoder of pictures of transformers as a network of this repository.

    Args:
        head: the card's outputs from the model's; a module where it has weights.
        maps: names of the maps, one a layer.
        hidden: names of the hidden states, the embeddings' first.
        pools: whether attention pools the last layer, whose map is put out.
    """

    def __init__(
        self, model: nn.Module, head: PictureHead, maps: Sequence[str], hidden: Sequence[str], *, pools: bool = False
    ) -> None:
        super().__init__()
        self.model: Any = model
        self.head = head
        self._maps, self._hidden, self._pools = tuple(maps), tuple(hidden), pools

    def forward(self, **tensors: Tensor) -> Answer:
        output, maps = run_with_maps(self.model, **self.arguments(tensors))
        if len(maps) != len(self._maps):
            raise ExportError(f"{type(self.model).__name__} returns {len(maps)} maps, not {len(self._maps)}")
        named = dict(zip(self._maps, maps, strict=True))
        if self._pools:
            output.pooler_output, named[POOLING] = pool_by_attention(self.model.head, output.last_hidden_state)
        return Answer({**self.head(output), **dict(zip(self._hidden, output.hidden_states, strict=True))}, named)

    def arguments(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return the arguments of the library's model."""
        return {"pixel_values": tensors["pixels"]}


def picture_model(
    source: Source[VisionArchitecture],
    config: Any,
    load: Callable[[], nn.Module],
    head: PictureHead,
    *,
    result: Result,
    summary: str,
    default_to_square: bool = True,
    pools: bool = False,
) -> TrainedModel:
    """Put an encoder of pictures together for export.

    Args:
        config: of the encoder.
        load: loads it, once its picture is known to be one that can be read.
        summary: sentence that says what the model does.
        default_to_square: as of `image_input`.
        pools: whether the model has a head that pools by attention, on which `head` depends.
    Raises:
        CheckpointError: it takes pictures or patches that are not square, the caller gives examples, or as of
            `image_input` and `load`.
    """
    architecture = source.architecture
    size, patch = config.image_size, config.patch_size
    if not (isinstance(size, int) and isinstance(patch, int)) or patch < 1 or size % patch:
        raise CheckpointError(f"config.json states pictures of {size} in patches of {patch}; both are square")
    picture = image_input(
        source.checkpoint,
        None if architecture.interpolates else size,
        int(config.num_channels),
        default_to_square=default_to_square,
    )
    if picture.rows % patch or picture.columns % patch:
        raise CheckpointError(
            f"the processor makes pictures of {picture.rows} x {picture.columns} pixels, which are no whole patches of "
            f"{patch}"
        )
    registers = (f"register {number}" for number in range(int(getattr(config, "num_register_tokens", 0))))
    patches = picture.patches(patch, leading=(*architecture.leading, *registers))
    maps = self_maps(int(config.num_hidden_layers), int(config.num_attention_heads), patches, "patch")
    hidden = HiddenStates(stack="encoder", labels=patches, layers=len(maps), size=int(config.hidden_size))
    card = source.card(
        summary=summary,
        inputs=[picture],
        results=[result],
        maps={**maps, **(_pooling_map(maps, patches) if pools else {})},
        hidden=[hidden],
    )
    examples = drawn_examples(source, picture)
    network = ImportedPictureEncoder(load(), head, list(maps), hidden.names, pools=pools)
    return TrainedModel(network.eval(), card, examples, TrainingData(), ())


def _pooling_map(maps: Mapping[str, Map], patches: LabelSet) -> dict[str, Map]:
    """Describe the map by which the last layer is pooled, with as many heads as those of the layers."""
    weights = next(iter(maps.values())).weights
    about = "What the vector of the picture is pooled from."
    return {POOLING: Map(weights=weights, kind="pool", queries=one("picture"), keys=patches, summary=about)}


def drawn_examples(source: Source[Any], picture: ImageInput) -> tuple[Instance, ...]:
    """Draw two pictures. Raises CheckpointError where the caller gives examples."""
    if source.options.examples:
        raise CheckpointError("examples of this model would be pictures; they are drawn")
    return tuple({picture.name: Image(_drawn(number))} for number in range(2))


def _drawn(number: int) -> bytes:
    """Draw a picture of coloured waves, as a PNG file."""
    rows, columns = np.mgrid[0:96, 0:128] / 32
    waves = [np.sin((channel + 1) * rows + number) * np.cos((3 - channel) * columns) for channel in range(3)]
    pixels = np.stack([127.5 + 127.5 * each for each in waves], axis=-1).astype(np.uint8)
    file = BytesIO()
    Pillow.fromarray(pixels).save(file, "PNG")
    return file.getvalue()
