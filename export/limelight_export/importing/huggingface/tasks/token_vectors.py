"""A vector of length 1 for each token of a text, for late interaction (Khattab and Zaharia 2020)."""

from typing import Any

from torch import Tensor, nn

from limelight_export.errors import CheckpointError
from limelight_export.importing.huggingface.checkpoint import Checkpoint
from limelight_export.importing.huggingface.tasks import MODULES, states_pooling
from limelight_export.importing.huggingface.tasks.embedding import (
    Normalised,
    check_texts,
    dense,
    max_tokens,
    without_pooler,
)
from limelight_export.importing.huggingface.tasks.encoder import EncoderSource, encoder_model, load_encoder, text_input
from limelight_models.cards.card import TrainedModel
from limelight_models.cards.results import TokenVectors

# The projection in the checkpoints of ColBERT's authors, whose other weights are the encoder's.
_WEIGHTS, _PROJECTION = "model.safetensors", "linear.weight"


class _Projected(nn.Module):
    """Vectors of the tokens behind the last layer: projected, and of length 1."""

    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers, Normalised())

    def forward(self, output: Any, mask: Tensor) -> dict[str, Tensor]:
        return {"vectors": self.layers(output.last_hidden_state)}


def build_token_vectors(source: EncoderSource) -> TrainedModel:
    """Build a model that maps each token of a text to a vector.

    Raises:
        CheckpointError: the checkpoint states other modules than projections of tokens.
    """
    checkpoint = source.checkpoint
    layers = _stated_layers(checkpoint) if states_pooling(checkpoint) else _projection(checkpoint)
    parts = load_encoder(source, "AutoModel", most=max_tokens(checkpoint), **without_pooler(checkpoint))
    size = int(parts.config.hidden_size)
    for each in layers:
        if isinstance(each, nn.Linear):
            if each.in_features != size:
                raise CheckpointError(f"a projection takes {each.in_features} features; what it gets has {size}")
            size = each.out_features
    read = text_input(parts, "A text, with the markers that the model was trained with.")
    tokens = read.tokens(words=True)
    return encoder_model(
        source,
        parts,
        _Projected(layers),
        model_input=read,
        tokens=tokens,
        results=[TokenVectors(over=tokens, size=size)],
        summary="Maps each token of a text to a vector of length 1, for late interaction.",
    )


def _stated_layers(checkpoint: Checkpoint) -> list[nn.Module]:
    """Load the projections that files of sentence-transformers (or PyLate) state. Raises CheckpointError."""
    check_texts(checkpoint)
    found: list[nn.Module] = []
    modules = checkpoint.json(MODULES)
    for each in modules if isinstance(modules, list) else ():
        stated = each if isinstance(each, dict) else {}
        kind, path = str(stated.get("type", "")).rpartition(".")[2], str(stated.get("path") or "")
        if kind == "Dense":
            found += dense(checkpoint, path)
        elif kind not in ("Transformer", "Pooling", "Normalize"):  # pooling is of the text's one vector
            raise CheckpointError(f"{MODULES} has the module {kind or each} at {path!r}, which is not supported")
    return found


def _projection(checkpoint: Checkpoint) -> list[nn.Module]:
    """Load the projection of ColBERT's own checkpoints; none where there is none."""
    from safetensors import safe_open

    file = checkpoint.file(_WEIGHTS)
    if file is None:
        return []
    with safe_open(file, "pt") as weights:
        if _PROJECTION not in weights.keys():  # noqa: SIM118  it is no mapping
            return []
        weight = weights.get_tensor(_PROJECTION).float()
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=False)
    layer.load_state_dict({"weight": weight})
    return [layer]
