"""Any mechanism of the registry, trained in its small task model: `limelight train mechanism --mechanism …`."""

from dataclasses import dataclass
from functools import partial

from limelight.suggestions import similar
from models.cards.card import Card
from models.catalogue.mechanism import Mechanism
from models.catalogue.registry import MECHANISMS
from models.data import docstrings, rows, tokenizers
from models.data.dataset import DataError, Dataset, classes
from models.network import Network
from models.tasks.classify import Classify
from models.testbed.text import Texts
from models.training.recipe import Blueprint, Recipe
from models.training.settings import Preset, Settings

TOKENIZER = "tokenizer.json"
DATA = {"sentence": rows.TEXTS, "pair": rows.TEXT_PAIRS, "aspect": rows.ASPECTS, "document": rows.DOCUMENTS}


@dataclass(frozen=True, kw_only=True)
class MechanismConfig:
    """Sizes of a small task model; see `Texts`."""

    d: int = 32
    dropout: float = 0.3
    max_tokens: int = 64
    max_sentences: int = 32


def recipe_of(name: str) -> Recipe[MechanismConfig]:
    """The recipe of a mechanism by its name in the registry. Raises: DataError where none has it that can be served."""
    found = {each.name: each for each in MECHANISMS}
    if not name:
        raise DataError("say which mechanism, with --mechanism; `limelight mechanisms` lists them")
    if name not in found:
        close = similar(name, found)
        raise DataError(f"there is no mechanism {name!r}; `limelight mechanisms` lists them{close}")
    mechanism = found[name]
    if mechanism.served is None:
        raise DataError(f"{name!r} is there to train other mechanisms with; it is no model of its own")
    task = mechanism.served.task
    builtin = {"sentence": docstrings.texts, "document": docstrings.dataset}.get(task)
    return Recipe(
        config=MechanismConfig,
        prepare=prepare,
        network=partial(build, mechanism),
        needs_files=True,
        card=partial(card, mechanism),
        task=Classify(),
        data=DATA[task],
        presets=PRESETS,
        builtin=builtin,
    )


def prepare(dataset: Dataset, preset: Preset) -> Blueprint[MechanismConfig]:
    """The training part's words and classes."""
    values = [value for example in dataset.train for value in example.instance.values()]
    tokenizer = tokenizers.words(tokenizers.texts_of(values), vocabulary=preset.vocabulary)
    return Blueprint(MechanismConfig(**preset.sizes), classes(dataset), {TOKENIZER: tokenizer})


def build(mechanism: Mechanism, blueprint: Blueprint[MechanismConfig]) -> Network:
    """The small task model."""
    return mechanism.serve(texts(blueprint))[0]


def card(mechanism: Mechanism, network: Network, blueprint: Blueprint[MechanismConfig]) -> Card:
    """Its card."""
    return mechanism.serve(texts(blueprint))[1]


def texts(blueprint: Blueprint[MechanismConfig]) -> Texts:
    """What it reads and tells apart."""
    config = blueprint.config
    return Texts(
        tokenizer=blueprint.files[TOKENIZER],
        labels=blueprint.labels,
        d=config.d,
        dropout=config.dropout,
        max_tokens=config.max_tokens,
        max_sentences=config.max_sentences,
    )


PRESETS = {
    "demo": Preset(settings=Settings(epochs=8, batch_size=16, learning_rate=4e-3, patience=3), vocabulary=3000),
    "full": Preset(settings=Settings(epochs=8, batch_size=32, learning_rate=4e-3, patience=3), vocabulary=8000),
}
