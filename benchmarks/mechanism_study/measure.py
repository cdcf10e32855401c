"""What a trained configuration is measured by on held-out data."""

from dataclasses import dataclass

import numpy as np

from benchmarks.mechanism_study.data import TaskData
from benchmarks.mechanism_study.overlap import Overlap, document_weights, overlap
from benchmarks.mechanism_study.training import answers
from bundle.maps import canonical
from limelight.v1 import model_pb2
from models.card import Card
from models.zoo.mechanism_small import SmallModel


@dataclass(frozen=True)
class Measured:
    """Held-out accuracy, normalised entropy of each map's weights, and agreement with people's rationales."""

    accuracy: float
    entropy: dict[str, float]
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
            rows[each.name].append(normalised_entropy(maps[each.name], key_mask(card, each, masks)))
        if data.held_out.documents:
            weights |= dict(zip(index.tolist(), document_weights(maps, masks["token_mask"]), strict=True))
    return Measured(
        right / len(data.held_out.labels),
        {name: float(np.concatenate(parts).mean()) for name, parts in rows.items()},
        overlap(data, weights) if weights else None,
    )


def key_mask(card: Card, description: model_pb2.MapDescription, masks: dict[str, np.ndarray]) -> np.ndarray:
    """Real keys of a map [batch, 1, query or 1, key]; all of them where keys are a fixed set."""
    labels = {each.name: each for each in card.description.label_sets}
    keys = labels[description.key_labels]
    if not keys.tensor:
        return np.ones((1, 1, 1, len(keys.names)), dtype=bool)
    mask = masks[keys.tensor.removesuffix("ids") + "mask"]
    if description.form == model_pb2.MAP_FORM_EDGES:
        return mask[:, None]
    tensor = next(t for i in card.description.inputs for t in i.tensors if t.name == keys.tensor)
    axis = [dimension.name for dimension in tensor.dimensions].index(keys.dimension) + 1
    rest = tuple(other for other in range(1, mask.ndim) if other != axis)
    return mask.any(axis=rest)[:, None, None, :]


def normalised_entropy(weights: np.ndarray, real: np.ndarray) -> np.ndarray:
    """H(p) / ln n of each row of weights that looks at something among n > 1 keys, p = |w| / Σ|w| (catalogue N6).

    weights [batch, head, query, key(, feature)]; real: keys, broadcastable to them without the feature -> [row].
    """
    if weights.ndim == 5:
        weights, real = np.moveaxis(weights, -1, 0), real[None]
    size = np.abs(weights)
    total = size.sum(-1)
    count = np.broadcast_to(real, weights.shape).sum(-1)
    share = size / np.where(total > 0, total, 1)[..., None]
    entropy = -(share * np.log(np.where(share > 0, share, 1))).sum(-1)
    counted = (total > 0) & (count > 1)
    return entropy[counted] / np.log(count[counted])
