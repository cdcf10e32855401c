"""The published models, small and untrained, through the same call."""

import io
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image as Picture

from bundle.samples import read_samples
from bundle.values import Graph, Image, Instance, Pair, Sentences, Text
from export.pipeline import export_model
from models.cards.card import TrainedModel
from models.training.recipe import Blueprint
from models.zoo.capsule import rnn_capsule
from models.zoo.disan import disan
from models.zoo.graph import gat
from models.zoo.hierarchical import han
from models.zoo.index import recipe
from models.zoo.meta_embeddings import dme, mme
from models.zoo.rnn_search import bahdanau, luong
from models.zoo.transformer import gpt, transformer
from models.zoo.vision import cct, vit
from tests.export import tiny

# A size, or how it follows from the number of steps.
Size = int | Callable[[int], int]


def itself(steps: int) -> int:
    return steps


def a_picture() -> bytes:
    buffer = io.BytesIO()
    Picture.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8) * 4).save(buffer, "PNG")
    return buffer.getvalue()


def trained(name: str, config: object, example: Instance) -> TrainedModel:
    """A published model, untrained."""
    files = dict.fromkeys(
        ("tokenizer.json", "subwords.json", "source.json", "target.json", "prompt.json"), tiny.tokenizer()
    )
    blueprint = Blueprint(config, ("a", "b"), files)
    network = recipe(name).build(blueprint)
    card = recipe(name).card(network, blueprint)
    card.description.name = name
    return TrainedModel(network, card, (example,), tiny.DATA, ())


def a_han() -> TrainedModel:
    config = han.HanConfig(vocabulary=tiny.VOCABULARY, classes=2, d_embedding=8, d_gru=4, d_attention=5)
    return trained("han", config, {"document": Text("the cat sat. a dog ran on the mat.")})


def a_bahdanau() -> TrainedModel:
    sizes = {"d_embedding": 6, "d_encoder": 4, "d_decoder": 7, "d_attention": 5, "d_maxout": 6}
    config = bahdanau.BahdanauConfig(
        source_vocabulary=tiny.VOCABULARY, target_vocabulary=tiny.VOCABULARY, begin=2, end=3, max_new_tokens=6, **sizes
    )
    return trained("bahdanau", config, {"text": Text("the cat sat")})


def a_luong(name: str = "luong") -> TrainedModel:
    vocabularies = {"source_vocabulary": tiny.VOCABULARY, "target_vocabulary": tiny.VOCABULARY}
    config = luong.LuongConfig(**vocabularies, begin=2, end=3, max_new_tokens=6, d=6, radius=2)
    return trained(name, config, {"text": Text("the cat sat")})


def an_rnn_capsule() -> TrainedModel:
    config = rnn_capsule.RnnCapsuleConfig(vocabulary=tiny.VOCABULARY, classes=2, d_embedding=6, d_hidden=4)
    return trained("rnn-capsule", config, {"text": Text("the cat sat")})


def a_disan() -> TrainedModel:
    config = disan.DisanConfig(vocabulary=tiny.VOCABULARY, classes=2, d=4, d_compare=6)
    return trained("disan", config, {"pair": Pair("the cat sat", "a dog ran on")})


def a_dme() -> TrainedModel:
    config = dme.DmeConfig(vocabulary=tiny.VOCABULARY, classes=2, d_embedding=6, d=5, d_hidden=4, contextualised=True)
    return trained("dme", config, {"text": Text("the cat sat")})


def an_mme() -> TrainedModel:
    sizes = {"vocabulary": tiny.VOCABULARY, "subwords": tiny.VOCABULARY, "letters": 40, "most_letters": 4}
    config = mme.MmeConfig(classes=2, d_embedding=6, d=8, heads=2, d_hidden=10, **sizes)
    return trained("mme", config, {"document": Sentences(("the", "cat", "sat .", "ran"))})


def a_gpt() -> TrainedModel:
    sizes = {"d_model": 8, "layers": 2, "heads": 2, "d_hidden": 12}
    config = gpt.GptConfig(vocabulary=tiny.VOCABULARY, begin=2, end=3, max_new_tokens=6, **sizes)
    return trained("gpt", config, {"text": Text("the cat sat")})


