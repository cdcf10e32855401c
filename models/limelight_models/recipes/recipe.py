"""The recipe of a model: the parts of training in which models differ, as one record."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from limelight.v1 import model_pb2
from limelight_models.cards.card import Card
from limelight_models.cards.describe import describe
from limelight_models.cards.hidden import HiddenStates
from limelight_models.cards.inputs import Input, Noise, PairInput, TextInput, Tokenizer
from limelight_models.cards.maps import Map
from limelight_models.cards.results import Classes, Result
from limelight_models.cards.taxonomy import Citation, Taxonomy
from limelight_models.data.dataset import Dataset
from limelight_models.data.folder import Kind
from limelight_models.network import Network
from limelight_models.recipes.settings import Preset
from limelight_models.tasks.task import Task

C = TypeVar("C")
TOKENIZER = "tokenizer.json"


@dataclass(frozen=True)
class Blueprint(Generic[C]):
    """Choices that follow from the data: the model's config, its classes, and its tokenizer files by name."""

    config: C
    labels: tuple[str, ...]
    files: Mapping[str, str]

    def tokenizer(self, file: str = TOKENIZER) -> Tokenizer:
        """One of its tokenizers."""
        return Tokenizer(text=self.files[file], file=file)

    def text(self, summary: str) -> TextInput:
        """A text of at most the config's `max_tokens`."""
        config: Any = self.config
        return TextInput(summary=summary, tokenizer=self.tokenizer(), max_tokens=config.max_tokens)

    def pair(self, summary: str) -> PairInput:
        """Two texts, each of at most the config's `max_tokens`."""
        config: Any = self.config
        return PairInput(summary=summary, tokenizer=self.tokenizer(), max_tokens=config.max_tokens)

    def card(
        self,
        network: Network,
        *,
        title: str,
        summary: str,
        inputs: Sequence[Input],
        maps: Mapping[str, Map],
        citation: str,
        taxonomy: str,
        results: Sequence[Result] = (),
        outputs: Sequence[model_pb2.OutputDescription] = (),
        noise: Sequence[Noise] = (),
        hidden: Mapping[str, int] = MappingProxyType({}),
        max_characters: int = 0,
    ) -> Card:
        """Describe a network of this blueprint, with the limits that its `config` has.

        citation, taxonomy: as `Citation.of` and `Taxonomy.of` read them. results: the classes of the instance where
        there are neither others nor `outputs`, which no result is read from. hidden: stacks whose hidden states the
        network puts out, with the size of a vector. max_characters: where the config has none.
        """
        return describe(
            title=title,
            summary=summary,
            inputs=inputs,
            results=results if results or outputs else [Classes(labels=self.labels)],
            outputs=outputs,
            maps=maps,
            taxonomy=Taxonomy.of(taxonomy),
            citation=Citation.of(citation),
            noise=noise,
            hidden=[HiddenStates.of_maps(maps, stack, size) for stack, size in hidden.items()],
            config=network.config,
            max_characters=max_characters,
        )


@dataclass(frozen=True)
class Recipe(Generic[C]):
    """Construction, training and evaluation of a model.

    network: makes the network, untrained, of a config; of a blueprint where `needs_files`. card: describes it, whatever
    the model is called. prepare: decides by the training part (vocabulary, classes, sizes). data: what its files hold.
    builtin: data that need no download, where there are some. presets: settings and sizes by name: `tiny` for a trial
    of a moment, `demo` for builtin data, small enough for a repository, `full` for data of one's own on a CPU, `paper`
    with the sizes of the paper, for a GPU. start: puts what is made of the training part (embeddings counted from it)
    into a new network, before it learns. changes: fields of the config that a variant has otherwise. parts: arguments
    of `network` besides, which a variant has. control: what becomes of a new network
    (`limelight_models.recipes.controls`).
    """

    config: type[C]
    network: Callable[..., Network]
    card: Callable[[Any, Blueprint[C]], Card]
    prepare: Callable[[Dataset, Preset], Blueprint[C]]
    presets: Mapping[str, Preset]
    _: KW_ONLY
    task: Task
    data: Kind
    builtin: Callable[..., Dataset] | None = None
    start: Callable[[Any, Dataset, Blueprint[C]], None] | None = None
    needs_files: bool = False
    changes: Mapping[str, Any] = field(default_factory=dict)
    parts: Mapping[str, Any] = field(default_factory=dict)
    control: Callable[[Network], Network] | None = None

    def build(self, blueprint: Blueprint[C]) -> Network:
        """Make the network, untrained. Raises: ValueError where it has nothing that the control could hold fixed."""
        changed = replace(blueprint, config=replace(blueprint.config, **self.changes))  # type: ignore[type-var]
        made = self.network(changed if self.needs_files else changed.config, **self.parts)
        return self.control(made) if self.control else made

    def but(self, **exchanged: Any) -> "Recipe[C]":
        """The same with some fields exchanged."""
        return replace(self, **exchanged)

    def changed(self, **changes: Any) -> "Recipe[C]":
        """The same with some fields of the config changed, whatever a preset and the data say."""
        return replace(self, changes={**self.changes, **changes})

    def with_parts(self, **parts: Any) -> "Recipe[C]":
        """The same network with other parts: arguments of its class."""
        return replace(self, parts={**self.parts, **parts})

    def supervised(self, weight: float) -> "Recipe[C]":
        """The same, taught where to look as well (`limelight_models.training.supervision`)."""
        presets = {
            name: replace(preset, settings=replace(preset.settings, supervision=weight))
            for name, preset in self.presets.items()
        }
        return replace(self, presets=presets)

    def read_config(self, values: Mapping[str, Any]) -> C:
        """A config from what JSON made of it. Raises: TypeError, ValueError where it is none."""
        return self.config(**{name: tuple(v) if isinstance(v, list) else v for name, v in values.items()})
