"""The published models, small and untrained, through the same call."""

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image as Picture

from bundle.samples import read_samples
from bundle.values import Image, Text
from export.pipeline import export_model
from models.cards.card import TrainedModel
from models.zoo.hierarchical import han
from models.zoo.rnn_search import bahdanau, bahdanau_card
from models.zoo.vision import vit
from tests.export import tiny


def a_picture() -> bytes:
    buffer = io.BytesIO()
    Picture.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8) * 4).save(buffer, "PNG")
    return buffer.getvalue()


def a_han() -> TrainedModel:
    config = han.HanConfig(vocabulary=tiny.VOCABULARY, classes=2, d_embedding=8, d_gru=4, d_attention=5)
    card = han.card(config, labels=["a", "b"], tokenizer=tiny.tokenizer())
    example = {"document": Text("the cat sat. a dog ran on the mat.")}
    return TrainedModel(han.HierarchicalAttentionNetwork(config), card, (example,), tiny.DATA, ())


def a_bahdanau() -> TrainedModel:
    sizes = {"d_embedding": 6, "d_encoder": 4, "d_decoder": 7, "d_attention": 5, "d_maxout": 6}
    config = bahdanau.BahdanauConfig(
        source_vocabulary=tiny.VOCABULARY, target_vocabulary=tiny.VOCABULARY, begin=2, end=3, max_new_tokens=6, **sizes
    )
    card = bahdanau_card.card(config, source_tokenizer=tiny.tokenizer(), target_tokenizer=tiny.tokenizer())
    return TrainedModel(bahdanau.Bahdanau(config), card, ({"text": Text("the cat sat")},), tiny.DATA, ())


def a_vit() -> TrainedModel:
    config = vit.VitConfig(classes=3, d_model=8, layers=2, heads=2, d_hidden=12)
    card = vit.card(config, labels=["a", "b", "c"])
    return TrainedModel(vit.VisionTransformer(config), card, ({"image": Image(a_picture())},), tiny.DATA, ())


@pytest.mark.parametrize(
    ("make", "shapes"),
    [
        (a_han, {"word": (1, 11), "sentence": (1, 1, 2)}),
        (a_bahdanau, {"decoder.cross": (1, -1, 3)}),  # as many queries as steps, which chance decides
        (a_vit, {"encoder.0.self": (2, 17, 17), "encoder.1.self": (2, 17, 17)}),
    ],
)
def test_a_published_model(
    make: Callable[[], TrainedModel], shapes: dict[str, tuple[int, ...]], tmp_path: Path
) -> None:
    torch.manual_seed(1)
    trained = make()
    folder = export_model(trained, tmp_path)
    sample = read_samples(folder)[0]
    found = {name: each.weights.shape for name, each in sample.maps.items()}
    steps = len(sample.token_ids)
    assert found == {name: tuple(steps if size < 0 else size for size in shape) for name, shape in shapes.items()}
    assert all(each.absolute < 1e-5 for each in folder.bundle.parity)