def a_transformer() -> TrainedModel:
    sizes = {"d_model": 8, "layers": 2, "heads": 2, "d_hidden": 12}
    vocabularies = {"source_vocabulary": tiny.VOCABULARY, "target_vocabulary": tiny.VOCABULARY}
    config = transformer.TransformerConfig(**vocabularies, begin=2, end=3, max_new_tokens=6, **sizes)
    return trained("transformer", config, {"text": Text("the cat sat")})


def a_vit() -> TrainedModel:
    return trained(
        "vit", vit.VitConfig(classes=2, d_model=8, layers=2, heads=2, d_hidden=12), {"image": Image(a_picture())}
    )


def a_cct() -> TrainedModel:
    config = cct.CctConfig(classes=2, rows=8, columns=8, channels=(3,), d_model=8, heads=2, d_hidden=12)
    return trained("cct", config, {"image": Image(a_picture())})


def a_gat() -> TrainedModel:
    config = gat.GatConfig(features=4, classes=2, heads=3, d_head=2)
    features = np.random.default_rng(0).random((3, 4), np.float32)
    example = Graph(features, np.array([[0, 2], [1, 1]]), None, ("a", "b", "c"))
    return trained("gat", config, {"graph": example})


@pytest.mark.parametrize(
    ("make", "shapes"),
    [
        (a_han, {"word": (1, 11), "sentence": (1, 1, 2)}),
        (an_rnn_capsule, {"capsule": (1, 2, 3)}),
        (a_dme, {"meta": (1, 3, 3)}),
        (an_mme, {"meta": (1, 4, 3), "level": (1, 4, 3), "encoder.0.self": (2, 4, 4)}),
        (
            a_disan,
            {
                f"{side}.{name}": (1, queries or keys, keys, features)
                for side, keys in (("first", 3), ("second", 4))
                for name, queries, features in (("forward", 0, 4), ("backward", 0, 4), ("source", 1, 8))
            },
        ),
        (a_bahdanau, {"decoder.cross": (1, itself, 3)}),  # as many queries as steps, which chance decides
        *(
            (partial(a_luong, f"luong{variant}"), {"decoder.cross": (1, itself, 3)})
            for variant in ("-location", "-local-m")  # what reads places; the others are served
        ),
        # The begin token, the prompt's three words, and what was put out but for the last.
        (a_gpt, {f"decoder.{layer}.self": (2, itself, lambda steps: 3 + steps) for layer in range(2)}),
        (
            a_transformer,
            {
                f"{part}.{layer}.{kind}": (2, *shape)
                for layer in range(2)
                for part, kind, shape in (
                    ("encoder", "self", (3, 3)),
                    ("decoder", "self", (itself, itself)),
                    ("decoder", "cross", (itself, 3)),
                )
            },
        ),
        (a_gat, {"layer.0": (3, 7), "layer.1": (1, 7)}),  # two edges, their opposites, a loop a node
        (
            a_vit,
            {
                f"encoder.{layer}.self{quantity}": (2, 17, 17)
                for layer in range(2)
                for quantity in ("", ":scores", ":norms")
            },
        ),
        (
            a_cct,
            {"pool": (1, 1, 16), **{f"encoder.0.self{each}": (2, 16, 16) for each in ("", ":scores", ":norms")}},
        ),
    ],
)
def test_a_published_model(
    make: Callable[[], TrainedModel], shapes: dict[str, tuple[Size, ...]], tmp_path: Path
) -> None:
    torch.manual_seed(1)
    folder = export_model(make(), tmp_path)
    sample = read_samples(folder)[0]
    found = {name: each.weights.shape for name, each in sample.maps.items()}
    steps = len(sample.token_ids)
    assert found == {
        name: tuple(size if isinstance(size, int) else size(steps) for size in shape) for name, shape in shapes.items()
    }
    assert all(each.absolute < 1e-5 for each in folder.bundle.parity)
