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
from models.zoo.aspects import lcr_rot, rban
from models.zoo.capsule import rnn_capsule
from models.zoo.captioning import show_attend_tell
from models.zoo.co_attention import hiecoatt, mcan, psac
from models.zoo.disan import disan
from models.zoo.generative import sagan
from models.zoo.graph import gat
from models.zoo.hierarchical import han, hatn
from models.zoo.index import recipe
from models.zoo.meta_embeddings import dme, mme
from models.zoo.rnn_search import bahdanau, luong
from models.zoo.segmentation import attention_unet
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


def an_lcr_rot() -> TrainedModel:
    config = lcr_rot.LcrRotConfig(vocabulary=tiny.VOCABULARY, classes=2, hops=2, d_embedding=6, d_hidden=4)
    return trained("lcr-rot-hop", config, {name: Text(text) for name, text in tiny.PARTS.items()})


def an_rban() -> TrainedModel:
    config = rban.RbanConfig(vocabulary=tiny.VOCABULARY, classes=2, d_embedding=6, d_hidden=4, d_attention=5)
    return trained("rban", config, {"pair": Pair("the cat sat", "a dog ran on")})


def a_hatn() -> TrainedModel:
    """With two words that are pivots: a sentence of nothing else has no weight for the second network."""
    config = hatn.HatnConfig(vocabulary=tiny.VOCABULARY, classes=2, d_embedding=6, d=5, max_sentences=9, max_words=16)
    made = trained("hatn", config, {"document": Text("cat. the cat sat. a dog ran on the mat.")})
    assert isinstance(made.model, hatn.Hatn)
    for place, word in enumerate(("cat", ".")):
        made.model.is_pivot[place, 4 + tiny.WORDS.index(word)] = True
    return made


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


def a_hard_show_attend_tell() -> TrainedModel:
    sizes = {"channels": (4, 5), "strides": (2,), "d_embedding": 6, "d_state": 7, "d_attention": 5}
    config = show_attend_tell.ShowAttendTellConfig(
        vocabulary=tiny.VOCABULARY, begin=2, end=3, rows=8, columns=8, max_new_tokens=6, **sizes
    )
    return trained("show-attend-tell-hard", config, {"image": Image(a_picture())})


def an_attention_unet() -> TrainedModel:
    """With coefficients of each feature."""
    config = attention_unet.AttentionUnetConfig(classes=2, rows=8, columns=8, channels=(3, 4), d_gate=3)
    return trained("attention-unet-features", config, {"image": Image(a_picture())})


def a_sagan() -> TrainedModel:
    config = sagan.SaganConfig(vocabulary=tiny.VOCABULARY, rows=8, columns=8, d_noise=3, channels=(5, 4, 3))
    return trained("sagan", config, {"class": Text("cat")})


ASKED = {"vocabulary": tiny.VOCABULARY, "classes": 2, "channels": (2, 3, 4), "d": 4}
QUESTION: Instance = {"image": Image(a_picture()), "question": Text("a cat on the mat")}


def a_hiecoatt(variant: str = "") -> TrainedModel:
    config = hiecoatt.HieCoAttConfig(rows=12, columns=18, d_attention=5, d_answer=6, around=1, **ASKED)
    return trained(f"hiecoatt{variant}", config, QUESTION)


def an_mcan() -> TrainedModel:
    return trained("mcan", mcan.McanConfig(rows=12, columns=18, heads=2, d_hidden=6, d_fused=5, **ASKED), QUESTION)


def a_psac() -> TrainedModel:
    return trained("psac", psac.PsacConfig(rows=12, columns=36, heads=2, d_hidden=6, **ASKED), QUESTION)


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
        (
            a_hatn,
            {
                f"{network}.{level}": shape
                for network in hatn.ABOUT
                for level, shape in (("word", (1, 13)), ("sentence", (1, 1, 3)))
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
        (
            a_hiecoatt,
            {
                f"{level}.{name}": (1, *shape)
                for level in hiecoatt.LEVELS
                for name, shape in (("words", (1, 5)), ("regions", (1, 6)), ("affinity", (5, 6)))
            },
        ),
        (
            partial(a_hiecoatt, "-alternating"),
            {
                f"{level}.{name}": (1, 1, keys)
                for level in hiecoatt.LEVELS
                for name, keys in (("start", 5), ("regions", 6), ("words", 5))
            },
        ),
        (
            an_mcan,
            {
                **{
                    f"{name}.{layer}.{kind}": (2, *shape)
                    for layer in range(2)
                    for name, kind, shape in (
                        ("words", "self", (5, 5)),
                        ("regions", "self", (6, 6)),
                        ("regions", "cross", (6, 5)),
                    )
                },
                "words.pool": (1, 1, 5),
                "regions.pool": (1, 1, 6),
            },
        ),
        (
            a_psac,
            {
                "frames.0.self": (2, 3, 3),
                "words.0.self": (2, 5, 5),
                "frames.cross": (1, 3, 5),
                "words.cross": (1, 5, 3),
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
