"""What a trained configuration is measured by on held-out data."""

from dataclasses import dataclass

import numpy as np

from benchmarks.mechanism_study.data import TaskData
from benchmarks.mechanism_study.overlap import Overlap, document_weights, overlap
from benchmarks.mechanism_study.training import answers
from bundle.maps import canonical
from limelight.v1 import model_pb2
from models.cards.card import Card
from models.testbed.classifier import SmallModel


@dataclass(frozen=True)
class Measured:
    """Held-out accuracy, normalised entropy of each map's weights, and agreement with people's rationales.

    A map that looks at nothing in all of the held-out part has no entropy.
    """

    accuracy: float
    entropy: dict[str, float | None]
    overlap: Overlap | None


def measure(model: SmallModel, card: Card, data: TaskData, size: int) -> Measured:
    """Answer the held-out part once."""
    right = 0
    rows: dict[str, list[np.ndarray]] = {each.name: [] for each in card.description.maps}
    weights: dict[int, np.ndarray] = {}
    for index, batch, answer in answers(model, card, data.held_out, size):
        found = answer.outputs["logits"].argmax(-1).numpy()
        right += int((found == data.held_out.labels[index]).sum())
        masks = {name: tensor.numpy() for name, tensor in batch.items() if name.endswith("mask")}
        maps = {name: canonical(tensor.numpy(), list(card.map_axes[name])) for name, tensor in answer.maps.items()}
        for each in card.description.maps:
            rows[each.name].append(normalised_entropy(maps[each.name], real_places(card, each, masks)))
        if data.held_out.documents:
            weights |= dict(zip(index.tolist(), document_weights(maps, masks["token_mask"]), strict=True))
    return Measured(
        right / len(data.held_out.labels),
        {name: float(found.mean()) if (found := np.concatenate(parts)).size else None for name, parts in rows.items()},
        overlap(data, weights) if weights else None,
    )


def real_places(card: Card, description: model_pb2.MapDescription, masks: dict[str, np.ndarray]) -> np.ndarray:
    """Where a map has a real query and a real key, broadcastable to [batch, head, query, key]."""
    if description.form == model_pb2.MAP_FORM_EDGES:
        return masks[_labels(card, description.key_labels).tensor.removesuffix("ids") + "mask"][:, None]
    queries = _real(card, description.query_labels, masks)
    keys = _real(card, description.key_labels, masks)
    return queries[:, None, :, None] & keys[:, None, None, :]


def _labels(card: Card, name: str) -> model_pb2.LabelSetDescription:
    return next(each for each in card.description.label_sets if each.name == name)


def _real(card: Card, name: str, masks: dict[str, np.ndarray]) -> np.ndarray:
    """Which entries of a label set are real [batch, entry]; all of them in a fixed set."""
    labels = _labels(card, name)
    if not labels.tensor:
        return np.ones((1, max(1, len(labels.names))), dtype=bool)
    mask = masks[labels.tensor.removesuffix("ids") + "mask"]
    tensor = next(t for i in card.description.inputs for t in i.tensors if t.name == labels.tensor)
    axis = [dimension.name for dimension in tensor.dimensions].index(labels.dimension) + 1
    return mask.any(axis=tuple(other for other in range(1, mask.ndim) if other != axis))


def normalised_entropy(weights: np.ndarray, real: np.ndarray) -> np.ndarray:
    """H(p) / ln n of each row of weights that looks at something, with n > 1 real keys, p = |w| / Σ|w| (catalogue N6).

    weights [batch, head, query, key(, feature)]; real: see `real_places` -> [row].
    """
    if weights.ndim == 5:
        weights, real = np.moveaxis(weights, -1, 0), real[None]
    size = np.abs(weights)
    size = np.where(real, size, 0)  # padded queries have weights of no meaning
    total = size.sum(-1)
    count = np.broadcast_to(real, weights.shape).sum(-1)
    share = size / np.where(total > 0, total, 1)[..., None]
    entropy = -(share * np.log(np.where(share > 0, share, 1))).sum(-1)
    counted = (total > 0) & (count > 1)
    return entropy[counted] / np.log(count[counted])
