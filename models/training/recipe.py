"""What one model needs to be trained: the parts in which models differ, as one record."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from models.cards.card import Card
from models.data.dataset import Dataset
from models.data.folder import Kind
from models.network import Network
from models.tasks.task import Task
from models.training.settings import Preset

C = TypeVar("C")


@dataclass(frozen=True)
class Blueprint(Generic[C]):
    """What the data decides: the model's config, its classes, and its tokenizer files by name."""

    config: C
    labels: tuple[str, ...]
    files: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Recipe(Generic[C]):
    """How a model is made, taught and judged.

    config: the dataclass of its sizes. prepare: decides by the training part (vocabulary, classes, sizes). build: the
    network, untrained. card: describes it, whatever the model is called. data: what its files hold. builtin: data that
    need no download, where there are some. presets: settings and sizes by name: `demo` for builtin data, small enough
    for a repository, `full` for data of one's own on a CPU, `paper` with the sizes of the paper, for a GPU. start: puts
    what is made of the training part (embeddings counted from it) into a new network, before it learns.
    """

    config: type[C]
    prepare: Callable[[Dataset, Preset], Blueprint[C]]
    build: Callable[[Blueprint[C]], Network]
    card: Callable[[Any, Blueprint[C]], Card]
    task: Task
    data: Kind
    presets: Mapping[str, Preset]
    start: Callable[[Any, Dataset, Blueprint[C]], None] | None = None
    builtin: Callable[..., Dataset] | None = None

    def but(self, **changes: Any) -> "Recipe[C]":
        """The same with some parts exchanged."""
        return replace(self, **changes)

    def supervised(self, weight: float) -> "Recipe[C]":
        """The same, taught where to look as well (`models.training.supervision`)."""
        presets = {
            name: replace(preset, settings=replace(preset.settings, supervision=weight))
            for name, preset in self.presets.items()
        }
        return replace(self, presets=presets)

    def read_config(self, values: Mapping[str, Any]) -> C:
        """A config from what JSON made of it. Raises: TypeError, ValueError where it is none."""
        return self.config(**{name: tuple(v) if isinstance(v, list) else v for name, v in values.items()})
