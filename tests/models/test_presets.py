"""Presets: what every published model has, and that the papers' sizes make a network."""

import io
from dataclasses import asdict

import numpy as np
import pytest
import torch
from PIL import Image as Picture

from bundle.values import Graph, Image, Instance, Pair, Sentences, Text
from models.data.dataset import Dataset, Example
from models.zoo.index import recipe

# The seventeen of Brauwers and Frasincar (2021), Table 3; then those of other papers.
PUBLISHED = (
    "bahdanau", "luong", "show-attend-tell", "hiecoatt", "han", "hatn", "transformer", "lcr-rot-hop", "dme", "disan",
    "sagan", "psac", "mcan", "rban", "attention-unet", "mme", "rnn-capsule",
)  # fmt: skip
OTHERS = ("gpt", "gat", "vit", "cct")
TEXT = Text("It rains all day. We stay at home!")
SIZE = {"sagan": (128, 128), "show-attend-tell": (224, 224), "vit": (224, 224), "cct": (32, 32), "psac": (48, 36 * 48)}


def picture(name: str) -> Image:
    buffer = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 256, SIZE.get(name, (48, 48)), np.uint8)
    Picture.fromarray(pixels).save(buffer, "PNG")
    return Image(buffer.getvalue())


def example(name: str, label: str) -> Example:
    asked = {"image": picture(name), "question": TEXT}
    instances: dict[str, Instance] = {
        **{each: {"text": TEXT, "target": TEXT} for each in ("bahdanau", "luong", "transformer", "gpt")},
        **dict.fromkeys(("hiecoatt", "mcan", "psac"), asked),
        **{each: {"document": TEXT} for each in ("han", "hatn")},
        **{each: {"text": TEXT} for each in ("dme", "rnn-capsule")},
        **{each: {"pair": Pair(TEXT.text, TEXT.text)} for each in ("disan", "rban")},
        **{each: {"image": picture(each)} for each in ("vit", "cct", "attention-unet")},
        "show-attend-tell": {"image": picture(name), "target": TEXT},
        "sagan": {"class": Text(label)},
        "lcr-rot-hop": {"left": TEXT, "target": TEXT, "right": TEXT},
        "mme": {"document": Sentences(tuple(TEXT.text.split()))},
        "gat": {"graph": Graph(np.zeros((2, 1433), np.float32), np.zeros((2, 1), np.int64))},
    }
    labels = {"mme": ("a", "b") * 4, "gat": ("a", "b"), "attention-unet": ("a", "b") * 288}.get(name, ())
    drawn = picture(name) if name == "sagan" else None
    return Example(instances[name], label=label, labels=labels, picture=drawn)


@pytest.mark.parametrize("name", [*PUBLISHED, *OTHERS])
def test_every_published_model_has_the_sizes_of_its_paper(name: str) -> None:
    """As its data make it, on a device that has shapes alone."""
    chosen = recipe(name)
    assert {"demo", "full", "paper"} <= set(chosen.presets)
    preset = chosen.presets["paper"]
    examples = tuple(example(name, label) for label in "ab")
    data = Dataset(name="", licence="", summary="", train=examples, dev=examples, test=examples)
    blueprint = chosen.prepare(data, preset)
    assert asdict(blueprint.config).items() >= preset.sizes.items()
    with torch.device("meta"):
        network = chosen.build(blueprint)
    assert all(each.is_meta for each in network.parameters())
    assert chosen.card(network, blueprint).description.maps
