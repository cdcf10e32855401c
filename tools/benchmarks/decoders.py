"""The models of the generation benchmark beside the demo's: Transformers with a KV cache, a decoder alone and one with
an encoder, which generate the same number of tokens for every text.
"""

from collections.abc import Mapping
from pathlib import Path

import torch

from limelight_bundle.names import BUNDLE_FILE
from limelight_bundle.values import Text
from limelight_export import export_model
from limelight_models.cards.card import TrainedModel, TrainingData
from limelight_models.data.dataset import Dataset, Example
from limelight_models.index import recipe
from limelight_models.recipes.settings import Preset, Settings

# Each with the embeddings that tokens are put out by.
MODELS = {"gpt": "tokens.weight", "transformer": "target_embedding.weight"}
SIZES = {"d_model": 256, "layers": 4, "heads": 8, "d_hidden": 1024, "max_new_tokens": 32}
# A token a character: those that dates are written in, and ideographs for the rest of a vocabulary of 8,000.
_CHARACTERS = Text("".join(map(chr, [*range(0x20, 0x7F), *range(0x4E00, 0x4E00 + 7_901)])))
_DATA = Dataset(
    name="none",
    licence="none: generated",
    summary="Random weights.",
    train=(Example({"text": _CHARACTERS, "target": _CHARACTERS}),),
    dev=(),
    test=(),
)


def make_repository(folder: Path, sizes: Mapping[str, int] = SIZES, *, interventions: bool = False) -> Path:
    """Export the missing models into `folder`; give the folder."""
    for name in MODELS:
        if not (folder / name / "1" / BUNDLE_FILE).is_file():
            export_model(untrained(name, sizes), folder, version=1, interventions=interventions)
    return folder


def untrained(name: str, sizes: Mapping[str, int] = SIZES) -> TrainedModel:
    """Make a model with random weights; the score of its end token is always 0, and never the highest."""
    torch.manual_seed(0)
    made = recipe(name)
    blueprint = made.prepare(_DATA, Preset(settings=Settings(), sizes=sizes))
    network = made.build(blueprint).eval().requires_grad_(False)
    network.get_parameter(MODELS[name])[blueprint.config.end] = 0
    card = made.card(network, blueprint)
    card.description.name = name
    examples = tuple({"text": Text(each)} for each in ("7 March 2021", "14/7/1789"))
    return TrainedModel(network, card, examples, TrainingData(name=_DATA.name, summary=_DATA.summary), ())
