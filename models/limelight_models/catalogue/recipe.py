"""Any mechanism of the registry, trained in its small task model: `limelight train mechanism --mechanism …`."""

from dataclasses import dataclass
from functools import partial

from limelight.base.suggestions import similar
from limelight_bundle.values import TensorValue
from limelight_models.cards.card import Card
from limelight_models.catalogue.mechanism import Mechanism
from limelight_models.catalogue.registry import MECHANISMS
from limelight_models.catalogue.testbed.beside import DISTANCES, VARIABLES
from limelight_models.catalogue.testbed.picture import PICTURE
from limelight_models.catalogue.testbed.text import Texts
from limelight_models.data import beside, digits, docstrings, folder, rows, tokenizers
from limelight_models.data.dataset import DataError, Dataset, classes
from limelight_models.network import Network
from limelight_models.recipes.recipe import Blueprint, Recipe
from limelight_models.recipes.settings import Preset, Settings
from limelight_models.tasks.classify import Classify

TOKENIZER = "tokenizer.json"
DATA: dict[str, folder.Kind] = {
    "sentence": rows.TEXTS,
    "pair": rows.TEXT_PAIRS,
    "aspect": rows.ASPECTS,
    "document": rows.DOCUMENTS,
    DISTANCES: beside.PARSED,
    VARIABLES: beside.MEASURED,
    PICTURE: folder.IMAGES,
}
BUILTIN = {"sentence": docstrings.texts, "document": docstrings.dataset, PICTURE: digits.dataset}


@dataclass(frozen=True, kw_only=True)
class MechanismConfig:
    """Sizes of a small task model; see `Texts`."""

    d: int = 32
    dropout: float = 0.3
    max_tokens: int = 64
    max_sentences: int = 32
    variables: int = 3


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
    return Recipe(
        MechanismConfig,
        partial(build, mechanism),
        partial(card, mechanism),
        partial(prepare, task),
        PRESETS,
        needs_files=True,
        task=Classify(),
        data=DATA[task],
        builtin=BUILTIN.get(task),
    )


def prepare(task: str, dataset: Dataset, preset: Preset) -> Blueprint[MechanismConfig]:
    """The training part's words, variables and classes. Raises: DataError where variables are not always as many."""
    values = [value for example in dataset.train for value in example.instance.values()]
    sizes = {**preset.sizes}
    if task == VARIABLES:
        counts = {len(value.array) for value in values if isinstance(value, TensorValue)}
        if len(counts) > 1:
            raise DataError(
                f"examples have from {min(counts)} to {max(counts)} variables; each has as many as the others"
            )
        sizes["variables"] = counts.pop()
    files = {}
    if task != PICTURE:
        files[TOKENIZER] = tokenizers.words(tokenizers.texts_of(values), vocabulary=preset.vocabulary)
    return Blueprint(MechanismConfig(**sizes), classes(dataset), files)


def build(mechanism: Mechanism, blueprint: Blueprint[MechanismConfig]) -> Network:
    """The small task model."""
    return mechanism.serve(texts(blueprint))[0]


def card(mechanism: Mechanism, network: Network, blueprint: Blueprint[MechanismConfig]) -> Card:
    """Its card."""
    return mechanism.serve(texts(blueprint))[1]


def texts(blueprint: Blueprint[MechanismConfig]) -> Texts:
    """Texts and classes of a model."""
    config = blueprint.config
    return Texts(
        tokenizer=blueprint.files.get(TOKENIZER, ""),  # pictures have none
        labels=blueprint.labels,
        d=config.d,
        dropout=config.dropout,
        max_tokens=config.max_tokens,
        max_sentences=config.max_sentences,
        variables=config.variables,
    )


PRESETS = {
    "demo": Preset(settings=Settings(epochs=8, batch_size=16, learning_rate=4e-3, patience=3), vocabulary=3000),
    "full": Preset(settings=Settings(epochs=8, batch_size=32, learning_rate=4e-3, patience=3), vocabulary=8000),
}
